//! `astra run logs`.

use std::collections::{BTreeMap, BTreeSet};

use protocol::rest::runs::{Run, RunNode};
use protocol::rest::tasks::Task;

use super::ending::Written;
use super::log_reader::{Heard, LogReader};
use super::node_selector;
use super::pages::Pages;
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
    let mut nodes: Vec<&RunNode> = run.nodes.iter().flatten().collect();
    if let Some(node) = node {
        let id = &node_selector::node(run, node)?.node_id;
        nodes.retain(|node| node.node_id == *id);
    }
    let elements = elements(run, &nodes, context).await?;
    let voice = Voice::new(context.output, false);
    let has_headings = nodes.len() > 1 || nodes.iter().any(|node| node.map.is_some());
    let heading = |text: String| {
        if has_headings {
            voice.note(format!("==> {text} <=="));
        }
    };
    let mut told = BTreeSet::new();
    for node in nodes {
        let name = workflow_run::name_of(node);
        if let Some(task_id) = &node.task_id {
            let task: Task =
                context.ask(context.client.get(&format!("/api/v1/tasks/{task_id}"))).await?;
            let index = node.metadata.frame.as_ref().and_then(|frame| frame.index);
            heading(index.map_or_else(|| name.clone(), |index| format!("{name} [{index}]")));
            print(&task, voice, context).await?;
        } else if told.insert(&node.node_id) {
            for (item, task) in elements.get(&node.node_id).into_iter().flatten() {
                heading(format!("{name} [{item}]"));
                print(task, voice, context).await?;
            }
        }
    }
    Ok(ExitCode::Success)
}

/// The tasks of nodes that are executed once per element, by node, in the order of the elements.
async fn elements(run: &Run, nodes: &[&RunNode], context: &Context) -> Result<Elements> {
    let mut elements = Elements::new();
    if nodes.iter().all(|node| node.map.is_none()) {
        return Ok(elements);
    }
    for task in Pages::of_run(&run.run_id, &[]).all(context).await? {
        if let (Some(node), Some(item)) = (task.node_id.clone(), task.item) {
            elements.entry(node).or_default().push((item, task));
        }
    }
    for of_node in elements.values_mut() {
        // The newest came first; an element may have been executed more than once.
        of_node.reverse();
        of_node.sort_by_key(|(item, _)| *item);
    }
    Ok(elements)
}

/// Tasks by the node that they execute, with the element that each is about.
type Elements = BTreeMap<String, Vec<(u32, Task)>>;

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
