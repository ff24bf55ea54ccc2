//! The same order for many tasks: they share their commits.

use coordinator::Refusal;
use futures_util::{StreamExt, stream};
use model::{ShardId, TaskId};
use store::{Detail, PageQuery, StoreError};

use crate::app::App;
use crate::handle::{AskError, ShardHandle};

/// Limit: tasks that one requeue or purge changes.
pub(crate) const TASKS_PER_CALL_MAX: i64 = 1_000;
/// Orders that are on their way at the same time.
const ORDERS_AT_ONCE: usize = 64;
/// Pages that one call reads; what lies beyond is for the next call.
const PAGES_MAX: usize = 20;

/// Tasks that fit a query, and whether there are more.
pub(crate) struct Found {
    /// Oldest first.
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) more: bool,
}

/// At most `max` tasks that fit a query, the newest of them all.
pub(crate) async fn find(
    app: &App,
    shard: ShardId,
    mut query: PageQuery,
    max: usize,
) -> Result<Found, StoreError> {
    let mut tasks = Vec::new();
    let mut more = true;
    for _ in 0..PAGES_MAX {
        query.detail = Detail::Summary;
        query.limit = u32::try_from(max + 1 - tasks.len()).unwrap_or(u32::MAX);
        let page = app.store.list(shard, query.clone()).await?;
        tasks.extend(page.tasks.iter().map(|record| record.id));
        more = tasks.len() > max || page.next_before.is_some();
        match page.next_before {
            Some(next) if tasks.len() <= max => query.before = Some(next),
            Some(_) | None => break,
        }
    }
    tasks.truncate(max);
    tasks.reverse();
    Ok(Found { tasks, more })
}

/// Stops tasks; gives how many of them were not over.
pub(crate) async fn stop(handle: &ShardHandle, tasks: Vec<TaskId>) -> Result<usize, AskError> {
    each(tasks, |task| handle.stop(task)).await
}

/// Requeues tasks; gives how many of them could be.
pub(crate) async fn requeue(handle: &ShardHandle, tasks: Vec<TaskId>) -> Result<usize, AskError> {
    each(tasks, |task| async move {
        match handle.requeue(task).await {
            Ok(()) => Ok(true),
            // Somebody else was faster.
            Err(AskError::Refused(Refusal::NotRequeueable { .. } | Refusal::UnknownTask)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    })
    .await
}

/// Gives an order for each task. What was done before a refusal stays done, and counts.
async fn each<F>(tasks: Vec<TaskId>, order: impl Fn(TaskId) -> F) -> Result<usize, AskError>
where
    F: Future<Output = Result<bool, AskError>>,
{
    let mut answers = stream::iter(tasks).map(order).buffered(ORDERS_AT_ONCE);
    let mut done = 0;
    let mut trouble = None;
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(is_done) => done += usize::from(is_done),
            Err(error) => {
                trouble = Some(error);
                break;
            }
        }
    }
    match trouble {
        Some(error) if done == 0 => Err(error),
        Some(_) | None => Ok(done),
    }
}
