//! The directory.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Json;
use restante_pir::PirError;
use restante_pir::search::Query;
use restante_wire::relay::{DirectoryInfo, Hex, media};

use super::board::refuse_body;
use super::problem::{Answer, Code, Refusal};
use super::{Shared, binary, blocking, body};
use crate::directory::{Directories, Directory};
use crate::limits::hold;
use crate::searcher::DirectoryQuery;

/// The memory that a query takes while it is read and waits, in its bytes: it and what is read of it.
const QUERY_TIMES: u64 = 4;
/// The longest query to an old version that is read before it is refused.
const STALE_BYTES: u64 = 8 << 20;

fn directories(relay: &crate::Relay) -> Answer<&Arc<Directories>> {
    relay.directories.as_ref().ok_or_else(|| Refusal::new(Code::NotFound, "this relay has no directory"))
}

/// Describes the directory, and the form of queries to it.
#[utoipa::path(get, path = "/v1/directory", responses((status = 200, body = DirectoryInfo)))]
pub(super) async fn describe(State(relay): Shared) -> Answer<Json<DirectoryInfo>> {
    Ok(Json(directories(&relay)?.current().info.clone()))
}

/// Answers a query to the directory.
#[utoipa::path(post, path = "/v1/search", params(("version" = String, Query)),
    request_body(content = String, content_type = "application/vnd.restante.search-query.v1"),
    responses((status = 200, description = "application/vnd.restante.search-answer.v1")))]
pub(super) async fn search(State(relay): Shared, uri: Uri, fields: HeaderMap, body: Body) -> Answer {
    let found = find(&relay, &uri);
    if let Err(refusal) = &found
        && refusal.code() == Code::Conflict
    {
        // Read all the same: a client that is cut off while it sends does not see why.
        drop(body::read(&relay, &fields, body, media::SEARCH_QUERY, STALE_BYTES).await?);
        return Err(refusal.clone());
    }
    let directory = found?;
    let expected = directory.info.query_bytes;
    // The query besides its bytes: residues of 49 bits are in 64, and halves that follow from a seed are made.
    let needed = |length| QUERY_TIMES * length;
    let (bytes, permit) =
        body::read_for(&relay, &fields, body, media::SEARCH_QUERY, expected, needed).await?;
    if bytes.len() as u64 != expected {
        let detail = format!("{} bytes, expected {expected}", bytes.len());
        return Err(Refusal::new(Code::Invalid, detail).at("body"));
    }
    let (scheme, checked) = (directories(&relay)?.scheme().clone(), directory.clone());
    let (query, permit) = blocking(move || {
        let query = Query::from_file(&scheme, &bytes).map_err(|error| match error {
            PirError::Wire(error) => refuse_body(&error),
            error => Refusal::new(Code::Invalid, error.to_string()).at("body"),
        })?;
        check(&query, &checked)?;
        Ok((query, permit))
    })
    .await?;
    let answer = relay.memory.take(directory.info.answer_bytes)?;
    let query = DirectoryQuery { directory, query, own: permit, answer };
    let (answer, held) = relay.searcher()?.ask(query).await?;
    Ok(binary(media::SEARCH_ANSWER, hold(answer, held), &[]))
}

/// The directory, if it still is the one that the query was made for.
fn find(relay: &crate::Relay, uri: &Uri) -> Answer<Arc<Directory>> {
    let directory = directories(relay)?.current();
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == "version").map(|(_, value)| value);
    let malformed = |detail: String| Refusal::new(Code::Malformed, detail).at("query:version");
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(malformed("expected the directory's version once".into()));
    };
    let version: Hex<16> = value.parse().map_err(malformed)?;
    if version == directory.info.version {
        Ok(directory)
    } else {
        let detail = "the directory has changed; GET /v1/directory describes it";
        Err(Refusal::new(Code::Conflict, detail).at("query:version"))
    }
}

fn check(query: &Query, directory: &Directory) -> Answer<()> {
    let (found, expected) = (query.shape(), directory.shape);
    if found != expected || query.selectors() != 1 {
        let detail = format!(
            "{} hash bits, sharing {}, {} selectors, expected {}, 1 and 1",
            found.hash_bits(),
            found.sharing(),
            query.selectors(),
            expected.hash_bits()
        );
        return Err(Refusal::new(Code::Invalid, detail).at("body:shape"));
    }
    if query.note() == directory.query_note {
        Ok(())
    } else {
        let detail = "expected the schema, hash bits and hash key that GET /v1/directory says";
        Err(Refusal::new(Code::Invalid, detail).at("body:note"))
    }
}
