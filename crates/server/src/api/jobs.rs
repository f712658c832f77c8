//! Jobs.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json};
use futures_util::stream;
use restante_wire::relay::{JobList, JobRequest, JobState, JobStatus, headers};

use super::owner::{OwnJob, Owner};
use super::problem::{Answer, Code, Refusal};
use super::{Shared, blocking, body, empty, range};
use crate::jobs::JobOrder;
use crate::limits::origin;

/// The memory of an open stream of events.
const EVENTS_BYTES: u64 = 8 << 10;

/// Asks for a digest.
#[utoipa::path(post, path = "/v1/keys/{key}/jobs", params(("key" = String, Path)),
    request_body = JobRequest, responses((status = 202, body = JobStatus), (status = 200, body = JobStatus)))]
pub(super) async fn submit(
    State(relay): Shared,
    Owner(registration): Owner,
    fields: HeaderMap,
    body: Body,
) -> Answer {
    let request: JobRequest = body::json(&relay, &fields, body).await?;
    let (board, most) = (relay.view.board(), relay.config.limits.job_messages);
    let order = JobOrder::read(&request, &registration, &relay.detection, &board, most)?;
    relay.require_space(relay.detection.result_bytes(&order.wanted))?;
    let location = format!("/v1/keys/{}/jobs/{}", registration.key(), order.id);
    let from = origin();
    let submitted = blocking(move || relay.jobs.submit(registration.id, &order, from));
    let (status, is_new) = submitted.await?;
    let code = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((code, [("location", location)], Json(status)).into_response())
}

/// The jobs of a key.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs", params(("key" = String, Path)), responses((status = 200, body = JobList)))]
pub(super) async fn list(State(relay): Shared, Owner(registration): Owner) -> Answer<Json<JobList>> {
    Ok(Json(JobList { jobs: relay.jobs.list(registration.id) }))
}

/// How far a job is.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs/{job}", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 200, body = JobStatus)))]
pub(super) async fn status(State(relay): Shared, OwnJob(job): OwnJob) -> Answer<Json<JobStatus>> {
    Ok(Json(relay.jobs.watch(&job)?.borrow().clone()))
}

/// Forgets a job and cancels it.
#[utoipa::path(delete, path = "/v1/keys/{key}/jobs/{job}", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 204)))]
pub(super) async fn delete(State(relay): Shared, OwnJob(job): OwnJob) -> Answer {
    blocking(move || relay.jobs.remove(&job)).await?;
    Ok(empty())
}

/// How far a job is, as it goes on.
#[utoipa::path(get, path = "/v1/keys/{key}/jobs/{job}/events", params(("key" = String, Path), ("job" = String, Path)),
    responses((status = 200, description = "text/event-stream: each event has the state for its name and a JobStatus for data")))]
pub(super) async fn events(State(relay): Shared, OwnJob(job): OwnJob) -> Answer {
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
pub(super) async fn result(State(relay): Shared, OwnJob(job): OwnJob, fields: HeaderMap) -> Answer {
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
