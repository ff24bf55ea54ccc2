//! `astra run wait`.

use super::attach;
use super::ending;
use super::plan::Parameters;
use super::progress::{self, Many};
use super::selector::{self, Found, FoundRun};
use super::voice::Voice;
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::workflow_run::{self, Followed, Manner};

const EXAMPLES: &str = "\
Examples:
  astra run wait last
  astra run wait build test --timeout 10m
  astra run wait $(astra run -d -- make) && echo done
";

/// Wait for the end of runs, without their output; exit 1 unless all succeeded.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The runs: names or numbers, first letters of names or ids, `last` or `last~1`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Give up waiting after this time, with exit code 124.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let all = async {
        let mut exit = ExitCode::Success;
        for selector in &arguments.runs {
            match one(selector::run(context, selector).await?, context).await? {
                ExitCode::Success => {}
                ExitCode::Interrupted => return Ok(ExitCode::Interrupted),
                _ => exit = ExitCode::Failed,
            }
        }
        Ok(exit)
    };
    let Some(timeout) = arguments.timeout else { return all.await };
    tokio::time::timeout(timeout.0, all).await.unwrap_or_else(|_| {
        Err(Failure::new(
            ExitCode::WaitTimeout,
            "the wait is over, the work is not",
            "it goes on; look with `astra run list`",
        ))
    })
}

async fn one(found: Found, context: &Context) -> Result<ExitCode> {
    let FoundRun { name: run, tasks } = match found {
        Found::Commands(found) => found,
        Found::Workflow(run) => {
            let followed = Followed { run_id: run.run_id, number: run.number };
            return workflow_run::follow(followed, Manner::EndAlone, context).await;
        }
    };
    let voice = Voice::new(context.output, false);
    if let [task] = tasks.as_slice() {
        let task = attach::until_ended(context, &task.task_id).await?;
        voice.note(ending::headline(&run, &task));
        voice.data(&task);
        return Ok(ending::exit_code(&task, false));
    }
    let title = Parameters::of(&tasks[0].parameters).title().to_owned();
    let task_ids = tasks.into_iter().map(|task| task.task_id).collect();
    progress::follow(Many { run, title, task_ids, voice }, context).await
}
