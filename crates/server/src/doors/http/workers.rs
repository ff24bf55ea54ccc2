//! Workers, as the coordinator sees them.

use axum::http::StatusCode;
use axum::response::Response;
use coordinator::{Answer, Command, WorkerView};
use protocol::rest::problem::Problem;
use protocol::rest::tasks::Package;
use protocol::rest::workers::{Worker, Workers};

use super::answers::health_word;
use super::gate::Coordinator;
use super::problem::{ApiError, json};

/// List workers
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "overview", operation_id = "list_workers",
    responses(
        (status = 200, body = Workers, description = "By name."),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn list(coordinator: Coordinator) -> Result<Response, ApiError> {
    let workers = views(&coordinator).await?.iter().map(worker).collect();
    Ok(json(StatusCode::OK, &Workers { workers }))
}

pub(super) async fn views(coordinator: &Coordinator) -> Result<Vec<WorkerView>, ApiError> {
    match coordinator.handle.ask(|ticket| Command::ListWorkers { ticket }).await? {
        Answer::Workers(workers) => Ok(workers),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

fn worker(view: &WorkerView) -> Worker {
    let offer = &view.offer;
    Worker {
        worker_id: view.worker.to_string(),
        health: health_word(view.health),
        last_seen: view.last_seen.to_string(),
        in_flight: view.in_flight,
        granted: view.granted,
        asking: view.is_asking,
        types: offer.types.as_ref().map(words),
        queues: offer.queues.as_ref().map(words),
        tools: words(&offer.tools),
        tags: offer.tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        packages: offer
            .packages
            .iter()
            .map(|one| Package { name: one.name.to_string(), version: one.version.to_string() })
            .collect(),
    }
}

fn words<'a, T: ToString + 'a>(names: impl IntoIterator<Item = &'a T>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}
