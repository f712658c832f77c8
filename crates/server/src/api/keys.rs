//! Detection keys, standing orders.

use std::fs::File;
use std::io::ErrorKind;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use axum::response::{IntoResponse, Json};
use restante_omr::OmrError;
use restante_wire::relay::{
    DigestKind, DigestList, KeyStatus, RegisterRequest, Registered, StandingRequest, StandingStatus, headers,
    media,
};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use super::board::refuse_body;
use super::body::{self, Incoming};
use super::owner::{Owner, Paid};
use super::problem::{Answer, Code, Refusal};
use super::{Shared, binary, blocking, empty, required};
use crate::ServerError;
use crate::files::{read_limited, remove};
use crate::keys::Registration;
use crate::limits::{Memory, hold, origin};

/// Seconds for which an upload waits for the check of another compact key.
const CHECK: Duration = Duration::from_secs(20);

/// Bytes of an upload that have come and are not on disk yet.
const PART_BYTES: u64 = 256 << 10;

/// The right to check a key.
#[allow(dead_code, reason = "held, not read")]
enum Check {
    Stream(Memory),
    /// One at a time.
    Compact(OwnedSemaphorePermit),
}

impl Check {
    async fn take(relay: &crate::Relay, kind: DigestKind) -> Answer<Self> {
        let Some(compact) = relay.detection.compact().filter(|_| kind == DigestKind::Compact) else {
            return Ok(Self::Stream(relay.memory.take(relay.detection.check_bytes())?));
        };
        // Too large for the memory of bodies.
        match tokio::time::timeout(CHECK, compact.checks().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Self::Compact(permit)),
            _ => {
                let detail = "other keys are being checked: send an empty part at the end again";
                Err(Refusal::new(Code::Busy, detail).retry_after(10))
            }
        }
    }
}

/// Registers a detection key, whose file is uploaded afterwards.
#[utoipa::path(post, path = "/v1/keys", request_body = RegisterRequest, responses((status = 201, body = Registered)))]
pub(super) async fn register(
    State(relay): Shared,
    Paid(payment): Paid,
    fields: HeaderMap,
    body: Body,
) -> Answer {
    let request: RegisterRequest = body::json(&relay, &fields, body).await?;
    let Some(info) = relay.detection.info_of(request.kind) else {
        return Err(Refusal::new(Code::Invalid, "this relay does not make such digests").at("body:kind"));
    };
    if request.parameters != info.parameters {
        let detail = format!("{}, expected {}", request.parameters, info.parameters);
        return Err(Refusal::new(Code::Invalid, detail).at("body:parameters"));
    }
    if request.bytes != info.key_bytes {
        let detail = format!("{}, expected {}", request.bytes, info.key_bytes);
        return Err(Refusal::new(Code::Invalid, detail).at("body:bytes"));
    }
    relay.require_space(request.bytes)?;
    let (of, from) = (relay.clone(), origin());
    let (token, registration) = blocking(move || {
        let (token, registration, removed) = of.keys.register(&request, payment.as_ref(), from)?;
        removed.into_iter().try_for_each(|one| of.forget(one))?;
        Ok((token, registration))
    })
    .await?;
    let key = relay.keys.status(&registration);
    let location = format!("/v1/keys/{}", key.key);
    Ok((StatusCode::CREATED, [("location", location)], Json(Registered { token, key })).into_response())
}

/// Describes a registration.
#[utoipa::path(get, path = "/v1/keys/{key}", params(("key" = String, Path)), responses((status = 200, body = KeyStatus)))]
pub(super) async fn status(State(relay): Shared, Owner(registration): Owner) -> Answer<Json<KeyStatus>> {
    Ok(Json(relay.keys.status(&registration)))
}

/// Removes a registration and all that belongs to it.
#[utoipa::path(delete, path = "/v1/keys/{key}", params(("key" = String, Path)), responses((status = 204)))]
pub(super) async fn delete(State(relay): Shared, Owner(registration): Owner) -> Answer {
    let claim = relay.keys.claim(registration.id)?;
    blocking(move || {
        if let Some(removed) = relay.keys.remove(&registration.id)? {
            relay.forget(removed)?;
        }
        drop(claim);
        Ok(())
    })
    .await?;
    Ok(empty())
}

/// How far an upload is.
#[utoipa::path(head, path = "/v1/keys/{key}/content", params(("key" = String, Path)), responses((status = 204)))]
pub(super) async fn offset(State(relay): Shared, Owner(registration): Owner) -> Answer {
    let status = relay.keys.status(&registration);
    let mut response = empty();
    response.headers_mut().insert(headers::UPLOAD_OFFSET, status.uploaded.into());
    response.headers_mut().insert(headers::UPLOAD_LENGTH, status.bytes.into());
    Ok(response)
}

/// Uploads a part of a key's file.
#[utoipa::path(patch, path = "/v1/keys/{key}/content", params(("key" = String, Path)),
    request_body(content = String, content_type = "application/vnd.restante.key-part.v1"),
    responses((status = 200, body = KeyStatus)))]
pub(super) async fn upload(
    State(relay): Shared,
    Owner(registration): Owner,
    fields: HeaderMap,
    body: Body,
) -> Answer<Json<KeyStatus>> {
    body::require_type(&fields, media::KEY_PART)?;
    let length = body::length(&body, relay.config.limits.upload_part_bytes)?;
    let field = format!("header:{}", headers::UPLOAD_OFFSET);
    let offset = fields.get(headers::UPLOAD_OFFSET).and_then(|value| value.to_str().ok());
    let Some(offset) = offset.and_then(|text| text.parse::<u64>().ok()) else {
        return Err(Refusal::new(Code::Malformed, "expected the offset of the part's first byte").at(field));
    };
    let claim = relay.keys.claim(registration.id)?;
    // Only now: the request that had the claim before may have finished the upload.
    let registration = relay.keys.get(&registration.id).ok_or_else(Refusal::unauthorized)?;
    let here = relay.keys.status(&registration).uploaded;
    if registration.ready || offset != here {
        let detail = format!("the part starts at byte {offset}, expected {here}");
        return Err(Refusal::new(Code::Offset, detail).at(field).upload_offset(here));
    }
    if length > registration.bytes - here {
        let detail = format!("{length} bytes, expected at most {}", registration.bytes - here);
        return Err(Refusal::new(Code::TooLarge, detail).at("header:content-length"));
    }
    relay.require_space(length)?;
    // What has come and is not written yet.
    let (memory, given_up) = relay.memory.take_for_body(PART_BYTES).await?;

    let file =
        receive(&relay, &registration, Incoming::new(&relay, body, length).given_up_by(given_up)).await?;
    if here + length < registration.bytes {
        return Ok(Json(relay.keys.status(&registration)));
    }
    let path = relay.data.upload(&registration.id);
    file.sync_all().await.map_err(|error| Refusal::from(ServerError::io("write", &path)(error)))?;
    drop((file, memory));
    let permit = Check::take(&relay, registration.kind).await?;
    let keys = relay.keys.clone();
    let status = blocking(move || {
        let verified = verify(&relay, &registration);
        if let Err(refusal) = &verified
            && refusal.code() == Code::Invalid
        {
            remove(&relay.data.upload(&registration.id))?;
        }
        verified?;
        let registration = keys.finish_upload(&registration.id)?;
        drop((claim, permit));
        Ok(keys.status(&registration))
    })
    .await?;
    Ok(Json(status))
}

/// Appends a part to the file of an upload, as it comes. What has come of one that breaks off stays: the upload goes on behind it.
async fn receive(
    relay: &crate::Relay,
    registration: &Registration,
    mut incoming: Incoming,
) -> Answer<tokio::fs::File> {
    let path = relay.data.upload(&registration.id);
    let failed = |error| Refusal::from(ServerError::io("write", &path)(error));
    let mut options = tokio::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.open(&path).await.map_err(failed)?;
    let broken = loop {
        match incoming.next().await {
            Ok(Some(part)) => file.write_all(&part).await.map_err(failed)?,
            Ok(None) if incoming.left() > 0 => {
                break Some(Refusal::new(Code::Malformed, "the body broke off").at("body"));
            }
            Ok(None) => break None,
            Err(refusal) => break Some(refusal),
        }
    };
    file.flush().await.map_err(failed)?;
    match broken {
        Some(refusal) => Err(refusal),
        None => Ok(file),
    }
}

/// Checks hash, envelope and contents of an upload that is complete.
fn verify(relay: &crate::Relay, registration: &Registration) -> Answer<()> {
    let path = relay.data.upload(&registration.id);
    let mut hasher = blake3::Hasher::new();
    File::open(&path)
        .and_then(|file| hasher.update_reader(file).map(drop))
        .map_err(ServerError::io("read", &path))?;
    if *hasher.finalize().as_bytes() != registration.hash.0 {
        let detail = "the file has another hash than was announced";
        return Err(Refusal::new(Code::Invalid, detail).at("body:hash"));
    }
    let bytes = read_limited(&path, registration.bytes)?;
    relay.detection.check_key(registration.kind, &bytes).map_err(|error| match error {
        OmrError::Wire(error) => refuse_body(&error),
        error => Refusal::new(Code::Invalid, error.to_string()).at("body"),
    })
}

/// Asks for digests of all messages as they come.
#[utoipa::path(put, path = "/v1/keys/{key}/standing", params(("key" = String, Path)),
    request_body = StandingRequest, responses((status = 200, body = KeyStatus)))]
pub(super) async fn order(
    State(relay): Shared,
    Owner(registration): Owner,
    fields: HeaderMap,
    body: Body,
) -> Answer<Json<KeyStatus>> {
    let request: StandingRequest = body::json(&relay, &fields, body).await?;
    if !registration.ready {
        return Err(Refusal::new(Code::Conflict, "the key has not been uploaded"));
    }
    let compact = relay.detection.compact().filter(|compact| compact.takes_orders());
    if registration.kind == DigestKind::Compact && compact.is_none() {
        let detail = "this relay takes no standing orders for compact keys";
        return Err(Refusal::new(Code::Invalid, detail).at("path:key"));
    }
    let board = relay.view.board();
    let first = request.first.unwrap_or(board.len());
    if first > board.len() {
        let detail = format!("{first}, but the board has {} messages", board.len());
        return Err(Refusal::new(Code::Range, detail).at("body:first"));
    }
    let (order, oldest) = match (registration.kind, compact) {
        // What is left of a block is no block: the order goes on with the next one.
        (DigestKind::Compact, Some(compact)) => (compact_order(first, compact.block()), first),
        _ => {
            let order = relay.standing.order(first);
            let oldest = order.first;
            (order, oldest)
        }
    };
    if oldest < board.retained_from() {
        let detail = format!("the relay has the messages from {} on", board.retained_from());
        return Err(Refusal::new(Code::Gone, detail).at("body:first"));
    }
    let keys = relay.keys.clone();
    let registration = blocking(move || keys.order(&registration.id, order)).await?;
    Ok(Json(relay.keys.status(&registration)))
}

/// The status of a new order of a compact key.
fn compact_order(first: u64, block: u64) -> StandingStatus {
    let first = first - first % block;
    StandingStatus { first, complete_to: first }
}

/// Ends a standing order and forgets its digests, or its pertinency vectors.
#[utoipa::path(delete, path = "/v1/keys/{key}/standing", params(("key" = String, Path)), responses((status = 204)))]
pub(super) async fn cancel_order(State(relay): Shared, Owner(registration): Owner) -> Answer {
    blocking(move || relay.keys.cancel_order(&registration.id)).await?;
    Ok(empty())
}

/// The digests of a standing order.
#[utoipa::path(get, path = "/v1/keys/{key}/digests", params(("key" = String, Path), ("first" = u64, Query)),
    responses((status = 200, description = "application/vnd.restante.digests.v1")))]
pub(super) async fn digests(
    State(relay): Shared,
    Owner(registration): Owner,
    uri: Uri,
) -> Answer<Response<Body>> {
    let first = required(&uri, "first")?;
    if registration.kind != DigestKind::Stream {
        let detail = format!("a key for {} digests, expected one for stream digests", registration.kind);
        return Err(Refusal::new(Code::Invalid, detail).at("path:key"));
    }
    let Some(standing) = registration.standing.clone() else {
        return Err(Refusal::new(Code::NotFound, "this key has no standing order"));
    };
    let count = relay.view.board().len();
    if first < standing.first || first > count {
        let detail = format!("{first}, expected {} to {count}", standing.first);
        return Err(Refusal::new(Code::Range, detail).at("query:first"));
    }
    let block = relay.detection.block();
    let retained = relay.view.board().retained_from();
    if first < retained - retained % block {
        let detail = format!("{first}, but the relay has the messages from {retained} on");
        return Err(Refusal::new(Code::Gone, detail).at("query:first"));
    }
    let parameters = relay.detection.parameters();
    let bytes = relay.config.limits.page_bytes;
    // The digests, and the body that they are copied into.
    let permit = relay.memory.take(2 * bytes.max(relay.detection.block_bytes() + 1024))?;
    let (body, complete_to) = blocking(move || {
        let read = relay.standing.read(&registration, &standing, first, bytes);
        let (digests, complete_to) = read.map_err(|error| match &error {
            // The order was deleted meanwhile.
            ServerError::Io { reason, .. } if reason.kind() == ErrorKind::NotFound => {
                Refusal::new(Code::NotFound, "this key has no standing order")
            }
            _ => error.into(),
        })?;
        Ok((hold(DigestList(digests).to_body(parameters), permit), complete_to))
    })
    .await?;
    Ok(binary(media::DIGESTS, body, &[(headers::COMPLETE_TO, complete_to)]))
}
