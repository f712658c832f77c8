//! Answers to requests that are refused: RFC 9457, with the codes of docs/protocol.md.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use restante_wire::relay::{Problem, headers, media};

pub(super) use crate::refusal::{Code, Refusal};

/// An answer to a request, or why there is none.
pub(super) type Answer<T = Response<Body>> = Result<T, Refusal>;

/// Status, name and title of a code.
fn parts(code: Code) -> (u16, &'static str, &'static str) {
    match code {
        Code::Malformed => (400, "malformed", "a field cannot be read"),
        Code::Unauthorized => (401, "unauthorized", "no token of this key"),
        Code::Credential => (401, "credential", "registration needs a credential"),
        Code::CredentialExpired => (403, "credential-expired", "the credential has expired"),
        Code::CredentialRevoked => (403, "credential-revoked", "the credential was revoked"),
        Code::CredentialSpent => (403, "credential-spent", "the credential is used up"),
        Code::ReadOnly => (403, "read-only", "this relay mirrors another one"),
        Code::NotFound => (404, "not-found", "there is no such thing"),
        Code::Method => (405, "method", "the route has no such method"),
        Code::Timeout => (408, "timeout", "the request came too slowly"),
        Code::Conflict => (409, "conflict", "the state does not allow it"),
        Code::Duplicate => (409, "duplicate", "the board has this clue already"),
        Code::Offset => (409, "offset", "the upload goes on elsewhere"),
        Code::Gone => (410, "gone", "the relay no longer has these messages"),
        Code::Length => (411, "length", "the length of the body is missing"),
        Code::TooLarge => (413, "too-large", "over a limit"),
        Code::MediaType => (415, "media-type", "another type of body is expected"),
        Code::Range => (416, "range", "there is no such range"),
        Code::Invalid => (422, "invalid", "the body is wrong"),
        Code::Period => (422, "period", "a clue is not of today, by the relay's clock"),
        Code::Rate => (429, "rate", "too many requests"),
        Code::Internal => (500, "internal", "the relay failed; nothing was accepted"),
        Code::Busy => (503, "busy", "overloaded, or stopping"),
        Code::Storage => (507, "storage", "no space left"),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let (status, code, title) = parts(self.code);
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
