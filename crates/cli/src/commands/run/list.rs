//! `astra run list`.

use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::pages::Pages;
use super::selector::PAGES_MAX;
use super::summary::RunSummary;
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
    let (runs, is_more) = newest(context, arguments.limit).await?;
    context.output.show(&Runs { runs });
    if is_more {
        context.output.note("there may be more; see them with a larger -n");
    }
    Ok(ExitCode::Success)
}

/// The newest runs, and whether there may be older ones.
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
            let Some(name) = task.run.clone() else { continue };
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
    runs: Vec<RunSummary>,
}

impl Show for Runs {
    fn text(&self) -> String {
        if self.runs.is_empty() {
            return "no runs; start one: astra run -- echo hello".into();
        }
        let header = ["RUN", "COMMAND", "TASKS", "STATE", "STARTED", "TOOK"];
        output::table(header, self.runs.iter().map(row).collect())
    }

    fn quiet(&self) -> String {
        let names: Vec<_> = self.runs.iter().map(|run| run.run.as_str()).collect();
        names.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.runs.iter().map(output::json).collect()
    }
}

fn row(run: &RunSummary) -> [String; 6] {
    let state = run.state();
    let word = format!("{} {}", words::mark(state), words::state(state));
    let done = run.states.get(&State::Completed).copied().unwrap_or(0);
    let tasks = match run.tasks {
        1 => "1".into(),
        n => format!("{done}/{n}"),
    };
    [run.run.clone(), run.command(), tasks, word, words::ago(&run.created_at), run.took()]
}
