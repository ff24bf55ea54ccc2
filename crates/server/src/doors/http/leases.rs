//! Leases: ask for work, stay alive.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coordinator::Renewal;
use model::WorkerId;
use protocol::rest::leases::{GrantedLeases, Heartbeat, HeartbeatAnswer, RequestLeases};
use protocol::rest::problem::Problem;

use super::answers::{granted_leases, heartbeat_answer};
use super::body::Json;
use super::convert::{lease_request, reports, text};
use super::gate::Coordinator;
use super::params::PathName;
use crate::app::App;
use crate::wire_words::problem::{ApiError, json, json_bytes};

/// Ask for work
///
/// Waits up to `wait_ms` for the first lease, then gives what there is, up to `max`. The list is
/// empty when the wait is over. A request that is given up while it waits gets nothing.
#[utoipa::path(
    post, path = "/api/v1/leases", tag = "leases",
    operation_id = "request_leases", request_body = RequestLeases,
    responses(
        (status = 200, body = GrantedLeases, description = "Leases, best first."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID, E.LIMIT.BATCH"),
        (status = 429, body = Problem, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn request(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    Json(body): Json<RequestLeases>,
) -> Result<Response, ApiError> {
    let request = lease_request(&body, app.clock.now())?;
    coordinator.speaks_for(request.worker.as_str())?;
    let grants = coordinator.handle.request_leases(request).await?;
    Ok(json_bytes(StatusCode::OK, granted_leases(&grants)))
}

/// Stay alive
///
/// Extends the lease, or says at once that it is over.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease_id}/heartbeat", tag = "leases",
    operation_id = "heartbeat", request_body = Heartbeat,
    params(("lease_id" = String, Path, description = "The lease.")),
    responses(
        (status = 200, body = HeartbeatAnswer, description = "The verdict, whatever it is."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn heartbeat(
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<Heartbeat>,
) -> Result<Response, ApiError> {
    let worker: WorkerId = text(&"", &body.worker_id)?;
    coordinator.speaks_for(worker.as_str())?;
    let lease = match reports::lease(path.as_str(), coordinator.handle.shard()) {
        Ok(lease) => lease,
        Err(no_lease) => return Ok(json(StatusCode::OK, &no_lease.heartbeat())),
    };
    let beaten = coordinator.handle.heartbeat(worker, Renewal::Listed(vec![lease])).await?;
    match beaten.verdicts.as_slice() {
        [verdict] => Ok(json(StatusCode::OK, &heartbeat_answer(*verdict))),
        _ => Err(ApiError::internal("one lease got several verdicts")),
    }
}
