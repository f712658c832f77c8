//! Private fetch.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Json;
use restante_pir::PirError;
use restante_pir::fetch::{Epoch, EpochId, Query};
use restante_wire::relay::{EpochList, Hex, media};

use super::board::refuse_body;
use super::{Shared, binary, blocking, body, path, range};
use crate::epochs::Epochs;
use crate::limits::hold;
use crate::problem::{Answer, Code, Refusal};

fn epochs(relay: &crate::Relay) -> Answer<&Arc<Epochs>> {
    let none = || Refusal::new(Code::NotFound, "this relay does not serve private fetch");
    relay.epochs.as_ref().ok_or_else(none)
}

/// The epochs that can be asked.
#[utoipa::path(get, path = "/v1/epochs", responses((status = 200, body = EpochList)))]
pub(super) async fn list(State(relay): Shared) -> Answer<Json<EpochList>> {
    Ok(Json(epochs(&relay)?.list()))
}

fn find(relay: &crate::Relay, epoch: &str) -> Answer<Arc<Epoch>> {
    let epochs = epochs(relay)?;
    epochs.get(&path(epoch, "epoch")?)
}

/// An epoch's header.
#[utoipa::path(get, path = "/v1/epochs/{epoch}", params(("epoch" = String, Path)),
    responses((status = 200, description = "application/vnd.restante.epoch.v1")))]
pub(super) async fn epoch(State(relay): Shared, Path(epoch): Path<String>) -> Answer {
    Ok(binary(media::EPOCH, find(&relay, &epoch)?.info().to_file(), &[]))
}

/// An epoch's table of hashes, or the part of it that `Range` asks for.
#[utoipa::path(get, path = "/v1/epochs/{epoch}/hashes", params(("epoch" = String, Path)),
    responses((status = 200, description = "application/vnd.restante.epoch-hashes.v1"),
        (status = 206, description = "the part that Range asks for")))]
pub(super) async fn hashes(State(relay): Shared, Path(epoch): Path<String>, fields: HeaderMap) -> Answer {
    let epoch = find(&relay, &epoch)?;
    let EpochId(id) = epoch.id();
    let bytes = epoch.info().records() * 32;
    range::file(&relay.memory, &Epochs::hashes(&epoch), bytes, &Hex(id), media::EPOCH_HASHES, &[], &fields)
        .await
}

/// Answers a query.
#[utoipa::path(post, path = "/v1/epochs/{epoch}/fetch", params(("epoch" = String, Path)),
    request_body(content = String, content_type = "application/vnd.restante.fetch-query.v1"),
    responses((status = 200, description = "application/vnd.restante.fetch-answer.v1")))]
pub(super) async fn fetch(
    State(relay): Shared,
    Path(epoch): Path<String>,
    fields: HeaderMap,
    body: Body,
) -> Answer {
    let epoch = find(&relay, &epoch)?;
    let most = restante_pir::fetch::MAX_FETCHES;
    let largest = epoch.info().query_bytes(most).map_err(|error| Refusal::internal(&error))?;
    let (bytes, permit) = body::read(&relay, &fields, body, media::FETCH_QUERY, largest as u64).await?;
    let query = blocking(move || {
        let query = Query::from_file(&bytes).map_err(|error| match error {
            PirError::Wire(error) => refuse_body(&error),
            error => Refusal::new(Code::Invalid, error.to_string()).at("body"),
        })?;
        drop(permit);
        Ok(query)
    })
    .await?;
    if query.epoch() != epoch.id() {
        return Err(Refusal::new(Code::Invalid, "the query is to another epoch").at("body:epoch"));
    }
    let server = epochs(&relay)?.config().server;
    if let Some(server) = server.filter(|server| *server != query.party()) {
        let detail = format!("a query to server {}, but this relay is server {server}", query.party());
        return Err(Refusal::new(Code::Invalid, detail).at("body:server"));
    }
    let answer = epoch.info().answer_bytes(query.fetches()).map_err(|error| Refusal::internal(&error))?;
    let permit = relay.memory.take(answer as u64)?;
    let answer = relay.fetcher()?.answer(epoch, query).await?;
    Ok(binary(media::FETCH_ANSWER, hold(answer, permit), &[]))
}
