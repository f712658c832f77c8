//! The digest that somebody wants: what a request for one comes down to. From then on nobody looks at the request.

use std::ops::Range;

use restante_letter::digest_request;
use restante_omr::compact::DigestRequest;
use restante_wire::relay::DigestKind;

/// A digest of a range of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) range: Range<u64>,
    pub(crate) form: Form,
}

/// The kind of a digest, with what is said of one of that kind. A new kind is a new arm here, and of what the compiler then asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Stream,
    /// `payload_bytes` is 0 for indices alone.
    Compact {
        capacity: u32,
        payload_bytes: u32,
    },
}

impl Form {
    /// The form that the registry has written down; `None` for one that was never accepted.
    pub(crate) fn of_row(
        kind: DigestKind,
        capacity: Option<u32>,
        payload_bytes: Option<u32>,
    ) -> Option<Self> {
        match (kind, capacity) {
            (DigestKind::Stream, None) => Some(Self::Stream),
            (DigestKind::Compact, Some(capacity)) => {
                Some(Self::Compact { capacity, payload_bytes: payload_bytes.unwrap_or(0) })
            }
            _ => None,
        }
    }

    pub(crate) fn kind(self) -> DigestKind {
        match self {
            Self::Stream => DigestKind::Stream,
            Self::Compact { .. } => DigestKind::Compact,
        }
    }

    /// Capacity and bytes of payloads, for forms that have them.
    pub(crate) fn sizes(self) -> (Option<u32>, Option<u32>) {
        match self {
            Self::Stream => (None, None),
            Self::Compact { capacity, payload_bytes } => (Some(capacity), Some(payload_bytes)),
        }
    }
}

impl Wanted {
    /// The request to the circuit; none for a stream digest.
    pub(crate) fn compact(&self) -> Option<DigestRequest> {
        match self.form {
            Form::Stream => None,
            Form::Compact { capacity, payload_bytes } => {
                Some(digest_request(self.range.clone(), capacity as usize, payload_bytes as usize))
            }
        }
    }
}
