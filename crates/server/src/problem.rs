//! Answers to requests that are refused: RFC 9457, with the codes of docs/protocol.md.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use restante_wire::relay::{Problem, headers, media};

use crate::ServerError;

/// The codes.
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

impl Code {
    fn parts(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Malformed => (400, "malformed", "a field cannot be read"),
            Self::Unauthorized => (401, "unauthorized", "no token of this key"),
            Self::Credential => (401, "credential", "registration needs a credential"),
            Self::CredentialExpired => (403, "credential-expired", "the credential has expired"),
            Self::CredentialRevoked => (403, "credential-revoked", "the credential was revoked"),
            Self::CredentialSpent => (403, "credential-spent", "the credential is used up"),
            Self::ReadOnly => (403, "read-only", "this relay mirrors another one"),
            Self::NotFound => (404, "not-found", "there is no such thing"),
            Self::Method => (405, "method", "the route has no such method"),
            Self::Timeout => (408, "timeout", "the request came too slowly"),
            Self::Conflict => (409, "conflict", "the state does not allow it"),
            Self::Duplicate => (409, "duplicate", "the board has this clue already"),
            Self::Offset => (409, "offset", "the upload goes on elsewhere"),
            Self::Gone => (410, "gone", "the relay no longer has these messages"),
            Self::Length => (411, "length", "the length of the body is missing"),
            Self::TooLarge => (413, "too-large", "over a limit"),
            Self::MediaType => (415, "media-type", "another type of body is expected"),
            Self::Range => (416, "range", "there is no such range"),
            Self::Invalid => (422, "invalid", "the body is wrong"),
            Self::Period => (422, "period", "a clue is not of today, by the relay's clock"),
            Self::Rate => (429, "rate", "too many requests"),
            Self::Internal => (500, "internal", "the relay failed; nothing was accepted"),
            Self::Busy => (503, "busy", "overloaded, or stopping"),
            Self::Storage => (507, "storage", "no space left"),
        }
    }
}

/// A refused request.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    code: Code,
    detail: String,
    field: Option<String>,
    retry_after: Option<u64>,
    offset: Option<u64>,
}

pub(crate) type Answer<T = Response<Body>> = Result<T, Refusal>;

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

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let (status, code, title) = self.code.parts();
        let problem = Problem {
            kind: format!("{}{code}", Problem::TYPE_PREFIX),
            title: title.into(),
            status,
            detail: self.detail,
            field: self.field,
            retry_after: self.retry_after,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media::PROBLEM));
        if let Some(seconds) = self.retry_after {
            fields.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(offset) = self.offset {
            fields.insert(headers::UPLOAD_OFFSET, offset.into());
        }
        if status == 401 {
            fields.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
