//! Whose request it is: the owner of a registration shows its token, and whoever registers where that takes one a credential.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use restante_wire::relay::{JobId, Token, headers};

use super::path;
use super::problem::{Answer, Code, Refusal};
use crate::Relay;
use crate::credentials::{Payment, unknown};
use crate::jobs::JobKey;
use crate::keys::Registration;

/// The registration that a request is about, `{key}` of the path: its token has come along.
pub(super) struct Owner(pub(super) Registration);

/// A job of such a registration, `{job}` of the path. Whether there is one is not known yet.
pub(super) struct OwnJob(pub(super) JobKey);

/// The credential of a registration, where it takes one.
pub(super) struct Paid(pub(super) Option<Payment>);

impl FromRequestParts<Arc<Relay>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, relay: &Arc<Relay>) -> Answer<Self> {
        let key = path(&part(parts, relay, "key").await?, "key")?;
        let token = bearer(&parts.headers).and_then(|text| text.parse::<Token>().ok());
        let registration = relay.keys.authorize(&key, &token.ok_or_else(Refusal::unauthorized)?)?;
        relay.by_key.take(registration.id)?;
        Ok(Self(registration))
    }
}

impl FromRequestParts<Arc<Relay>> for OwnJob {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, relay: &Arc<Relay>) -> Answer<Self> {
        let Owner(registration) = Owner::from_request_parts(parts, relay).await?;
        let job: JobId = path(&part(parts, relay, "job").await?, "job")?;
        Ok(Self((registration.id, job)))
    }
}

impl FromRequestParts<Arc<Relay>> for Paid {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, relay: &Arc<Relay>) -> Answer<Self> {
        if !relay.config.needs_credential() {
            return Ok(Self(None));
        }
        let credential = bearer(&parts.headers).and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
        let request = parts.headers.get(headers::REQUEST_ID).and_then(|value| value.to_str().ok());
        let request = request.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let detail = "expected 16 random bytes in hexadecimal, the same when the request is repeated";
            Refusal::new(Code::Malformed, detail).at(format!("header:{}", headers::REQUEST_ID))
        })?;
        Ok(Self(Some(Payment::new(credential, request))))
    }
}

fn bearer(fields: &HeaderMap) -> Option<&str> {
    fields.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// A part of the path as it is.
async fn part(parts: &mut Parts, relay: &Arc<Relay>, name: &str) -> Answer<String> {
    let malformed = || Refusal::new(Code::Malformed, "expected UTF-8").at(format!("path:{name}"));
    let all = RawPathParams::from_request_parts(parts, relay).await.map_err(|_| malformed())?;
    all.iter().find(|(found, _)| *found == name).map(|(_, text)| text.to_owned()).ok_or_else(malformed)
}
