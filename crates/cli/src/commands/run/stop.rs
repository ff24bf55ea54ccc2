//! `astra run stop`.

use protocol::error_code::ErrorCode;
use protocol::rest::runs::{RunRef, RunStatus};
use protocol::rest::tasks::Task;
use serde::Serialize;
use tokio::task::JoinSet;
use worker::client::ClientError;

use super::pages::Pages;
use super::selector::{self, Found};
use super::tally::LIVE;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Show;
use crate::{words, workflow_run};

const EXAMPLES: &str = "\
Examples:
  astra run stop last
  astra run stop k3f9
  astra run list -o quiet | xargs astra run stop
";

/// So many tasks are stopped at a time.
const PARALLEL: usize = 8;

/// Stop runs: what has not started does not start any more, and what runs is told to stop.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The runs: names or numbers, first letters of names or ids, `last` or `last~1`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    for selected in &arguments.runs {
        match selector::run(context, selected).await? {
            Found::Commands(found) => context.output.show(&all(context, &found.name).await?),
            Found::Workflow(run) => {
                let path = format!("{}/cancel", workflow_run::path(&run.run_id));
                let stopped: RunRef =
                    context.ask(context.client.post(&path, &serde_json::json!({}))).await?;
                context.output.show(&StoppedWorkflow(stopped));
            }
        }
    }
    Ok(ExitCode::Success)
}

/// What was stopped.
#[derive(Debug, Serialize)]
pub(super) struct Stopped {
    run: String,
    /// Tasks that had come to their end by themselves are not counted.
    tasks: usize,
}

impl Stopped {
    pub(super) fn in_words(&self) -> String {
        match self.tasks {
            0 => "nothing was left to stop".into(),
            n => words::count(n, "task"),
        }
    }
}

impl Show for Stopped {
    fn text(&self) -> String {
        format!("run {}: {} stopped", self.run, words::count(self.tasks, "task"))
    }

    fn quiet(&self) -> String {
        self.run.clone()
    }
}

/// A run of a workflow that was told to stop.
#[derive(Debug, Serialize)]
struct StoppedWorkflow(RunRef);

impl Show for StoppedWorkflow {
    fn text(&self) -> String {
        match self.0.status {
            RunStatus::Succeeded | RunStatus::Failed => {
                format!("run {}: nothing was left to stop", self.0.number)
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Cancelled => {
                format!("run {} is stopped", self.0.number)
            }
        }
    }

    fn quiet(&self) -> String {
        self.0.number.to_string()
    }
}

/// Stops what is left of a run. What has not started goes first: stopping what runs would only
/// make room for it.
pub(super) async fn all(context: &Context, run: &str) -> Result<Stopped> {
    let mut live = Pages::of_run(run, &LIVE).all(context).await?;
    live.sort_by_key(|task| task.lease.is_some());
    let mut waiting = live.into_iter().map(|task| task.task_id);
    let mut stopping = JoinSet::new();
    let mut tasks = 0;
    loop {
        while stopping.len() < PARALLEL
            && let Some(task_id) = waiting.next()
        {
            let client = context.client.clone();
            stopping.spawn(async move {
                let path = format!("/api/v1/tasks/{task_id}/cancel");
                client.post::<Task>(&path, &serde_json::json!({})).await
            });
        }
        match stopping.join_next().await {
            None => return Ok(Stopped { run: run.into(), tasks }),
            Some(Ok(answer)) => tasks += usize::from(is_stopped(answer, context)?),
            Some(Err(error)) => return Err(anyhow::Error::from(error).into()),
        }
    }
}

/// A task that came to its end meanwhile needs no stopping.
fn is_stopped(answer: std::result::Result<Task, ClientError>, context: &Context) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.refusal() == Some(ErrorCode::TaskConflict) => Ok(false),
        Err(error) => Err(context.explain(error)),
    }
}
