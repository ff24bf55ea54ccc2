//! `astra run list`.

use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::named::{self, PAGES_MAX};
use super::numbered;
use super::pages::Pages;
use super::summary::{RunSummary, WorkflowRunSummary};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra run list
  astra run list -n 50
  astra run list -o quiet | xargs astra run wait
";

/// List runs, newest first.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// At most so many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let (commands, is_more_commands) = newest(context, arguments.limit).await?;
    let (workflows, is_more) = numbered::newest(context, arguments.limit).await?;
    let mut runs: Vec<_> = commands.into_iter().map(Listed::Command).collect();
    runs.extend(workflows.into_iter().map(WorkflowRunSummary::of).map(Listed::Workflow));
    // All moments are of one server, in one form.
    runs.sort_by(|one, other| other.created_at().cmp(one.created_at()));
    let is_more = is_more || is_more_commands || runs.len() > arguments.limit;
    runs.truncate(arguments.limit);
    context.output.show(&Runs { runs });
    if is_more {
        context.output.note("there may be more; see them with a larger -n");
    }
    Ok(ExitCode::Success)
}

/// The newest runs of commands, and whether there may be older ones.
async fn newest(context: &Context, limit: usize) -> Result<(Vec<RunSummary>, bool)> {
    let mut groups: Vec<(String, Vec<Task>)> = Vec::new();
    let mut pages = Pages::of_commands();
    let mut is_more = true;
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context).await? else {
            is_more = false;
            break;
        };
        for task in page {
            let Some(name) = named::name_of(&task).map(ToOwned::to_owned) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, tasks)) => tasks.push(task),
                None => groups.push((name, vec![task])),
            }
        }
        // One more than is shown: by then the last one that is shown is complete.
        if groups.len() > limit {
            break;
        }
    }
    is_more |= groups.len() > limit;
    groups.truncate(limit);
    let runs = groups.iter().filter_map(|(name, tasks)| RunSummary::of(name, tasks));
    Ok((runs.collect(), is_more))
}

#[derive(Serialize)]
struct Runs {
    runs: Vec<Listed>,
}

/// A run of either kind.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Listed {
    Command(RunSummary),
    Workflow(WorkflowRunSummary),
}

impl Listed {
    fn created_at(&self) -> &str {
        match self {
            Self::Command(run) => &run.created_at,
            Self::Workflow(run) => &run.created_at,
        }
    }

    fn run(&self) -> &str {
        match self {
            Self::Command(run) => &run.run,
            Self::Workflow(run) => &run.run,
        }
    }
}

impl Show for Runs {
    fn text(&self) -> String {
        if self.runs.is_empty() {
            return "no runs; start one: astra run -- echo hello".into();
        }
        let header = ["RUN", "KIND", "WHAT", "TASKS", "STATE", "STARTED", "TOOK"];
        let rows = self.runs.iter().map(|run| match run {
            Listed::Command(run) => row(run),
            Listed::Workflow(run) => workflow_row(run),
        });
        output::table(header, rows.collect())
    }

    fn quiet(&self) -> String {
        let names: Vec<_> = self.runs.iter().map(Listed::run).collect();
        names.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.runs.iter().map(output::json).collect()
    }
}

fn row(run: &RunSummary) -> [String; 7] {
    let state = run.state();
    let word = format!("{} {}", words::mark(state), words::state(state));
    let done = run.states.get(&State::Completed).copied().unwrap_or(0);
    let tasks = match run.tasks {
        1 => "1".into(),
        n => format!("{done}/{n}"),
    };
    let started = words::ago(&run.created_at);
    [run.run.clone(), "command".into(), run.command(), tasks, word, started, run.took()]
}

fn workflow_row(run: &WorkflowRunSummary) -> [String; 7] {
    let word = words::run_status(run.status);
    let started = words::ago(&run.created_at);
    [run.run.clone(), "workflow".into(), run.name.clone(), "-".into(), word, started, run.took()]
}
