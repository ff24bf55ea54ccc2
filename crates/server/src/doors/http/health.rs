//! Whether the server lives, whether it can work, and its numbers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use protocol::error_code::ErrorCode;
use protocol::rest::health::Health;
use utoipa::openapi::OpenApi;

use super::auth_layer::Asker;
use crate::app::App;
use crate::wire_words::problem::{Answer, ApiError, json_bytes, ok};

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Does the process live?
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz",
    security(()),
    responses((status = 200, body = Health, description = "It does."))
)]
pub(super) async fn healthz(State(app): State<Arc<App>>) -> Answer {
    ok(&health(&app, "ok"))
}

/// Can it work?
///
/// It can when its store keeps what it is given.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz",
    security(()),
    responses(
        (status = 200, body = Health, description = "It can."),
        (status = 503, description = "E.STORE.UNAVAILABLE")
    )
)]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Answer {
    if !app.directory.all_ready() {
        let message = "the store cannot keep anything right now";
        return Err(ApiError::new(ErrorCode::StoreUnavailable, message));
    }
    ok(&health(&app, "ready"))
}

fn health(app: &App, status: &str) -> Health {
    Health { status: status.to_owned(), version: app.version.to_owned() }
}

/// Numbers, for Prometheus
///
/// The caller's tenant and the server as a whole; no other tenant's numbers.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics",
    responses(
        (status = 200, body = String, content_type = METRICS_TYPE,
            description = "docs/reference/metrics.md lists them.")
    )
)]
pub(super) async fn metrics(Asker { app, caller, .. }: Asker) -> Answer {
    // Numbers matter most while the store is away, so its absence must not hide them.
    // And they are no reason to claim a shard.
    if let Some(handle) = app.directory.find(&caller.tenant)
        && let Ok(views) = handle.list_workers().await
    {
        app.metrics.set_workers(&caller.tenant, &views);
        if let Ok([sessions, members]) = handle.worker_counts().await {
            app.metrics.set_known(&caller.tenant, "ws", sessions);
            app.metrics.set_known(&caller.tenant, "resp", members);
        }
    }
    app.metrics.set_store_available(app.directory.all_ready());
    let text = app.metrics.render(&caller.tenant);
    let text = text.map_err(|_| ApiError::internal("the numbers cannot be written"))?;
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
    Ok(([content_type], text).into_response())
}

/// The same three under the prefix of the interface, for clients that know no other.
pub(super) fn prefixed_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/healthz", get(healthz))
        .route("/api/v1/readyz", get(readyz))
        .route("/api/v1/metrics", get(metrics))
}

/// Serves the document that describes the interface.
pub(super) fn openapi_route(document: &OpenApi) -> Router<Arc<App>> {
    let body = serde_json::to_vec(document).expect("the document is plain data");
    Router::new()
        .route("/api/v1/openapi.json", get(|| async move { json_bytes(StatusCode::OK, body) }))
}
