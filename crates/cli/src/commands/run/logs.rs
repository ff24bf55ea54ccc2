//! `astra run logs`.

use protocol::rest::tasks::Task;

use super::ending::Written;
use super::log_reader::{Heard, LogReader};
use super::plan::Parameters;
use super::selector::{self, FoundRun};
use super::voice::Voice;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  astra run logs last
  astra run logs k3f9 photos/a.jpg
  astra run logs last 17 2>/dev/null | less
";

/// Print what a run has written so far.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its name, the first letters of it, `last` or `last~1`.
    run: String,
    /// Only this item of a run of many: what it is, or its number.
    item: Option<String>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, tasks } = selector::run(context, &arguments.run).await?;
    let chosen = match &arguments.item {
        Some(item) => vec![one(&name, tasks, item)?],
        None => tasks,
    };
    let voice = Voice::new(context.output, false);
    let has_headings = chosen.len() > 1;
    for task in chosen {
        if has_headings {
            let item = Parameters::of(&task.parameters).item().map(ToOwned::to_owned);
            voice.note(format!("==> {} <==", item.as_deref().unwrap_or(&task.task_id)));
        }
        print(&task, voice, context).await?;
    }
    Ok(ExitCode::Success)
}

fn one(run: &str, tasks: Vec<Task>, item: &str) -> Result<Task> {
    let number: Option<usize> = item.parse().ok();
    // What it is goes before its number: numbers may be items too.
    let by_text =
        tasks.iter().position(|task| Parameters::of(&task.parameters).item() == Some(item));
    let by_number = || {
        let is_it = |task: &Task| {
            number.is_some() && Parameters::of(&task.parameters).item_number() == number
        };
        tasks.iter().position(is_it)
    };
    let by_id = || tasks.iter().position(|task| task.task_id == item);
    let found = by_text.or_else(by_number).or_else(by_id);
    found.and_then(|place| tasks.into_iter().nth(place)).ok_or_else(|| {
        let message = format!("run {run} has no item {item}");
        let hint = "give the item as it was given to the run, or its number from 1";
        Failure::new(ExitCode::NotFound, message, hint)
    })
}

async fn print(task: &Task, voice: Voice, context: &Context) -> Result<()> {
    let mut log = LogReader::new(context, &task.task_id, 0, false).spawn();
    let mut is_empty = true;
    while let Some(heard) = log.recv().await {
        match heard? {
            Heard::Line(line) => {
                is_empty = false;
                if voice.line(&line).is_err() {
                    // A reader that went away (`| head`) needs no message.
                    return Ok(());
                }
            }
            Heard::Away | Heard::Back => {}
            Heard::End => break,
        }
    }
    if is_empty {
        let written = Written::of(task);
        let _ = voice.late("stdout", &written.stdout);
        let _ = voice.late("stderr", &written.stderr);
    }
    Ok(())
}
