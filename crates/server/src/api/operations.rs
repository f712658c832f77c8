//! What operators ask.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Json};

use super::{Shared, blocking, empty};
use crate::credentials;
use crate::problem::{Answer, Refusal};

/// Whether the process runs.
#[utoipa::path(get, path = "/healthz", responses((status = 204)))]
pub(super) async fn health() -> Answer {
    Ok(empty())
}

/// Whether the relay takes requests.
#[utoipa::path(get, path = "/readyz", responses((status = 204), (status = 503)))]
pub(super) async fn ready(State(relay): Shared) -> Answer {
    if *relay.stopping().borrow() {
        return Err(Refusal::stopping());
    }
    relay.require_space(0)?;
    Ok(empty())
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

/// Copies the relay into the directory for backups.
pub(super) async fn backup(State(relay): Shared) -> Answer {
    let path = blocking(move || Ok(relay.back_up()?)).await?;
    Ok(Json(serde_json::json!({ "backup": path.display().to_string() })).into_response())
}
