//! Tasks: submit, look at, list, stop, requeue, explain.

use axum::http::StatusCode;
use coordinator::{LoadKey, Outcome, TaskRecord, TaskState};
use model::{NewTask, ShardId, TaskId};
use protocol::error_code::ErrorCode;
use protocol::rest::tasks::{
    Explanation, SubmitTasks, SubmittedTask, SubmittedTasks, Task, TaskPage, TaskToSubmit,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use store::PageQuery;

use super::auth_layer::Context;
use super::convert::{PAGE_LIMIT, WAIT_MS, new_tasks, state};
use super::explain::{explain_live, explain_settled};
use super::request::{JsonBytes, PathName, QueryPairs};
use super::{answers, logs};
use crate::app::App;
use crate::wire_words::problem::{Answer, ApiError, json, ok};

const PAGE_TASKS_DEFAULT: i64 = 50;
/// A task that is settled when the coordinator looks and live when the store is read was requeued
/// in between; that often in a row it is not.
const STOP_TRIES: usize = 3;

/// Submit tasks
///
/// All or none. The answer comes when they survive a crash. A single task may be sent without
/// the list around it.
#[utoipa::path(
    post, path = "/api/v1/tasks", operation_id = "submit_tasks", request_body = SubmitTasks,
    responses(
        (status = 201, body = SubmittedTasks, description = "The tasks exist."),
        (status = 409, description = "E.TASK.IDEMPOTENCY, E.TASK.DEPENDENCY"),
        (status = 422, description = "E.REQUEST.INVALID, E.LIMIT.BATCH"),
        (status = 429, description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn submit(context: Context, body: JsonBytes) -> Answer {
    let made = context.handle.submit(tasks_of(&body)?).await?;
    let tasks = made.into_iter().map(submitted).collect();
    Ok(json(StatusCode::CREATED, &SubmittedTasks { tasks }))
}

fn submitted(task: coordinator::SubmittedTask) -> SubmittedTask {
    SubmittedTask { task_id: task.task.to_string(), state: task.state, existed: task.existed }
}

/// The list is what busy submitters send, so it is tried first; what else was meant is only
/// looked into when it is no list.
fn tasks_of(body: &JsonBytes) -> Result<Vec<NewTask>, ApiError> {
    #[derive(Deserialize)]
    struct Shape {
        tasks: Option<IgnoredAny>,
    }
    let list_error = match body.try_read::<SubmitTasks>() {
        Ok(list) => return new_tasks(list.tasks),
        Err(error) => error,
    };
    match body.try_read::<Shape>() {
        Ok(Shape { tasks: None }) => {
            let task: TaskToSubmit = body.read()?;
            new_tasks(vec![task]).map_err(without_place)
        }
        Err(error) if !error.is_data() => Err(body.explain(&error)),
        Ok(Shape { tasks: Some(_) }) | Err(_) => Err(body.explain(&list_error)),
    }
}

/// Who sent one task did not send a list, and should not read of one.
fn without_place(mut error: ApiError) -> ApiError {
    error.message = error.message.replacen("tasks[0].", "", 1);
    error
}

/// Look at a task
///
/// With `wait_ms`, the answer waits until the task is settled or the time is over.
#[utoipa::path(
    get, path = "/api/v1/tasks/{task_id}", operation_id = "get_task",
    params(("wait_ms" = Option<i64>, Query, description = "0 to 60000. Default 0.")),
    responses(
        (status = 200, body = Task, description = "The task as it is durable."),
        (status = 429, description = "E.LIMIT.WORKERS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn show(context: Context, path: PathName, query: QueryPairs) -> Answer {
    let task = path.task(context.shard())?;
    let query = query.only(&["wait_ms"])?;
    let wait_ms = query.number(WAIT_MS)?.unwrap_or(0);
    if wait_ms > 0 {
        let until = context.app.clock.now().after(WAIT_MS.check_millis(&"", wait_ms)?);
        context.handle.watch(task, until).await?;
    }
    let mut shown = answers::task(&load(&context.app, task).await?)?;
    shown.feedback = logs::feedback(&context.app.feedback, task);
    ok(&shown)
}

/// List tasks
///
/// Newest first, a page at a time.
#[utoipa::path(
    get, path = "/api/v1/tasks", operation_id = "list_tasks",
    params(
        ("state" = Option<String>, Query, description = "Only these states, comma-separated."),
        ("type" = Option<String>, Query, description = "Only this type."),
        ("queue" = Option<String>, Query, description = "Only this queue."),
        ("run" = Option<String>, Query, description = "Only this run."),
        ("limit" = Option<i64>, Query, description = "1 to 500. Default 50."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")
    ),
    responses((status = 200, body = TaskPage, description = "A page; follow `next_cursor`."))
)]
pub(super) async fn list(context: Context, query: QueryPairs) -> Answer {
    let shard = context.shard();
    let query = page_query(query, shard)?;
    let page = context.app.store.list(shard, query).await?;
    ok(&page_of(&page)?)
}

fn page_query(query: QueryPairs, shard: ShardId) -> Result<PageQuery, ApiError> {
    let query = query.only(&["state", "type", "queue", "run", "limit", "cursor"])?;
    let states = query.all("state").flat_map(|words| words.split(',')).map(state);
    let limit = query.number(PAGE_LIMIT)?.unwrap_or(PAGE_TASKS_DEFAULT);
    Ok(PageQuery {
        states: states.collect::<Result<_, _>>()?,
        task_types: query.text("type")?.into_iter().collect(),
        queue: query.text("queue")?,
        run: query.text("run")?,
        before: query.first("cursor").map(|text| cursor(text, shard)).transpose()?,
        limit: u32::try_from(limit).expect("at most PAGE_TASKS_MAX"),
        ..PageQuery::default()
    })
}

fn cursor(text: &str, shard: ShardId) -> Result<TaskId, ApiError> {
    let task: Option<TaskId> = text.parse().ok();
    task.filter(|task| task.shard() == shard).ok_or_else(|| {
        ApiError::invalid("cursor", "is not a `next_cursor` of an earlier page")
            .with_hint("leave it out to start at the newest task")
    })
}

fn page_of(page: &store::TaskPage) -> Result<TaskPage, ApiError> {
    let tasks = page.tasks.iter().map(answers::task).collect::<Result<_, _>>()?;
    Ok(TaskPage { tasks, next_cursor: page.next_before.map(|task| task.to_string()) })
}

/// Stop a task
///
/// Its worker learns it with its next heartbeat or report. Stopping a stopped task changes
/// nothing.
#[utoipa::path(
    post, path = "/api/v1/tasks/{task_id}/cancel", operation_id = "cancel_task",
    responses(
        (status = 200, body = Task, description = "The task is STOPPED."),
        (status = 409, description = "E.TASK.CONFLICT: it came to another end.")
    )
)]
pub(super) async fn cancel(context: Context, path: PathName) -> Answer {
    let task = path.task(context.shard())?;
    for _ in 0..STOP_TRIES {
        if context.handle.stop(task).await? {
            return found(&load(&context.app, task).await?);
        }
        let record = load(&context.app, task).await?;
        match &record.progress.state {
            TaskState::Settled(settlement) if settlement.outcome == Outcome::Stopped => {
                return found(&record);
            }
            TaskState::Settled(_) => return Err(already_settled(&record)),
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => {}
        }
    }
    Err(ApiError::new(ErrorCode::TaskConflict, "the task is being requeued; try again"))
}

fn already_settled(record: &TaskRecord) -> ApiError {
    let state = record.progress.state.word().word();
    ApiError::new(ErrorCode::TaskConflict, format!("the task is already {state}"))
        .with_hint("only a task that has not come to its end can be stopped")
}

/// Requeue a task
///
/// Puts a FAILED, DEAD or STOPPED task back into its queue, with fresh attempts.
#[utoipa::path(
    post, path = "/api/v1/tasks/{task_id}/requeue", operation_id = "requeue_task",
    responses(
        (status = 200, body = Task, description = "The task is in its queue again."),
        (status = 409, description = "E.TASK.CONFLICT: it cannot be requeued."),
        (status = 429, description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn requeue(context: Context, path: PathName) -> Answer {
    let task = path.task(context.shard())?;
    context.handle.requeue(task).await?;
    found(&load(&context.app, task).await?)
}

/// Explain a task
///
/// Why it does not run, with what to do about it.
#[utoipa::path(
    get, path = "/api/v1/tasks/{task_id}/explain", operation_id = "explain_task",
    responses((status = 200, body = Explanation, description = "The reasons, most telling first."))
)]
pub(super) async fn explain(context: Context, path: PathName) -> Answer {
    let task = path.task(context.shard())?;
    let now = context.app.clock.now();
    let explained = match context.handle.explain(task).await? {
        Some(explanation) => explain_live(task, &explanation, now),
        None => explain_settled(&load(&context.app, task).await?, now),
    };
    ok(&explained)
}

/// The task as it is durable.
pub(super) async fn load(app: &App, task: TaskId) -> Result<TaskRecord, ApiError> {
    let keys = vec![LoadKey::Task(task)];
    let mut rows = app.store.load(task.shard(), keys).await?;
    rows.pop().map(|(_, record)| record).ok_or_else(ApiError::no_such_task)
}

fn found(record: &TaskRecord) -> Answer {
    ok(&answers::task(record)?)
}
