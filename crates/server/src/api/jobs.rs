//! Jobs.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json};
use futures_util::stream;
use restante_board::Board;
use restante_letter::digest_request;
use restante_wire::relay::{DigestKind, JobList, JobRequest, JobState, JobStatus, headers};

use super::{Shared, authorize, blocking, body, empty, path, range};
use crate::jobs::JobKey;
use crate::limits::origin;
use crate::problem::{Answer, Code, Refusal};

/// What a stream of events takes of memory while it is open.
const EVENTS_BYTES: u64 = 8 << 10;

/// Asks for a digest.
#[utoipa::path(post, path = "/v1/keys/{key}/jobs", params(("key" = String, Path)),
    request_body = JobRequest, responses((status = 202, body = JobStatus), (status = 200, body = JobStatus)))]
pub(super) async fn submit(
    State(relay): Shared,
    Path(key): Path<String>,
    fields: HeaderMap,
    body: Body,
) -> Answer {
    let registration = authorize(&relay, &key, &fields)?;
    let mut request: JobRequest = body::json(&relay, &fields, body).await?;
    if !registration.ready {
        return Err(Refusal::new(Code::Conflict, "the key has not been uploaded"));
    }
    if request.kind != registration.kind {
        let detail = format!("{}, but the key is for {}", request.kind, registration.kind);
        return Err(Refusal::new(Code::Invalid, detail).at("body:kind"));
    }
    let Some(info) = relay.detection.info_of(request.kind) else {
        let detail = "this relay does not make such digests any more";
        return Err(Refusal::new(Code::Invalid, detail).at("body:kind"));
    };
    let compact = relay.detection.compact().filter(|_| request.kind == DigestKind::Compact);
    if let Some(compact) = compact {
        compact.check_sizes(request.capacity, request.payload_bytes)?;
        request.payload_bytes = Some(request.payload_bytes.unwrap_or(0));
    } else {
        let sizes = [("capacity", request.capacity), ("payload_bytes", request.payload_bytes)];
        if let Some((name, _)) = sizes.into_iter().find(|(_, size)| size.is_some()) {
            let detail = format!("{} digests have no {name}", request.kind);
            return Err(Refusal::new(Code::Invalid, detail).at(format!("body:{name}")));
        }
    }
    let most = relay.config.limits.job_messages.min(info.messages_max);
    let end = end_of(&request, &relay.view.board(), most)?;
    let sizes = [request.capacity, request.payload_bytes];
    if let Some(compact) = compact {
        let [capacity, payload_bytes] = sizes.map(|size| size.unwrap_or(0) as usize);
        compact.check_memory(&digest_request(request.first..end, capacity, payload_bytes))?;
    }
    let bytes = relay.detection.result_bytes(request.kind, request.first..end, sizes);
    relay.require_space(bytes)?;
    let location = format!("/v1/keys/{}/jobs/{}", registration.key(), request.id);
    let from = origin();
    let submitted = blocking(move || relay.jobs.submit(registration.id, &request, end, from));
    let (status, is_new) = submitted.await?;
    let code = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((code, [("location", location)], Json(status)).into_response())
}

/// The end of the messages that a job is for, if there are such messages and not more than `most`.
fn end_of(request: &JobRequest, board: &Board, most: u64) -> Answer<u64> {
    let end = request.end.unwrap_or(board.len());
    if end > board.len() {
        let detail = format!("{end}, but the board has {} messages", board.len());
        return Err(Refusal::new(Code::Range, detail).at("body:end"));
    }
    if request.first >= end {
        return Err(Refusal::new(Code::Range, format!("{}, expected less than {end}", request.first))
            .at("body:first"));
    }
    if request.first < board.retained_from() {
        let detail = format!("the relay has the messages from {} on", board.retained_from());
        return Err(Refusal::new(Code::Gone, detail).at("body:first"));
    }
    if end - request.first > most {
        let detail = format!("{} messages, expected at most {most}", end - request.first);
        return Err(Refusal::new(Code::TooLarge, detail).at("body:end"));
    }
    Ok(end)
}

/// The jobs of a key.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs", params(("key" = String, Path)), responses((status = 200, body = JobList)))]
pub(super) async fn list(
    State(relay): Shared,
    Path(key): Path<String>,
    fields: HeaderMap,
) -> Answer<Json<JobList>> {
    let registration = authorize(&relay, &key, &fields)?;
    Ok(Json(JobList { jobs: relay.jobs.list(registration.id) }))
}

fn find(relay: &crate::Relay, key: &str, job: &str, fields: &HeaderMap) -> Answer<JobKey> {
    Ok((authorize(relay, key, fields)?.id, path(job, "job")?))
}

/// How far a job is.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs/{job}", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = JobStatus)))]
pub(super) async fn status(
    State(relay): Shared,
    Path((key, job)): Path<(String, String)>,
    fields: HeaderMap,
) -> Answer<Json<JobStatus>> {
    let job = find(&relay, &key, &job, &fields)?;
    Ok(Json(relay.jobs.watch(&job)?.borrow().clone()))
}

/// Forgets a job and cancels it.
#[utoipa::path(delete, path = "/v1/keys/{key}/jobs/{job}", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 204)))]
pub(super) async fn delete(
    State(relay): Shared,
    Path((key, job)): Path<(String, String)>,
    fields: HeaderMap,
) -> Answer {
    let job = find(&relay, &key, &job, &fields)?;
    blocking(move || relay.jobs.remove(&job)).await?;
    Ok(empty())
}

/// How far a job is, as it goes on.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs/{job}/events", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 200, description = "text/event-stream: each event has the state for its name and a JobStatus for data")))]
pub(super) async fn events(
    State(relay): Shared,
    Path((key, job)): Path<(String, String)>,
    fields: HeaderMap,
) -> Answer {
    let job = find(&relay, &key, &job, &fields)?;
    let memory = relay.memory.take(EVENTS_BYTES)?;
    let (changes, stopping) = (relay.jobs.watch(&job)?, relay.stopping());
    // The status to tell next; none at first, and the end behind a final one.
    enum Next {
        Now,
        Change,
        End,
    }
    let state = (changes, stopping, Next::Now, memory);
    let events = stream::unfold(state, |(mut changes, mut stopping, next, memory)| async move {
        match next {
            Next::Now => {}
            Next::Change => tokio::select! {
                // An error is a job that was deleted.
                changed = changes.changed() => changed.ok()?,
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            },
            Next::End => return None,
        }
        let status = changes.borrow_and_update().clone();
        let next = if status.state.is_final() { Next::End } else { Next::Change };
        let data = serde_json::to_string(&status).unwrap_or_default();
        let event = Event::default().event(status.state.name()).data(data);
        Some((Ok::<_, Infallible>(event), (changes, stopping, next, memory)))
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// The digest, or the part of it that `Range` asks for.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs/{job}/result", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 200, description = "application/vnd.restante.stream-digest.v1 or application/vnd.restante.compact-digest.v1"),
        (status = 206, description = "the part that Range asks for")))]
pub(super) async fn result(
    State(relay): Shared,
    Path((key, job)): Path<(String, String)>,
    fields: HeaderMap,
) -> Answer {
    let job = find(&relay, &key, &job, &fields)?;
    let status = relay.jobs.watch(&job)?.borrow().clone();
    let (JobState::Done, Some(bytes), Some(hash)) = (status.state, status.result_bytes, status.result_hash)
    else {
        let detail = format!("the job is {}, expected done", status.state.name());
        return Err(Refusal::new(Code::Conflict, detail));
    };
    let path = relay.data.result(&job.0, &job.1);
    let media_type = relay.detection.media_type(status.kind);
    range::file(
        &relay.memory,
        &path,
        bytes,
        &hash,
        media_type,
        &[(headers::COMPLETE_TO, status.complete_to)],
        &fields,
    )
    .await
}
