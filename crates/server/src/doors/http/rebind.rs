//! The worker that has the work of a run, changed by hand. Seed 003 section 5.

use axum::http::StatusCode;
use axum::response::Response;
use coordinator::{BindingView, Rebind};
use protocol::rest::problem::Problem;
use protocol::rest::rebind::{RebindMode, RebindRun, Rebound};
use protocol::rest::runs::Binding;

use super::body::Json;
use super::convert::{prose, text};
use super::gate::Coordinator;
use super::params::PathName;
use crate::wire_words::problem::{ApiError, json};

/// The name of a package or of a type, in characters.
const PACKAGE_CHARS_MAX: usize = 128;

/// Give the work of a run to another worker
///
/// What is under way is finished where it is. `move` asks the worker that had the work last,
/// `drain` gives it nothing more of this run. It holds until the run ends.
#[utoipa::path(
    post, path = "/api/v1/scheduler/runs/{run_id}/rebind", tag = "runs",
    operation_id = "rebind_run", request_body = RebindRun,
    params(("run_id" = String, Path, description = "The run: its id or its number.")),
    responses(
        (status = 200, body = Rebound, description = "Who has the work from here on."),
        (status = 404, body = Problem,
            description = "E.RUN.NOT_FOUND: no such run, or it has ended; E.WORKER.NOT_FOUND"),
        (status = 409, body = Problem, description = "E.RUN.CONFLICT: no worker has that work yet."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem, description = "E.LIMIT.RUNS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn rebind(
    coordinator: Coordinator,
    path: PathName,
    Json(body): Json<RebindRun>,
) -> Result<Response, ApiError> {
    let run = path.run(coordinator.handle.shard())?;
    if let Some(package) = &body.package {
        prose(&"package", package, PACKAGE_CHARS_MAX)?;
    }
    let to = body.worker_name.as_deref().map(|worker| text(&"workerName: ", worker)).transpose()?;
    let drain = body.mode == RebindMode::Drain;
    let rebind = Rebind { run, package: body.package, to, drain };
    let bindings = coordinator.handle.rebind(rebind).await?.iter().map(binding).collect();
    Ok(json(StatusCode::OK, &Rebound { run_id: run.to_string(), bindings }))
}

fn binding(view: &BindingView) -> Binding {
    Binding {
        package: view.package.clone(),
        worker: view.worker.to_string(),
        bound_at: view.since.to_string(),
    }
}
