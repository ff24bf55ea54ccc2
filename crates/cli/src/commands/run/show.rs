//! `astra run list`, `show` and `logs`.

use std::collections::{BTreeMap, BTreeSet};

use protocol::rest::runs::{Run, RunNode, RunStatus};
use protocol::rest::tasks::{State, Task, TaskPage};
use serde::Serialize;
use serde_json::json;

use super::progress::{FAILURES_SHOWN, FailedItem, failed_item};
use super::run_output::{LogEvent, LogReader, ResultOutput, RunOutput};
use super::selector::{self, Found, FoundRun, PAGES_MAX};
use super::submit::Parameters;
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::{self, Columns};
use crate::pages::Pages;
use crate::{format, workflow_run};

pub(super) async fn list(limit: usize, context: &Context) -> Result<ExitCode> {
    let (commands, is_more_commands) = newest_commands(context, limit).await?;
    let (workflows, is_more) = selector::newest_numbered(context, limit).await?;
    let mut runs: Vec<_> = commands.into_iter().map(Listed::Command).collect();
    runs.extend(workflows.into_iter().map(WorkflowRunSummary::of).map(Listed::Workflow));
    // All moments are of one server, in one form.
    runs.sort_by(|one, other| other.created_at().cmp(one.created_at()));
    let is_more = is_more || is_more_commands || runs.len() > limit;
    runs.truncate(limit);
    context.output.list(
        &json!({ "runs": runs }),
        &runs,
        &Columns {
            none: "no runs; start one: astra run -- echo hello",
            id: |run| run.run().to_owned(),
            header: ["RUN", "KIND", "WHAT", "TASKS", "STATE", "STARTED", "TOOK"],
            row: Listed::row,
        },
    );
    if is_more {
        context.output.note("there may be more; see them with a larger -n");
    }
    Ok(ExitCode::Success)
}

/// The newest runs of commands, and whether there may be older ones.
pub(super) async fn newest_commands(
    context: &Context,
    limit: usize,
) -> Result<(Vec<RunSummary>, bool)> {
    let mut groups: Vec<(String, Vec<Task>)> = Vec::new();
    let mut pages = Pages::<TaskPage>::of(selector::COMMANDS);
    let mut is_more = true;
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context, usize::MAX).await? else {
            is_more = false;
            break;
        };
        for task in page {
            let Some(name) = selector::name_of(&task).map(ToOwned::to_owned) else { continue };
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

    fn row(&self) -> [String; 7] {
        let (kind, what, tasks, look, settled_at) = match self {
            Self::Command(run) => {
                let done = run.states.get(&State::Completed).copied().unwrap_or(0);
                let tasks =
                    if run.tasks == 1 { "1".into() } else { format!("{done}/{}", run.tasks) };
                ("command", run.command(), tasks, format::look(run.state()), &run.settled_at)
            }
            Self::Workflow(run) => {
                let look = format::look(run.status);
                ("workflow", run.name.clone(), "-".into(), look, &run.settled_at)
            }
        };
        let started = format::ago(self.created_at());
        let took = took(self.created_at(), settled_at.as_deref());
        [self.run().into(), kind.into(), what, tasks, look.to_string(), started, took]
    }
}

pub(super) async fn show(run: &str, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, mut tasks } = match selector::find(context, run).await? {
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
    let failed = tasks.iter().rev().filter(|task| is_failure(task.state));
    let failures: Vec<_> = failed.map(failed_item).collect();
    let text = many_in_words(&summary, &failures);
    let answer = json!({ "summary": summary, "failures": failures });
    context.output.answer(&answer, text, summary.state().word());
    Ok(ExitCode::Success)
}

fn is_failure(state: State) -> bool {
    matches!(state, State::Failed | State::Dead)
}

fn many_in_words(run: &RunSummary, failures: &[FailedItem]) -> String {
    let look = format::look(run.state());
    let mut rows = vec![
        ("command", run.command()),
        ("submitted", format!("{} ({})", run.created_at, format::ago(&run.created_at))),
        ("took", took(&run.created_at, run.settled_at.as_deref())),
        ("tasks", run.tasks.to_string()),
    ];
    let states = run.states.iter();
    rows.extend(states.map(|(state, n)| (format::look(*state).word, format::thousands(*n as u64))));
    let mut text = format!("{}  run {}\n{}", look.styled(look), run.run, output::facts(&rows));
    for failure in failures.iter().take(FAILURES_SHOWN) {
        let item = failure.item.as_deref().unwrap_or(&failure.task_id);
        format::push(&mut text, format_args!("  ✗ {item}: {}\n", failure.reason));
    }
    if failures.len() > FAILURES_SHOWN {
        let more = failures.len() - FAILURES_SHOWN;
        format::push(&mut text, format_args!("  and {more} more\n"));
    }
    text
}

pub(super) async fn logs(run: &str, item: Option<&str>, context: &Context) -> Result<ExitCode> {
    let FoundRun { name, tasks } = match selector::find(context, run).await? {
        Found::Commands(found) => found,
        Found::Workflow(run) => return of_nodes(&run, item, context).await,
    };
    let chosen = match item {
        Some(item) => vec![one(&name, tasks, item)?],
        None => tasks,
    };
    let run_output = RunOutput::new(context.output, false);
    let has_headings = chosen.len() > 1;
    for task in chosen {
        if has_headings {
            let item = Parameters::of(&task.parameters).item().map(ToOwned::to_owned);
            run_output.note(format!("==> {} <==", item.as_deref().unwrap_or(&task.task_id)));
        }
        print(&task, run_output, context).await?;
    }
    Ok(ExitCode::Success)
}

async fn of_nodes(run: &Run, node: Option<&str>, context: &Context) -> Result<ExitCode> {
    let mut nodes: Vec<&RunNode> = run.nodes.iter().flatten().collect();
    if let Some(node) = node {
        let id = &selector::node(run, node)?.node_id;
        nodes.retain(|node| node.node_id == *id);
    }
    let elements = elements(run, &nodes, context).await?;
    let run_output = RunOutput::new(context.output, false);
    let has_headings = nodes.len() > 1 || nodes.iter().any(|node| node.map.is_some());
    let heading = |text: String| {
        if has_headings {
            run_output.note(format!("==> {text} <=="));
        }
    };
    let mut told = BTreeSet::new();
    for node in nodes {
        let name = workflow_run::name_of(node);
        if let Some(task_id) = &node.task_id {
            let task: Task = context.get(&format!("/api/v1/tasks/{task_id}")).await?;
            let index = node.metadata.frame.as_ref().and_then(|frame| frame.index);
            heading(index.map_or_else(|| name.clone(), |index| format!("{name} [{index}]")));
            print(&task, run_output, context).await?;
        } else if told.insert(&node.node_id) {
            for (item, task) in elements.get(&node.node_id).into_iter().flatten() {
                heading(format!("{name} [{item}]"));
                print(task, run_output, context).await?;
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
    for task in selector::tasks_of(&run.run_id, &[]).all(context).await? {
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

async fn print(task: &Task, run_output: RunOutput, context: &Context) -> Result<()> {
    let mut log = LogReader::new(context, &task.task_id, 0, false).spawn();
    let mut is_empty = true;
    while let Some(heard) = log.recv().await {
        match heard? {
            LogEvent::Line(line) => {
                is_empty = false;
                if run_output.line(&line).is_err() {
                    // A reader that went away (`| head`) needs no message.
                    return Ok(());
                }
            }
            LogEvent::Away | LogEvent::Back => {}
            LogEvent::End => break,
        }
    }
    if is_empty {
        let written = ResultOutput::of(task);
        let _ = run_output.late("stdout", &written.stdout);
        let _ = run_output.late("stderr", &written.stderr);
    }
    Ok(())
}

/// A command line longer than this is cut for people.
const COMMAND_CHARS_MAX: usize = 48;

/// A run of a workflow in short.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkflowRunSummary {
    /// Its number.
    pub(super) run: String,
    pub(super) run_id: String,
    /// The workflow's name.
    pub(super) name: String,
    pub(super) workflow_id: String,
    pub(super) status: RunStatus,
    pub(super) created_at: String,
    /// When it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settled_at: Option<String>,
}

impl WorkflowRunSummary {
    pub(super) fn of(run: Run) -> Self {
        Self {
            run: run.number.to_string(),
            run_id: run.run_id,
            name: run.name,
            workflow_id: run.workflow_id,
            status: run.status,
            created_at: run.created_at,
            settled_at: run.finished_at,
        }
    }
}

/// A run of commands in short.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunSummary {
    pub(super) run: String,
    /// The command of its first task.
    pub(super) argv: Vec<String>,
    pub(super) tasks: usize,
    /// How many tasks are in which state.
    pub(super) states: BTreeMap<State, usize>,
    pub(super) created_at: String,
    /// When its last task ended, if all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settled_at: Option<String>,
}

impl RunSummary {
    /// Of the tasks of one run, newest first; `None` without any.
    pub(super) fn of(run: &str, tasks: &[Task]) -> Option<Self> {
        let first = tasks.last()?;
        let mut states = BTreeMap::new();
        for task in tasks {
            *states.entry(task.state).or_insert(0) += 1;
        }
        let is_over = tasks.iter().all(|task| task.state.is_terminal());
        let last = tasks.iter().filter_map(|task| task.settled_at.clone()).max();
        Some(Self {
            run: run.into(),
            argv: Parameters::of(&first.parameters).argv,
            tasks: tasks.len(),
            states,
            created_at: first.created_at.clone(),
            settled_at: last.filter(|_| is_over),
        })
    }

    /// The state of the whole: what is worst of what is over, else what is furthest of the rest.
    pub(super) fn state(&self) -> State {
        let has = |state: &State| self.states.contains_key(state);
        let order = if self.settled_at.is_some() {
            [State::Dead, State::Failed, State::Stopped, State::Completed]
        } else {
            [State::Running, State::Retrying, State::Queued, State::Waiting]
        };
        let state = order.into_iter().find(has).unwrap_or(State::Waiting);
        // Out of attempts or not, to a person it failed.
        if state == State::Dead { State::Failed } else { state }
    }

    pub(super) fn command(&self) -> String {
        format::short(&self.argv.join(" "), COMMAND_CHARS_MAX)
    }
}

fn took(start: &str, end: Option<&str>) -> String {
    format::or_dash(end.and_then(|end| format::between(start, end)))
}
