//! Request bodies, read with every limit that there is.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use restante_wire::relay::media;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::problem::{Answer, Code, Refusal};
use crate::Relay;
use crate::limits::Memory;

/// Bytes of the longest JSON body.
const JSON_BYTES: u64 = 16 << 10;

/// A body that comes in parts, each in time.
pub(crate) struct Incoming {
    body: Body,
    deadline: Instant,
    left: u64,
    /// Told when others need the memory.
    given_up: Option<Arc<Notify>>,
}

/// Checks the type of a body.
pub(crate) fn require_type(headers: &HeaderMap, expected: &'static str) -> Answer<()> {
    let found = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = found.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(Refusal::new(Code::MediaType, format!("expected {expected}")).at("header:content-type"))
    }
}

/// The announced length of a body, within a limit.
pub(crate) fn length(body: &Body, limit: u64) -> Answer<u64> {
    let Some(length) = body.size_hint().exact() else {
        let detail = "expected a body whose length is announced";
        return Err(Refusal::new(Code::Length, detail).at("header:content-length"));
    };
    if length <= limit {
        Ok(length)
    } else {
        let detail = format!("{length} bytes, expected at most {limit}");
        Err(Refusal::new(Code::TooLarge, detail).at("header:content-length"))
    }
}

impl Incoming {
    /// A body of at most `length` bytes.
    pub(crate) fn new(relay: &Relay, body: Body, length: u64) -> Self {
        let limits = &relay.config.limits;
        let seconds = limits.body_seconds + length / limits.body_bytes_per_second;
        Self { body, deadline: Instant::now() + Duration::from_secs(seconds), left: length, given_up: None }
    }

    /// Bytes of the announced length that have not come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Ends when this is told.
    pub(crate) fn given_up_by(mut self, given_up: Arc<Notify>) -> Self {
        self.given_up = Some(given_up);
        self
    }

    /// The next part; none at the end.
    pub(crate) async fn next(&mut self) -> Answer<Option<Bytes>> {
        loop {
            let given_up = async {
                match &self.given_up {
                    Some(given_up) => given_up.notified().await,
                    None => std::future::pending().await,
                }
            };
            let frame = tokio::select! {
                frame = timeout_at(self.deadline, self.body.frame()) => frame,
                () = given_up => {
                    let detail = "the body came so slowly that its memory was given to others";
                    return Err(Refusal::new(Code::Busy, detail).retry_after(5));
                }
            };
            let frame =
                frame.map_err(|_| Refusal::new(Code::Timeout, "the body came too slowly").at("body"))?;
            let Some(frame) = frame else { return Ok(None) };
            let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() else { continue };
            let Some(left) = self.left.checked_sub(data.len() as u64) else {
                return Err(Refusal::new(Code::TooLarge, "the body is longer than it may be").at("body"));
            };
            self.left = left;
            return Ok(Some(data));
        }
    }

    async fn collect(mut self, capacity: usize) -> Answer<Vec<u8>> {
        let mut bytes = Vec::with_capacity(capacity);
        while let Some(part) = self.next().await? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }
}

/// A body that ended early: the connection was closed, or nothing came for too long.
fn broken(error: &axum::Error) -> Refusal {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let mut kinds =
        causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    if kinds.any(|kind| kind == std::io::ErrorKind::TimedOut) {
        Refusal::new(Code::Timeout, "the body came too slowly").at("body")
    } else {
        Refusal::new(Code::Malformed, "the body broke off").at("body")
    }
}

/// A whole binary body, and the right to the memory that it takes.
pub(crate) async fn read(
    relay: &Relay,
    headers: &HeaderMap,
    body: Body,
    media_type: &'static str,
    limit: u64,
) -> Answer<(Vec<u8>, Memory)> {
    read_for(relay, headers, body, media_type, limit, |length| length).await
}

/// A whole binary body, and the right to the memory that it and what is made of it take: `needed` says how much that is for a
/// body of a length.
pub(crate) async fn read_for(
    relay: &Relay,
    headers: &HeaderMap,
    body: Body,
    media_type: &'static str,
    limit: u64,
    needed: impl FnOnce(u64) -> u64,
) -> Answer<(Vec<u8>, Memory)> {
    require_type(headers, media_type)?;
    let length = length(&body, limit)?;
    let (mut memory, given_up) = relay.memory.take_for_body(needed(length)).await?;
    // The buffer grows as the body comes: who announces much and sends nothing takes no memory but what is set aside.
    let bytes = Incoming::new(relay, body, length).given_up_by(given_up).collect(0).await?;
    memory.arrived();
    Ok((bytes, memory))
}

/// A JSON body.
pub(crate) async fn json<T: DeserializeOwned>(relay: &Relay, headers: &HeaderMap, body: Body) -> Answer<T> {
    require_type(headers, media::JSON)?;
    let most = match body.size_hint().exact() {
        Some(_) => length(&body, JSON_BYTES)?,
        None => JSON_BYTES,
    };
    // The text, and what it is read into.
    let (_memory, given_up) = relay.memory.take_for_body(2 * most).await?;
    let bytes = Incoming::new(relay, body, JSON_BYTES).given_up_by(given_up).collect(0).await?;
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.inner().to_string();
        // A field that is missing or too many is named in the reason only.
        let named = reason.strip_prefix("missing field `").or_else(|| reason.strip_prefix("unknown field `"));
        let field = match (named.and_then(|rest| rest.split('`').next()), path.as_str()) {
            (Some(name), _) => format!("body:{name}"),
            (None, "." | "?") => "body".into(),
            (None, path) => format!("body:{path}"),
        };
        Refusal::new(Code::Malformed, reason).at(field)
    })?;
    match reader.end() {
        Ok(()) => Ok(value),
        Err(_) => Err(Refusal::new(Code::Malformed, "more bytes after the end of the JSON").at("body")),
    }
}
