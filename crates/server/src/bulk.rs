//! Many tasks at once: pages of them, and the same order for each, so that they share their commits.

use coordinator::{Refusal, TaskRecord};
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

/// The tasks of at most so many pages, and whether there are more.
pub(crate) async fn pages(
    app: &App,
    shard: ShardId,
    mut query: PageQuery,
    pages_max: usize,
) -> Result<(Vec<TaskRecord>, bool), StoreError> {
    let limit = query.limit;
    let mut found = Vec::new();
    for _ in 0..pages_max {
        let page = app.store.list(shard, query.clone()).await?;
        found.extend(page.tasks);
        query.skip = query.skip.saturating_sub(page.skipped);
        query.limit = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        match page.next_before {
            Some(next) if query.limit > 0 => query.before = Some(next),
            next => return Ok((found, next.is_some())),
        }
    }
    Ok((found, true))
}

/// At most `max` tasks that fit a query, the newest of them all.
pub(crate) async fn find(
    app: &App,
    shard: ShardId,
    query: PageQuery,
    max: usize,
) -> Result<Found, StoreError> {
    let limit = u32::try_from(max + 1).unwrap_or(u32::MAX);
    let query = PageQuery { detail: Detail::Summary, limit, ..query };
    let (records, more) = pages(app, shard, query, PAGES_MAX).await?;
    let mut tasks: Vec<TaskId> = records.iter().take(max).map(|record| record.id).collect();
    tasks.reverse();
    Ok(Found { tasks, more: more || records.len() > max })
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
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(is_done) => done += usize::from(is_done),
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
