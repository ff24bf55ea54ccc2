//! One job, from its submitter's words to the task.

use bytes::Bytes;
use coordinator::{Refusal, SubmittedTask};
use model::{ShardId, TaskId};
use store::StoreError;

use super::job::{JobProblem, OrderDesk};
use super::{after, find};
use crate::app::App;
use crate::handle::{AskError, ShardHandle};

/// Why there is no job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// It cannot be read.
    #[error(transparent)]
    Invalid(#[from] JobProblem),
    /// A job that it waits for does not exist.
    #[error("Job not found: {0}")]
    NoJob(String),
    /// Another job has the name.
    #[error("Job already exists: {0}")]
    Exists(String),
    /// Nobody answered, or the coordinator refused it.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes the task of a job. The same job again is the same task.
pub(crate) async fn submit(
    app: &App,
    handle: &ShardHandle,
    json: &Bytes,
) -> Result<SubmittedTask, SubmitError> {
    let order = OrderDesk::new(app, handle).read(json, None).await?;
    let mut task = order.task;
    after::wait_for(&mut task, tasks_of(app, handle.shard(), &order.after).await?);
    match handle.submit(vec![task]).await {
        Ok(made) => made.first().copied().ok_or_else(|| AskError::Unavailable.into()),
        Err(AskError::Refused(Refusal::IdempotencyConflict { .. })) => {
            Err(SubmitError::Exists(order.job_id.unwrap_or_default()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn tasks_of(app: &App, shard: ShardId, names: &[String]) -> Result<Vec<TaskId>, SubmitError> {
    let mut tasks = Vec::with_capacity(names.len());
    for name in names {
        let found = find::job(app, shard, name).await?;
        tasks.push(found.ok_or_else(|| SubmitError::NoJob(name.clone()))?.id);
    }
    Ok(tasks)
}
