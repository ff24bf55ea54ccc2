//! Queues: how many tasks stand where, who is next, and what people do to all of them.

use std::collections::BTreeMap;

use coordinator::{LoadKey, Pause, QueueView, StateWord};
use model::QueueName;
use protocol::rest::queues::{
    PurgeQueue, PurgedQueue, Queue, QueuePause, QueuedTasks, Queues, RequeueQueue, RequeuedQueue,
};
use store::PageQuery;

use super::answers;
use super::auth_layer::Context;
use super::convert::{QUEUE_MAX, text};
use super::request::{Json, PathName, QueryPairs};
use crate::app::App;
use crate::bulk;
use crate::wire_words::problem::{Answer, ApiError, ok};

const PEEKED_TASKS_DEFAULT: i64 = 20;

/// List queues
///
/// Every queue that holds a live or a dead task, or is paused.
#[utoipa::path(
    get, path = "/api/v1/queues", operation_id = "list_queues",
    responses((status = 200, body = Queues, description = "By name."))
)]
pub(super) async fn list(context: Context) -> Answer {
    let queues = all(&context).await?;
    ok(&Queues { queues: queues.into_values().collect() })
}

/// Who is next in a queue
///
/// Tasks that may run, in the order in which workers get them. Nothing is granted.
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/tasks", operation_id = "peek_queue",
    params(
        ("limit" = Option<i64>, Query, description = "1 to 500. Default 20."),
        ("offset" = Option<i64>, Query,
            description = "So many are passed over. Default 0; beyond 10000 nothing is shown.")
    ),
    responses((status = 200, body = QueuedTasks, description = "The next one first."))
)]
pub(super) async fn peek(context: Context, path: PathName, query: QueryPairs) -> Answer {
    let queue: QueueName = text(&"", path.as_str())?;
    let (skip, limit) = query.only(&["limit", "offset"])?.page(PEEKED_TASKS_DEFAULT)?;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (skip, limit, queues) = (number(skip), number(limit), vec![queue.clone()]);
    let (tasks, total) = context.handle.peek(queues, None, skip, limit).await?;
    let keys = tasks.into_iter().map(LoadKey::Task).collect();
    let found = context.app.store.load(context.shard(), keys).await?;
    // A worker may have taken one since.
    let waiting =
        found.iter().filter(|(_, record)| record.progress.state.word() == StateWord::Queued);
    let tasks = waiting.map(|(_, record)| answers::task(record)).collect::<Result<_, _>>()?;
    let paused = one(&context, &queue).await?.paused;
    let shown = QueuedTasks { queue: queue.to_string(), tasks, total, paused };
    ok(&shown)
}

/// Pause a queue
///
/// Nothing of it is granted until it is resumed, across restarts too. What runs goes on. The queue
/// may have no task yet.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/pause", operation_id = "pause_queue",
    responses(
        (status = 200, body = Queue, description = "The queue is paused."),
        (status = 429, description = "E.LIMIT.PAUSES, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn pause(context: Context, path: PathName) -> Answer {
    let by = context.asker_name();
    let pause = Pause { by, at: context.app.clock.now() };
    set_pause(&context, &path, Some(pause)).await
}

/// Let a queue go on
///
/// To resume a queue that is not paused changes nothing.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/resume", operation_id = "resume_queue",
    responses((status = 200, body = Queue, description = "The queue is not paused."))
)]
pub(super) async fn resume(context: Context, path: PathName) -> Answer {
    set_pause(&context, &path, None).await
}

async fn set_pause(context: &Context, path: &PathName, pause: Option<Pause>) -> Answer {
    let queue: QueueName = text(&"", path.as_str())?;
    context.handle.set_pause(queue.clone(), pause).await?;
    ok(&one(context, &queue).await?)
}

/// Requeue what ended badly
///
/// Puts the queue's DEAD tasks, and on request its FAILED ones, back into it with fresh attempts:
/// so many as one call may change.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/requeue", operation_id = "requeue_queue",
    request_body = RequeueQueue,
    responses(
        (status = 200, body = RequeuedQueue, description = "Call again while there is `more`."),
        (status = 429, description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED")
    )
)]
pub(super) async fn requeue(
    context: Context,
    path: PathName,
    Json(body): Json<RequeueQueue>,
) -> Answer {
    let queue: QueueName = text(&"", path.as_str())?;
    let mut states = vec![StateWord::Dead];
    states.extend(body.failed.then_some(StateWord::Failed));
    let found = find(&context, &queue, states, body.max).await?;
    let requeued = bulk::requeue(&context.handle, found.tasks).await? as u64;
    let dead = one(&context, &queue).await?.dead;
    let queue = queue.to_string();
    ok(&RequeuedQueue { queue, requeued, dead, more: found.more })
}

/// Empty a queue
///
/// Stops its QUEUED tasks, and on request those that wait for a moment: so many as one call may
/// change. What runs goes on; a task that a worker takes meanwhile is stopped too.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/purge", operation_id = "purge_queue",
    request_body = PurgeQueue,
    responses(
        (status = 200, body = PurgedQueue, description = "Call again while there is `more`.")
    )
)]
pub(super) async fn purge(
    context: Context,
    path: PathName,
    Json(body): Json<PurgeQueue>,
) -> Answer {
    let queue: QueueName = text(&"", path.as_str())?;
    let mut states = vec![StateWord::Queued];
    if body.waiting {
        states.extend([StateWord::Waiting, StateWord::Retrying]);
    }
    let found = find(&context, &queue, states, body.max).await?;
    let stopped = bulk::stop(&context.handle, found.tasks).await? as u64;
    let depth = one(&context, &queue).await?.depth;
    let queue = queue.to_string();
    ok(&PurgedQueue { queue, stopped, depth, more: found.more })
}

async fn find(
    context: &Context,
    queue: &QueueName,
    states: Vec<StateWord>,
    max: Option<i64>,
) -> Result<bulk::Found, ApiError> {
    let max = QUEUE_MAX.check(&"", max.unwrap_or(bulk::TASKS_PER_CALL_MAX))?;
    let max = usize::try_from(max).expect("at most TASKS_PER_CALL_MAX");
    let query = PageQuery { states, queue: Some(queue.clone()), ..PageQuery::default() };
    Ok(bulk::find(&context.app, context.shard(), query, max).await?)
}

/// Every queue. Live tasks are counted by the coordinator, dead ones by the store; a queue may
/// have only one of the two.
async fn all(context: &Context) -> Result<BTreeMap<QueueName, Queue>, ApiError> {
    let views = context.handle.list_queues().await?;
    let dead = context.app.store.count_dead(context.shard()).await?;
    let mut queues: BTreeMap<QueueName, Queue> =
        views.into_iter().map(|view| (view.queue.clone(), live(&context.app, view))).collect();
    for (name, count) in dead {
        queues.entry(name.clone()).or_insert_with(|| empty(&name)).dead = count;
    }
    Ok(queues)
}

/// One queue; a name that was never used is an empty one.
async fn one(context: &Context, name: &QueueName) -> Result<Queue, ApiError> {
    let found = all(context).await?.remove(name);
    Ok(found.unwrap_or_else(|| empty(name)))
}

fn live(app: &App, view: QueueView) -> Queue {
    let now = app.clock.now();
    let age = view.oldest_since.map(|since| now.since(since).as_millis());
    Queue {
        depth: view.depth,
        oldest_age_ms: age.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        in_flight: view.in_flight,
        retries_due: view.retries_due,
        scheduled: view.scheduled,
        blocked: view.blocked,
        paused: view.paused.map(|pause| QueuePause { by: pause.by, since: pause.at.to_string() }),
        ..empty(&view.queue)
    }
}

fn empty(name: &QueueName) -> Queue {
    Queue { queue: name.to_string(), ..Queue::default() }
}
