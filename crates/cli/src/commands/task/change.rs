//! `astra task cancel` and `astra task requeue`.

use protocol::rest::tasks::Task;

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::{selector, words};

const CANCEL_EXAMPLES: &str = "\
Examples:
  astra task cancel last
  astra task cancel 3f2a91bc 77d0
";

const REQUEUE_EXAMPLES: &str = "\
Examples:
  astra task requeue last
  astra task list --state dead -o quiet | xargs astra task requeue
";

/// Stop tasks: they are not started any more, and what runs is told to stop.
#[derive(Debug, clap::Args)]
#[command(before_help = CANCEL_EXAMPLES)]
pub(crate) struct CancelArguments {
    /// The tasks: ids, first letters of ids, or `last`.
    #[arg(required = true)]
    tasks: Vec<String>,
}

/// Bring failed or dead tasks back to their queue, with all their attempts.
#[derive(Debug, clap::Args)]
#[command(before_help = REQUEUE_EXAMPLES)]
pub(crate) struct RequeueArguments {
    /// The tasks: ids, first letters of ids, or `last`.
    #[arg(required = true)]
    tasks: Vec<String>,
}

pub(crate) async fn cancel(arguments: CancelArguments, context: &Context) -> Result<ExitCode> {
    change(arguments.tasks, "cancel", context).await
}

pub(crate) async fn requeue(arguments: RequeueArguments, context: &Context) -> Result<ExitCode> {
    change(arguments.tasks, "requeue", context).await
}

async fn change(selectors: Vec<String>, verb: &str, context: &Context) -> Result<ExitCode> {
    let mut tasks = super::show::Tasks::default();
    for selector in selectors {
        let id = selector::task(context, &selector).await?;
        let path = format!("/api/v1/tasks/{id}/{verb}");
        let task: Task = context.ask(context.client.post(&path, &serde_json::json!({}))).await?;
        context.output.note(format!("{} is {}", task.task_id, words::state(task.state)));
        tasks.tasks.push(task);
    }
    if !context.output.is_for_people() {
        context.output.show(&tasks);
    }
    Ok(ExitCode::Success)
}
