//! The routes.

mod board;
mod body;
mod directory;
mod drain;
mod fetch;
mod jobs;
mod keys;
mod operations;
mod owner;
mod problem;
mod range;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::{body::Body, response::Json};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::problem::{Answer, Code, Refusal};
use crate::Relay;
use crate::limits::{network, on_behalf};

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

type Shared = State<Arc<Relay>>;

#[derive(OpenApi)]
#[openapi(info(
    title = "Restante relay",
    description = "The JSON of the relay's protocol. docs/protocol.md has everything else."
))]
struct Document;

fn routes() -> OpenApiRouter<Arc<Relay>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(board::parameters))
        .routes(routes!(board::head))
        .routes(routes!(board::consistency))
        .routes(routes!(board::messages, board::post))
        .routes(routes!(keys::register))
        .routes(routes!(keys::status, keys::delete))
        .routes(routes!(keys::offset, keys::upload))
        .routes(routes!(keys::order, keys::cancel_order))
        .routes(routes!(keys::digests))
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::status, jobs::delete))
        .routes(routes!(jobs::events))
        .routes(routes!(jobs::result))
        .routes(routes!(fetch::list))
        .routes(routes!(fetch::epoch))
        .routes(routes!(fetch::hashes))
        .routes(routes!(fetch::fetch))
        .routes(routes!(directory::describe))
        .routes(routes!(directory::search))
        .routes(routes!(operations::health))
        .routes(routes!(operations::ready))
}

/// The OpenAPI document.
pub fn openapi_json() -> String {
    let mut text = routes().into_openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The clients' routes.
pub(crate) fn public(relay: &Arc<Relay>) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = Arc::new(document);
    let router = router.route(
        "/openapi.json",
        axum::routing::get(move || {
            let document = document.clone();
            async move { Json(&*document).into_response() }
        }),
    );
    finish(router, relay)
}

/// The operators' routes.
pub(crate) fn operators(relay: &Arc<Relay>) -> Router {
    let router = Router::new()
        .route("/healthz", axum::routing::get(operations::health))
        .route("/readyz", axum::routing::get(operations::ready))
        .route("/metrics", axum::routing::get(operations::metrics))
        .route("/credentials", axum::routing::get(operations::credentials))
        .route("/registrations", axum::routing::get(operations::registrations))
        .route("/registrations/{registration}", axum::routing::delete(operations::remove_registration))
        .route("/backup", axum::routing::post(operations::backup));
    finish(router, relay)
}

fn finish(router: Router<Arc<Relay>>, relay: &Arc<Relay>) -> Router {
    router
        .fallback(async || Refusal::new(Code::NotFound, "no such route; docs/protocol.md lists them"))
        .method_not_allowed_fallback(async || Refusal::new(Code::Method, "the route has no such method"))
        .layer(CatchPanicLayer::custom(|_| Refusal::internal(&"a handler panicked").into_response()))
        .layer(from_fn_with_state(relay.clone(), observe))
        .with_state(relay.clone())
}

/// Around every request: the rate of its address, metrics, a line in the log.
async fn observe(State(relay): Shared, request: Request, next: Next) -> Response<Body> {
    let started = Instant::now();
    let method = name(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let peer = request.extensions().get::<Peer>().copied();
    let allowed = peer.map_or(Ok(()), |Peer(address)| relay.by_address.take(network(address.ip())));
    let from = peer.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |Peer(address)| address.ip());
    let mut response = match allowed {
        Ok(()) => on_behalf(from, next.run(request.map(|body| Body::new(drain::Drained::new(body))))).await,
        Err(refusal) => refusal.into_response(),
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (status, time) = (response.status().as_u16(), started.elapsed());
    tracing::info!(method, route, status, milliseconds = time.as_millis() as u64, "request");
    relay.metrics.request(method, route, status, time);
    response
}

fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// A part of the path that names something.
fn path<T: FromStr<Err = String>>(text: &str, name: &str) -> Answer<T> {
    text.parse().map_err(|error: String| Refusal::new(Code::Malformed, error).at(format!("path:{name}")))
}

/// A number in the query.
fn number(uri: &Uri, name: &'static str) -> Answer<Option<u64>> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    let malformed = |detail: String| Refusal::new(Code::Malformed, detail).at(format!("query:{name}"));
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed("given twice, expected once".into()));
    }
    let digits_only = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| digits_only);
    number.map(Some).ok_or_else(|| malformed("expected an integer of at most 64 bits".into()))
}

fn required(uri: &Uri, name: &'static str) -> Answer<u64> {
    number(uri, name)?.ok_or_else(|| {
        Refusal::new(Code::Malformed, format!("{name} is missing, expected a number"))
            .at(format!("query:{name}"))
    })
}

/// A binary answer.
fn binary(media_type: &'static str, body: impl Into<Body>, fields: &[(&'static str, u64)]) -> Response<Body> {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in fields {
        headers.insert(HeaderName::from_static(name), (*value).into());
    }
    response
}

fn empty() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Work that reads files or computes, on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Refusal::internal(&error)),
    }
}
