//! Queues: how many tasks stand where, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coordinator::{Answer, Command, QueueView};
use model::{QueueName, Timestamp};
use protocol::rest::problem::Problem;
use protocol::rest::queues::{Queue, QueuePause, Queues};

use super::gate::Coordinator;
use super::problem::{ApiError, json};
use crate::app::App;

/// List queues
///
/// Every queue that holds a live or a dead task, or is paused.
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "overview", operation_id = "list_queues",
    responses(
        (status = 200, body = Queues, description = "By name."),
        (status = 429, body = Problem, description = "E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
) -> Result<Response, ApiError> {
    let views = match coordinator.handle.ask(|ticket| Command::ListQueues { ticket }).await? {
        Answer::Queues(queues) => queues,
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(ApiError::unexpected(&other)),
    };
    let dead = app.store.count_dead(coordinator.handle.shard()).await?;
    Ok(json(StatusCode::OK, &merged(views, dead, app.clock.now())))
}

/// Live tasks are counted by the coordinator, dead ones by the store; a queue may have only one
/// of the two.
fn merged(views: Vec<QueueView>, dead: Vec<(QueueName, u64)>, now: Timestamp) -> Queues {
    let mut queues: BTreeMap<QueueName, Queue> = BTreeMap::new();
    for view in views {
        let age = view.oldest_since.map(|since| now.since(since).as_millis());
        let queue = Queue {
            queue: view.queue.to_string(),
            depth: view.depth,
            oldest_age_ms: age.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
            in_flight: view.in_flight,
            retries_due: view.retries_due,
            scheduled: view.scheduled,
            blocked: view.blocked,
            dead: 0,
            paused: view
                .paused
                .map(|pause| QueuePause { by: pause.by, since: pause.at.to_string() }),
        };
        queues.insert(view.queue, queue);
    }
    for (name, count) in dead {
        let only_dead = Queue {
            queue: name.to_string(),
            depth: 0,
            oldest_age_ms: None,
            in_flight: 0,
            retries_due: 0,
            scheduled: 0,
            blocked: 0,
            dead: 0,
            paused: None,
        };
        queues.entry(name).or_insert(only_dead).dead = count;
    }
    Queues { queues: queues.into_values().collect() }
}
