//! `astra run rebind`.

use protocol::rest::rebind::{RebindMode, RebindRun, Rebound};

use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};

const EXAMPLES: &str = "\
Examples:
  astra run rebind last                       whoever asks next has the work
  astra run rebind 41 --to gpu-2
  astra run rebind 41 --package crawlerx_playwright --drain
";

/// Take the work of a run away from the worker that has it; what that one is doing it finishes.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// Only the work of this package, or of this type where a node needs no package.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// The worker that is asked first from here on.
    #[arg(long, value_name = "WORKER")]
    to: Option<String>,
    /// Whoever had the work gets nothing more of this run.
    #[arg(long)]
    drain: bool,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let run = selector::workflow_run(context, &arguments.run).await?;
    let order = RebindRun {
        package: arguments.package.clone(),
        worker_name: arguments.to.clone(),
        mode: if arguments.drain { RebindMode::Drain } else { RebindMode::Move },
    };
    let path = format!("/api/v1/scheduler/runs/{}/rebind", run.run_id);
    let rebound: Rebound = context.ask(context.client.post(&path, &order)).await?;
    context.output.show(&rebound);
    Ok(ExitCode::Success)
}

impl Show for Rebound {
    fn text(&self) -> String {
        if self.bindings.is_empty() {
            return "Nobody has the work; the next worker that asks gets it.".into();
        }
        let rows = self.bindings.iter().map(|one| [one.package.clone(), one.worker.clone()]);
        output::table(["WORK", "WORKER"], rows.collect())
    }

    fn quiet(&self) -> String {
        let workers = self.bindings.iter().map(|one| one.worker.clone());
        workers.collect::<Vec<_>>().join("\n")
    }
}
