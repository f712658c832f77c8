//! The board's routes.

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri, header};
use axum::response::{IntoResponse, Json};
use restante_clue::{ClueParameters, unpack_coefficients};
use restante_wire::relay::{HeadStatus, PostBatch, PostResult, RelayInfo, headers, media};
use restante_wire::{Encode, Envelope, Kind, ParameterId, WireError};

use super::problem::{Answer, Code, Refusal};
use super::{Shared, binary, blocking, body, number, required};
use crate::board::{consistency as prove, page};
use crate::limits::hold;

/// Describes the relay and its limits.
#[utoipa::path(get, path = "/v1/parameters", responses((status = 200, body = RelayInfo)))]
pub(super) async fn parameters(State(relay): Shared) -> Json<RelayInfo> {
    Json(relay.info.clone())
}

/// The newest head.
#[utoipa::path(get, path = "/v1/head", responses(
    (status = 200, body = HeadStatus, description = "With Accept: application/json; otherwise application/vnd.restante.head.v2")
))]
pub(super) async fn head(State(relay): Shared, fields: HeaderMap) -> Response<Body> {
    let (board, head) = relay.view.signed();
    let accept = fields.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(media::JSON) {
        return Json(HeadStatus::new(&head, board.retained_from())).into_response();
    }
    binary(media::HEAD, head.to_file(), &[(headers::COMPLETE_TO, head.count)])
}

/// The proof that the messages of an earlier head are the first of a later one.
#[utoipa::path(get, path = "/v1/consistency", params(("from" = u64, Query), ("to" = u64, Query)),
    responses((status = 200, description = "application/vnd.restante.consistency.v1")))]
pub(super) async fn consistency(State(relay): Shared, uri: Uri) -> Answer {
    let (from, to) = (required(&uri, "from")?, required(&uri, "to")?);
    let (board, head) = relay.view.signed();
    if to > head.count {
        let detail = format!("{to} messages, but the board has {}", head.count);
        return Err(Refusal::new(Code::Range, detail).at("query:to"));
    }
    if from > to {
        return Err(Refusal::new(Code::Range, format!("{from}, expected at most {to}")).at("query:from"));
    }
    let proof = blocking(move || prove(&board, from, to).map_err(|refusal| refusal.at("query:from"))).await?;
    let (kind, parameters, body) = (Kind::ConsistencyProof, head.parameters, proof.to_bytes());
    let file = Envelope { kind, version: 1, parameters, body: &body }.seal();
    Ok(binary(media::CONSISTENCY, file, &[(headers::COMPLETE_TO, to)]))
}

/// A range of messages with the proof that they are on the board.
#[utoipa::path(get, path = "/v1/messages", params(("first" = u64, Query), ("end" = Option<u64>, Query)),
    responses((status = 200, description = "application/vnd.restante.page.v2")))]
pub(super) async fn messages(State(relay): Shared, uri: Uri) -> Answer {
    let (first, end) = (required(&uri, "first")?, number(&uri, "end")?);
    let (board, head) = relay.view.signed();
    let end = end.unwrap_or(head.count);
    if first > head.count {
        let detail = format!("{first}, but the board has {} messages", head.count);
        return Err(Refusal::new(Code::Range, detail).at("query:first"));
    }
    if end > head.count || end < first {
        let detail = format!("{end}, expected {first} to {}", head.count);
        return Err(Refusal::new(Code::Range, detail).at("query:end"));
    }
    let limits = &relay.config.limits;
    let (most, bytes) = (limits.page_messages, limits.page_bytes);
    let largest =
        bytes.max(u64::from(board.config().clue_bytes) + u64::from(board.config().payload_bytes_max));
    // The messages, and the body that they are copied into.
    let permit = relay.memory.take(2 * largest)?;
    // The memory is taken for as long as the work goes on, though nobody may wait for it any more.
    let (body, complete_to) = blocking(move || {
        let page =
            page(&board, head, first, end, most, bytes).map_err(|refusal| refusal.at("query:first"))?;
        Ok((hold(page.to_body(), permit), page.end()))
    })
    .await?;
    Ok(binary(media::PAGE, body, &[(headers::COMPLETE_TO, complete_to)]))
}

/// Posts messages: all of a batch or none, once for each id, durable when answered.
#[utoipa::path(post, path = "/v1/messages",
    request_body(content = String, content_type = "application/vnd.restante.post.v2"),
    responses((status = 200, body = PostResult)))]
pub(super) async fn post(State(relay): Shared, fields: HeaderMap, body: Body) -> Answer {
    if let Some(mirror) = &relay.config.mirror {
        return Err(Refusal::new(Code::ReadOnly, format!("post to {}", mirror.url)));
    }
    let limits = &relay.config.limits;
    // The body, the messages that are copied out of it, and what the board keeps of them until they are committed.
    let (bytes, permit) =
        body::read_for(&relay, &fields, body, media::POST, limits.batch_bytes, |length| 2 * length).await?;
    relay.require_space(2 * bytes.len() as u64)?;
    let board = relay.view.board();
    let (config, most) = (*board.config(), limits.batch_messages as usize);
    let (messages, permit) = blocking(move || {
        let batch = PostBatch::from_body(config.parameters, config.clue_bytes as usize, &bytes)
            .map_err(|error| refuse_body(&error))?;
        check(&batch, config.payload_bytes_max as usize, most)?;
        check_clues(&batch, config.parameters)?;
        Ok((batch.0, permit))
    })
    .await?;
    let receipt = relay.writer()?.post(messages, permit).await?;
    let head = HeadStatus::new(&receipt.head, receipt.retained_from);
    Ok(Json(PostResult { messages: receipt.messages, head }).into_response())
}

fn check(batch: &PostBatch, payload_bytes_max: usize, most: usize) -> Answer<()> {
    if batch.0.len() > most {
        let detail = format!("{} messages, expected at most {most}", batch.0.len());
        return Err(Refusal::new(Code::TooLarge, detail).at("body:messages"));
    }
    let mut ids = HashSet::new();
    for (place, message) in batch.0.iter().enumerate() {
        if message.payload.len() > payload_bytes_max {
            let detail = format!("{} bytes, expected at most {payload_bytes_max}", message.payload.len());
            return Err(Refusal::new(Code::TooLarge, detail).at(format!("body:messages[{place}].payload")));
        }
        if !ids.insert(message.id) {
            let detail = "twice in this batch, expected an id of its own for each message";
            return Err(Refusal::new(Code::Invalid, detail).at(format!("body:messages[{place}].id")));
        }
    }
    Ok(())
}

/// A clue has one encoding: nobody can bring a clue that the board has, or one that somebody else made, in another one.
fn check_clues(batch: &PostBatch, parameters: ParameterId) -> Answer<()> {
    let clue = ClueParameters::by_id(parameters)
        .ok_or_else(|| Refusal::internal(&"the board is for clues that this program does not know"))?;
    let mut coefficients = vec![0; clue.degree()];
    for (place, message) in batch.0.iter().enumerate() {
        if unpack_coefficients(&clue, &message.clue, &mut coefficients).is_err() {
            let detail = "no clue in its one encoding: expected packed coefficients below their moduli, and zeros behind them";
            return Err(Refusal::new(Code::Invalid, detail).at(format!("body:messages[{place}].clue")));
        }
    }
    Ok(())
}

/// Which part of a binary body is wrong.
pub(super) fn refuse_body(error: &WireError) -> Refusal {
    let field = match error {
        WireError::WrongParameters { .. } => "body:parameters",
        WireError::UnsupportedVersion { .. } => "body:version",
        WireError::WrongKind { .. } | WireError::UnknownKind(_) | WireError::ForeignFile => "body:kind",
        WireError::Corrupted { .. } => "body:checksum",
        WireError::OutOfRange { what, .. } if what.starts_with("number of messages") => "body:messages",
        _ => "body",
    };
    Refusal::new(Code::Invalid, error.to_string()).at(field)
}
