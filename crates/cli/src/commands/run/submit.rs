//! Sends the tasks of a run.

use std::time::Duration;

use protocol::rest::tasks::{SubmitTasks, SubmittedTask, SubmittedTasks, TaskToSubmit};
use worker::client::{ClientError, Patience};

use crate::context::Context;
use crate::failure::Result;

const PATH: &str = "/api/v1/tasks";
/// So many tasks go in one request.
const BATCH: usize = 500;
/// How long a server that restarts is waited for.
const PATIENCE: Patience = Patience { total: Duration::from_secs(15) };

/// All tasks, in order. They carry keys, so that sending them twice makes no second one.
pub(super) async fn all(
    context: &Context,
    mut tasks: Vec<TaskToSubmit>,
) -> Result<Vec<SubmittedTask>> {
    let mut submitted = Vec::with_capacity(tasks.len());
    while !tasks.is_empty() {
        let rest = tasks.split_off(tasks.len().min(BATCH));
        let batch = SubmitTasks { tasks };
        let was_there = !submitted.is_empty();
        let made = context.ask(send(context, &batch, was_there)).await?;
        submitted.extend(made.tasks);
        tasks = rest;
    }
    Ok(submitted)
}

/// A server that never was there is told at once; the absence of one that was there passes.
async fn send(
    context: &Context,
    batch: &SubmitTasks,
    was_there: bool,
) -> std::result::Result<SubmittedTasks, ClientError> {
    match context.client.post(PATH, batch).await {
        Err(ClientError::Unreachable { endpoint, source }) if !was_there => {
            Err(ClientError::Unreachable { endpoint, source })
        }
        Err(error) if error.is_passing() => {
            context.client.post_patiently(PATH, batch, PATIENCE).await
        }
        answer => answer,
    }
}
