//! `astra run logs`.

use protocol::rest::runs::{Run, RunNode};
use protocol::rest::tasks::Task;

use super::ending::Written;
use super::log_reader::{Heard, LogReader};
use super::node_selector;
use super::plan::Parameters;
use super::selector::{self, Found, FoundRun};
use super::voice::Voice;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::workflow_run;

const EXAMPLES: &str = "\
Examples:
  astra run logs last
  astra run logs k3f9 photos/a.jpg
  astra run logs 41 transcode                 a node of a workflow's run
";

/// Print what a run has written so far.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its name or number, the first letters of its name or id, `last` or `last~1`.
    run: String,
    /// Only this item of a run of many (what it is, or its number), or this node of a workflow.
    #[arg(value_name = "ITEM|NODE")]
    item: Option<String>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, tasks } = match selector::run(context, &arguments.run).await? {
        Found::Commands(found) => found,
        Found::Workflow(run) => return of_nodes(&run, arguments.item.as_deref(), context).await,
    };
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

async fn of_nodes(run: &Run, node: Option<&str>, context: &Context) -> Result<ExitCode> {
    let nodes: Vec<&RunNode> = match node {
        Some(node) => vec![node_selector::node(run, node)?],
        None => run.nodes.iter().flatten().collect(),
    };
    let voice = Voice::new(context.output, false);
    for node in &nodes {
        let Some(task_id) = &node.task_id else { continue };
        let task: Task =
            context.ask(context.client.get(&format!("/api/v1/tasks/{task_id}"))).await?;
        if nodes.len() > 1 {
            voice.note(format!("==> {} <==", workflow_run::name_of(node)));
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
