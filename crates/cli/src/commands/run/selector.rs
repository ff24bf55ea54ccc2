//! Which run is meant: of commands by its name, of a workflow by its number or id, either by the
//! beginning of that, `last` or `last~1`; and which node of it.

use protocol::error_code::ErrorCode;
use protocol::rest::runs::{Run, RunNode, RunPage};
use protocol::rest::tasks::{State, Task, TaskPage};

use super::show;
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::pages::Pages;
use crate::{format, selector, workflow_run};

/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;
/// A full id that names no run is not the beginning of another one.
const UUID_LETTERS: usize = 36;

/// A run that was found.
pub(super) enum Found {
    /// Of commands.
    Commands(FoundRun),
    /// Of a workflow, with its nodes.
    Workflow(Box<Run>),
}

/// The run that `text` selects.
pub(super) async fn find(context: &Context, text: &str) -> Result<Found> {
    if let Some(back) = steps_back(text) {
        return nth(context, back).await;
    }
    if let Some(run) = numbered_run(context, text).await? {
        return Ok(Found::Workflow(Box::new(run)));
    }
    if text.parse::<model::RunName>().is_err() {
        let message = format!("`{text}` names no run");
        let hint = "give a number, a name, the first letters of a name or an id, or `last`";
        return Err(Failure::usage(message, hint));
    }
    // Most often it is the whole name.
    match load_named(context, text.into()).await {
        Ok(found) => Ok(Found::Commands(found)),
        Err(failure) if failure.exit == ExitCode::NotFound && text.len() >= PREFIX_MIN => {
            by_prefix(context, text).await
        }
        Err(failure) => Err(failure),
    }
}

/// The run of a workflow that has this number or id, with its nodes.
pub(crate) async fn numbered_run(context: &Context, text: &str) -> Result<Option<Run>> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && text.len() != UUID_LETTERS {
        return Ok(None);
    }
    load_numbered(context, text).await
}

/// A run of a workflow; one of commands is refused.
pub(crate) async fn workflow_run(context: &Context, text: &str) -> Result<Run> {
    match find(context, text).await? {
        Found::Workflow(run) => Ok(*run),
        Found::Commands(found) => Err(Failure::usage(
            format!("run {} is a run of commands, not of a workflow", found.name),
            "look at the kinds of runs with `astra run list`",
        )),
    }
}

/// `last` is 0, `last~1` the one before.
fn steps_back(text: &str) -> Option<usize> {
    match text.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// The newest of either kind, and so on back.
async fn nth(context: &Context, back: usize) -> Result<Found> {
    let (commands, _) = show::newest_commands(context, back + 1).await?;
    let (workflows, _) = newest_numbered(context, back + 1).await?;
    let n_runs = commands.len() + workflows.len();
    let mut all: Vec<(String, Newest)> = Vec::new();
    all.extend(commands.into_iter().map(|run| (run.created_at, Newest::Commands(run.run))));
    let of_workflow = |run: Run| (run.created_at, Newest::Workflow(run.run_id));
    all.extend(workflows.into_iter().map(of_workflow));
    // All moments are of one server, in one form.
    all.sort_by(|one, other| other.0.cmp(&one.0));
    match all.into_iter().nth(back) {
        Some((_, Newest::Commands(name))) => load_named(context, name).await.map(Found::Commands),
        Some((_, Newest::Workflow(id))) => {
            Ok(Found::Workflow(Box::new(workflow_run::look(context, &id).await?)))
        }
        None => {
            let message = match n_runs {
                0 => "there is no run yet".to_owned(),
                n => format!("there are only {n} recent runs"),
            };
            Err(Failure::new(ExitCode::NotFound, message, "start one: astra run -- echo hello"))
        }
    }
}

enum Newest {
    Commands(String),
    Workflow(String),
}

async fn by_prefix(context: &Context, prefix: &str) -> Result<Found> {
    let names = named_beginning_with(context, prefix).await?;
    let runs = numbered_beginning_with(context, prefix).await?;
    match (names.as_slice(), runs.as_slice()) {
        ([name], []) => load_named(context, name.clone()).await.map(Found::Commands),
        ([], [run]) => {
            let run = workflow_run::look(context, &run.run_id).await?;
            Ok(Found::Workflow(Box::new(run)))
        }
        ([], []) => Err(Failure::new(
            ExitCode::NotFound,
            format!("no recent run goes by {prefix}"),
            "look at `astra run list`",
        )),
        (names, runs) => {
            let n_runs = names.len() + runs.len();
            let ids = names.iter().chain(runs.iter().map(|run| &run.run_id));
            let two: Vec<_> = ids.take(2).map(String::as_str).collect();
            Err(Failure::usage(
                format!("{n_runs} recent runs begin with {prefix}"),
                format!("give more of it: {}", two.join(" or ")),
            ))
        }
    }
}

/// Runs of commands are looked for among so many pages of recent commands.
pub(super) const PAGES_MAX: usize = 20;
/// Runs of workflows with a beginning are looked for among so many recent ones.
const RUNS_SEARCHED_MAX: usize = 4_000;
/// The commands of all runs.
pub(super) const COMMANDS: &str = "/api/v1/tasks?type=command";

/// The tasks of a run in these states; none means all.
pub(super) fn tasks_of(run: &str, states: &[State]) -> Pages<TaskPage> {
    let words: Vec<_> = states.iter().map(|state| state.word()).collect();
    let states = (!states.is_empty()).then(|| words.join(","));
    let parameters = [("run", Some(run)), ("state", states.as_deref())];
    Pages::of(format::query("/api/v1/tasks", &parameters))
}

/// A run that was found, with its tasks in the order of submission; at least one.
pub(super) struct FoundRun {
    pub(super) name: String,
    pub(super) tasks: Vec<Task>,
}

/// The run with this name.
pub(super) async fn load_named(context: &Context, name: String) -> Result<FoundRun> {
    let mut tasks = tasks_of(&name, &[]).all(context).await?;
    tasks.reverse();
    if tasks.is_empty() {
        let message = format!("there is no run {name}");
        return Err(Failure::new(ExitCode::NotFound, message, "look at `astra run list`"));
    }
    Ok(FoundRun { name, tasks })
}

/// Names of recent runs that begin so.
pub(super) async fn named_beginning_with(context: &Context, prefix: &str) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut pages = Pages::<TaskPage>::of(COMMANDS);
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next(context, usize::MAX).await? else { break };
        for name in page.iter().filter_map(name_of).filter(|name| name.starts_with(prefix)) {
            if !found.iter().any(|known| known == name) {
                found.push(name.into());
            }
        }
    }
    Ok(found)
}

/// The run of a command. Nodes of workflows may be commands too; their runs have no names.
pub(super) fn name_of(task: &Task) -> Option<&str> {
    task.run.as_deref().filter(|name| name.parse::<model::RunId>().is_err())
}

/// The run with this number or id, if there is one; with its nodes.
pub(super) async fn load_numbered(context: &Context, run: &str) -> Result<Option<Run>> {
    match context.client.get(&workflow_run::path(run)).await {
        Ok(run) => Ok(Some(run)),
        Err(error) if error.refusal() == Some(ErrorCode::RunNotFound) => Ok(None),
        Err(error) => Err(context.explain(error)),
    }
}

/// The newest runs, without their nodes, and whether there are older ones.
pub(super) async fn newest_numbered(context: &Context, limit: usize) -> Result<(Vec<Run>, bool)> {
    Pages::<RunPage>::of("/api/v1/runs").take(context, limit).await
}

/// Recent runs whose ids begin so.
async fn numbered_beginning_with(context: &Context, prefix: &str) -> Result<Vec<Run>> {
    let prefix = prefix.to_ascii_lowercase();
    let (runs, _) = newest_numbered(context, RUNS_SEARCHED_MAX).await?;
    Ok(runs.into_iter().filter(|run| run.run_id.starts_with(&prefix)).collect())
}

/// The node that `text` selects. One that was executed in several subgraphs is found in the
/// newest of them.
pub(crate) fn node<'a>(run: &'a Run, text: &str) -> Result<&'a RunNode> {
    let nodes = run.nodes.as_deref().unwrap_or_default();
    let by_alias = |node: &RunNode| node.alias.as_deref() == Some(text);
    let by_id = |node: &RunNode| node.node_id.eq_ignore_ascii_case(text);
    let by_label = |node: &RunNode| node.label.eq_ignore_ascii_case(text);
    let prefix = text.to_ascii_lowercase();
    let by_prefix = |node: &RunNode| prefix.len() > 1 && node.node_id.starts_with(&prefix);
    let ways: [selector::Way<'_, RunNode>; 4] = [&by_alias, &by_id, &by_label, &by_prefix];
    let known: Vec<_> = nodes.iter().take(NAMES_SHOWN).map(workflow_run::name_of).collect();
    let number = run.number;
    let hint = format!("it has {}; see `astra run show {number}`", known.join(", "));
    let chosen = selector::choose(("node", text), nodes, &ways, |node| &node.node_id, &hint);
    chosen.map_err(|failure| match failure.exit {
        ExitCode::NotFound => {
            Failure { message: format!("run {number} has no node {text}"), ..failure }
        }
        _ => failure,
    })
}

/// Enough to see what names look like.
const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn last_counts_back() {
        assert_eq!(steps_back("last"), Some(0));
        assert_eq!(steps_back("last~12"), Some(12));
        for name in ["lastly", "last~", "last~x", "k3f9q2mx"] {
            assert_eq!(steps_back(name), None, "{name}");
        }
    }

    #[test]
    fn a_node_is_found_by_what_people_call_it() {
        let node_of = |id: &str, alias: &str, label: &str| {
            json!({"nodeId": id, "alias": alias, "label": label, "status": "queued", "type": "t",
                "attempts": 0})
        };
        let run = json!({"runId": "r", "number": 41, "status": "running", "name": "n",
            "workflowId": "w", "definitionHash": "h", "createdAt": "", "startedBy": "",
            "nodes": [node_of("aa1", "copy", "Copy it"), node_of("aa2", "send", "Send it"),
                node_of("bb3", "Copy it", "Last"), node_of("bb3", "Copy it", "Last")]});
        let run: Run = serde_json::from_value(run).expect("a run");
        let id = |text| node(&run, text).map(|node| node.node_id.clone());
        for (text, expected) in
            [("copy", "aa1"), ("Copy it", "bb3"), ("send it", "aa2"), ("AA2", "aa2"), ("bb", "bb3")]
        {
            assert_eq!(id(text).ok().as_deref(), Some(expected), "{text}");
        }
        assert_eq!(id("aa").expect_err("two").exit, ExitCode::Usage);
        assert_eq!(id("gone").expect_err("none").exit, ExitCode::NotFound);
    }
}
