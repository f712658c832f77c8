//! The operators' routes.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Json};

use super::problem::{Answer, Code, Refusal};
use super::{Shared, blocking, empty, path};
use crate::credentials;

/// Whether the process runs.
#[utoipa::path(get, path = "/healthz", responses((status = 204)))]
pub(super) async fn health() -> Answer {
    Ok(empty())
}

/// Whether the relay takes requests, and a mirror still follows its origin.
#[utoipa::path(get, path = "/readyz", responses((status = 204), (status = 503)))]
pub(super) async fn ready(State(relay): Shared) -> Answer {
    if *relay.stopping().borrow() {
        return Err(Refusal::stopping());
    }
    if let Some(reason) = relay.not_following() {
        return Err(Refusal::new(Code::Busy, reason));
    }
    if let Some(trouble) = relay.clock.is_far() {
        return Err(Refusal::new(Code::Busy, trouble));
    }
    if relay.has_space() {
        Ok(empty())
    } else {
        Err(Refusal::new(Code::Storage, "no space left on the relay's disk"))
    }
}

/// Prometheus metrics.
pub(super) async fn metrics(State(relay): Shared) -> impl IntoResponse {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], relay.metrics.text())
}

/// The credentials that were issued, and what is left of them.
pub(super) async fn credentials(State(relay): Shared) -> Answer {
    let credentials = blocking(move || Ok(credentials::list(&relay.registry)?)).await?;
    Ok(Json(serde_json::json!({ "credentials": credentials })).into_response())
}

/// The registrations, those first that were used the longest ago.
pub(super) async fn registrations(State(relay): Shared) -> Answer {
    let registrations = relay.registrations();
    Ok(Json(serde_json::json!({ "registrations": registrations })).into_response())
}

/// Removes a registration and all that belongs to it.
pub(super) async fn remove_registration(State(relay): Shared, Path(id): Path<String>) -> Answer {
    let id = path(&id, "registration")?;
    if blocking(move || Ok(relay.remove_registration(&id)?)).await? {
        Ok(empty())
    } else {
        let detail = "no such registration; GET /registrations lists them";
        Err(Refusal::new(Code::NotFound, detail).at("path:registration"))
    }
}

/// Copies the relay into the directory for backups, once at a time.
pub(super) async fn backup(State(relay): Shared) -> Answer {
    if relay.config.backup.is_none() {
        let detail = "the relay's configuration has no backup, expected a directory";
        return Err(Refusal::new(Code::Conflict, detail).at("configuration:backup"));
    }
    let Ok(permit) = relay.backing_up.clone().try_acquire_owned() else {
        return Err(Refusal::new(Code::Busy, "a backup is being made").retry_after(30));
    };
    let path = blocking(move || {
        let made = relay.back_up();
        drop(permit);
        Ok(made?)
    })
    .await?;
    Ok(Json(serde_json::json!({ "backup": path.display().to_string() })).into_response())
}
