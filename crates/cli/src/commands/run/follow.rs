//! `astra run follow`.

use super::attach::{self, Attachment};
use super::log_reader;
use super::plan::Parameters;
use super::progress::{self, Many};
use super::selector::{self, Found, FoundRun};
use super::voice::Voice;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::workflow_run::{self, Followed, Manner};

const EXAMPLES: &str = "\
Examples:
  astra run follow last
  astra run follow 41                         the nodes of a workflow's run
  astra run follow k3f9 --tail
  astra run follow last --propagate
";

/// Come back to a run: its output from the start or its nodes, and what comes until its end.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
    run: String,
    /// Leave out what it has written so far.
    #[arg(long)]
    tail: bool,
    /// Exit with the command's own code; 128 and the signal's number if a signal killed it.
    #[arg(long)]
    propagate: bool,
    /// Write nothing but what the command writes.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, tasks } = match selector::run(context, &arguments.run).await? {
        Found::Commands(found) => found,
        Found::Workflow(run) => {
            let followed = Followed { run_id: run.run_id, number: run.number };
            return workflow_run::follow(followed, Manner::Nodes, context).await;
        }
    };
    let voice = Voice::new(context.output, arguments.quiet);
    let title = Parameters::of(&tasks[0].parameters).title().to_owned();
    let mut task_ids: Vec<String> = tasks.into_iter().map(|task| task.task_id).collect();
    if task_ids.len() > 1 {
        return progress::follow(Many { run: name, title, task_ids, voice }, context).await;
    }
    let task_id = task_ids.remove(0);
    let offset = if arguments.tail { log_reader::end_of(context, &task_id).await? } else { 0 };
    let propagates = arguments.propagate;
    attach::follow(Attachment { run: name, title, task_id, offset, propagates, voice }, context)
        .await
}
