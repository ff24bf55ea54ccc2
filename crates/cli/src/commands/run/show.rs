//! `astra run show`.

use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::ending;
use super::plan::Parameters;
use super::selector::{self, Found, FoundRun};
use super::summary::RunSummary;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra run show last
  astra run show 41                           the nodes of a workflow's run
  astra run show last~1 -o json
";

/// More failures than this are counted, and not listed.
const FAILURES_SHOWN: usize = 20;

/// Show a run: its nodes, its one task, or how many of its tasks are in which state.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
    run: String,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, mut tasks } = match selector::run(context, &arguments.run).await? {
        Found::Commands(found) => found,
        Found::Workflow(run) => {
            context.output.show(&*run);
            return Ok(ExitCode::Success);
        }
    };
    if let [task] = tasks.as_slice() {
        context.output.note(format!("run {name}"));
        context.output.show(task);
        return Ok(ExitCode::Success);
    }
    tasks.reverse();
    let summary = RunSummary::of(&name, &tasks).expect("a run that was found has tasks");
    let failures = tasks.iter().rev().filter(|task| is_failure(task.state)).map(failure).collect();
    context.output.show(&ManyShown { summary, failures });
    Ok(ExitCode::Success)
}

fn is_failure(state: State) -> bool {
    matches!(state, State::Failed | State::Dead)
}

#[derive(Serialize)]
struct ManyShown {
    summary: RunSummary,
    failures: Vec<ShownFailure>,
}

#[derive(Serialize)]
struct ShownFailure {
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    reason: String,
}

fn failure(task: &Task) -> ShownFailure {
    let item = Parameters::of(&task.parameters).item().map(ToOwned::to_owned);
    ShownFailure { task_id: task.task_id.clone(), item, reason: ending::why(task) }
}

impl Show for ManyShown {
    fn text(&self) -> String {
        let run = &self.summary;
        let state = run.state();
        let headline = format!("{} {}", words::mark(state), words::state(state));
        let headline = output::styled(words::style(state), headline);
        let mut rows = vec![
            ("command", run.command()),
            ("submitted", format!("{} ({})", run.created_at, words::ago(&run.created_at))),
            ("took", run.took()),
            ("tasks", run.tasks.to_string()),
        ];
        let states = run.states.iter();
        rows.extend(states.map(|(state, n)| (words::state(*state), words::thousands(*n as u64))));
        let mut text = format!("{headline}  run {}\n{}", run.run, output::facts(&rows));
        for failure in self.failures.iter().take(FAILURES_SHOWN) {
            let item = failure.item.as_deref().unwrap_or(&failure.task_id);
            words::push(&mut text, format_args!("  ✗ {item}: {}\n", failure.reason));
        }
        if self.failures.len() > FAILURES_SHOWN {
            let more = self.failures.len() - FAILURES_SHOWN;
            words::push(&mut text, format_args!("  and {more} more\n"));
        }
        text
    }

    fn quiet(&self) -> String {
        self.summary.state().word().into()
    }
}
