//! Private fetch.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, header};
use axum::response::Json;
use bytes::Bytes;
use futures_util::stream;
use restante_pir::PirError;
use restante_pir::fetch::{AnswerFile, Epoch, EpochId, Piece, Query};
use restante_wire::relay::{EpochList, Hex, media};

use super::board::refuse_body;
use super::problem::{Answer, Code, Refusal};
use super::{Shared, binary, blocking, body, path, range};
use crate::epochs::Epochs;
use crate::fetcher::EpochQuery;
use crate::limits::{Share, origin};

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
    let fetcher = relay.fetcher()?;
    let info = epoch.info().clone();
    let kept = move |length: u64| {
        let fetches = info.fetches_of(length as usize).unwrap_or(most).max(1);
        (fetches, info.query_memory_bytes(fetches).unwrap_or(0) as u64)
    };
    // While it is read, the query is there twice as bytes, too.
    let needed = |length| 2 * length + kept(length).1;
    let (bytes, mut memory) =
        body::read_for(&relay, &fields, body, media::FETCH_QUERY, largest as u64, needed).await?;
    let (fetches, own) = kept(bytes.len() as u64);
    fetcher.pass().check(&epoch, fetches)?;
    let (query, memory) = blocking(move || {
        let query = Query::from_file(&bytes).map_err(|error| match error {
            PirError::Wire(error) => refuse_body(&error),
            error => Refusal::new(Code::Invalid, error.to_string()).at("body"),
        })?;
        drop(bytes);
        memory.shrink(own);
        Ok((query, memory))
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
    let (answer, share) = fetcher.ask(EpochQuery { epoch, query, memory }).await?;
    Ok(pieces(answer, share))
}

/// An answer in pieces, whose memory is accounted for until all are sent.
fn pieces(answer: AnswerFile, mut share: Share) -> Response<Body> {
    struct Held(Piece, #[allow(dead_code, reason = "held, not read")] Arc<Share>);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            self.0.as_ref()
        }
    }
    let length = answer.bytes();
    let revocable = share.deliver(origin());
    let share = Arc::new(share);
    let pieces = answer.into_pieces().into_iter();
    let pieces = pieces.map(move |piece| Ok::<_, Infallible>(Bytes::from_owner(Held(piece, share.clone()))));
    let mut response = binary(media::FETCH_ANSWER, Body::from_stream(stream::iter(pieces)), &[]);
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.extensions_mut().insert(revocable);
    response
}
