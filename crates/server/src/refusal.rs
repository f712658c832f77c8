//! Refusals, with their reasons: the errors of the relay's rules.

use crate::ServerError;

/// Why something is refused: the codes of docs/protocol.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Malformed,
    Unauthorized,
    Credential,
    CredentialExpired,
    CredentialRevoked,
    CredentialSpent,
    ReadOnly,
    NotFound,
    Method,
    Timeout,
    Conflict,
    Duplicate,
    Offset,
    Gone,
    Length,
    TooLarge,
    MediaType,
    Range,
    Invalid,
    Period,
    Rate,
    Internal,
    Busy,
    Storage,
}

/// Something that is not done, and why. How that is said over HTTP is for `api` to know.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    /// The fault, and the right form.
    pub(crate) detail: String,
    /// Which part of what was asked is wrong.
    pub(crate) field: Option<String>,
    /// Seconds after which it is worth asking again.
    pub(crate) retry_after: Option<u64>,
    /// Where an upload goes on.
    pub(crate) offset: Option<u64>,
}

/// The answer to a request, or the reason why there is none.
pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry_after = match code {
            Code::Busy | Code::Rate => Some(1),
            Code::Storage => Some(60),
            _ => None,
        };
        Self { code, detail: detail.into(), field: None, retry_after, offset: None }
    }

    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn upload_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The one answer to everybody who does not own a key.
    pub(crate) fn unauthorized() -> Self {
        let detail =
            "expected \"Authorization: Bearer \" and the token that was given when this key was registered";
        Self::new(Code::Unauthorized, detail).at("header:authorization")
    }

    pub(crate) fn stopping() -> Self {
        Self::new(Code::Busy, "the relay is stopping").retry_after(5)
    }

    /// A failure on this side: the log has it, the client learns that it was not its fault.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(Code::Internal, "the relay failed; its log says why")
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        if error.is_full() {
            tracing::warn!(%error, "disk full");
            return Self::new(Code::Storage, "no space left on the relay's disk");
        }
        Self::internal(&error)
    }
}
