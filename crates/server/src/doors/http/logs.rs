//! Logs: what a task puts out, from any offset, also while it runs.

mod lines;
mod stream;
mod task_end;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use coordinator::TaskState;
use model::TaskId;
use protocol::rest::logs::{LogLine, TaskFeedback};
use protocol::rest::problem::Problem;

use self::lines::Form;
use self::stream::LogStream;
use self::task_end::task_end;
use super::convert::LOG_OFFSET;
use super::gate::Coordinator;
use super::params::{PathName, QueryPairs};
use super::tasks::load;
use crate::app::App;
use crate::feedback::{FeedbackHub, LogCursor};
use crate::wire_words::problem::ApiError;

/// Read a task's log
///
/// One JSON object per line: entries, gaps (`dropped`), and a last line with `end`. To go on after
/// a break, give the `next_offset` of the last line that was read as `offset`. An `offset` beyond
/// the end gets the last line alone. With `Accept: text/plain`, the bytes themselves; where some
/// were dropped, a line says so. With `follow=1` the answer goes on until the task comes to its end;
/// empty lines keep the connection alive.
#[utoipa::path(
    get, path = "/api/v1/tasks/{task_id}/log", tag = "tasks", operation_id = "get_task_log",
    params(
        ("task_id" = String, Path, description = "The task."),
        ("offset" = Option<i64>, Query, description = "From this byte on. Default 0."),
        ("follow" = Option<i64>, Query, description = "1 to wait for more. Default 0.")
    ),
    responses(
        (status = 200, body = LogLine, content_type = "application/x-ndjson",
            description = "The log, a line for each entry."),
        (status = 404, body = Problem, description = "E.TASK.NOT_FOUND"),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    path: PathName,
    query: QueryPairs,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let task = path.task(coordinator.handle.shard())?;
    let query = query.only(&["offset", "follow"])?;
    let offset = query.number(LOG_OFFSET)?.unwrap_or(0).unsigned_abs();
    let wants_more = flag(&query, "follow")?;
    let is_settled = matches!(load(&app, task).await?.progress.state, TaskState::Settled(_));
    let hub = Arc::clone(&app.feedback);
    if is_settled {
        // What was taken before the end must be there; a disk that is too slow costs logs.
        let _ = hub.settled(task).await;
    }
    let (cursor, form) = (LogCursor::new(task, offset), Form::wanted(&headers));
    let stream = if wants_more && !is_settled {
        let follower = hub.follow(task);
        let end = Box::pin(task_end(app, coordinator.handle, task));
        LogStream::follow(hub, cursor, form, (follower, end))
    } else {
        LogStream::once(hub, cursor, form, is_settled)
    };
    let mut response = Response::new(Body::from_stream(stream.into_stream()));
    let content_type = HeaderValue::from_static(form.content_type());
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}

fn flag(query: &QueryPairs, name: &str) -> Result<bool, ApiError> {
    match query.first(name) {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(other) => Err(ApiError::invalid(format_args!("{name} is `{other}`;"), "it is 0 or 1")),
    }
}

/// How a task fares, if the hub knows.
pub(super) fn feedback(hub: &FeedbackHub, task: TaskId) -> Option<TaskFeedback> {
    hub.snapshot(task).map(|snapshot| TaskFeedback {
        stage: snapshot.stage,
        progress: snapshot.progress,
        message: snapshot.message,
        metrics: snapshot.metrics,
        at: snapshot.at.to_string(),
    })
}
