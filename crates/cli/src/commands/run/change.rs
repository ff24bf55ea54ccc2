//! `astra run stop`, `retry`, `signal` and `rebind`.

use std::collections::BTreeMap;
use std::str::FromStr;

use client::ClientError;
use protocol::error_code::ErrorCode;
use protocol::rest::runs::{
    RebindMode, RebindRun, Rebound, RetryRun, Run, RunNode, RunRef, RunStatus, SignalNode,
    Signalled,
};
use protocol::rest::tasks::Task;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use super::progress::LIVE;
use super::selector::{self, Found};
use crate::commands::flow::{Input, inputs_object, value_of};
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output;
use crate::workflow_run::{self, Manner, name_of};

/// So many tasks are stopped at a time.
const PARALLEL: usize = 8;

pub(super) async fn stop(runs: &[String], context: &Context) -> Result<ExitCode> {
    for selected in runs {
        match selector::find(context, selected).await? {
            Found::Commands(found) => {
                let stopped = stop_all(context, &found.name).await?;
                let tasks = format::count(stopped.tasks, "task");
                let text = format!("run {}: {tasks} stopped", stopped.run);
                context.output.answer(&stopped, text, &stopped.run);
            }
            Found::Workflow(run) => {
                let path = format!("{}/cancel", workflow_run::path(&run.run_id));
                let stopped: RunRef = context.command(&path).await?;
                let number = stopped.number;
                let text = match stopped.status {
                    RunStatus::Succeeded | RunStatus::Failed => {
                        format!("run {number}: nothing was left to stop")
                    }
                    RunStatus::Queued | RunStatus::Running | RunStatus::Cancelled => {
                        format!("run {number} is stopped")
                    }
                };
                context.output.answer(&stopped, text, number);
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
            n => format::count(n, "task"),
        }
    }
}

/// Stops what is left of a run. What has not started goes first: stopping what runs would only
/// make room for it.
pub(super) async fn stop_all(context: &Context, run: &str) -> Result<Stopped> {
    let mut live = selector::tasks_of(run, &LIVE).all(context).await?;
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

/// Retry a run of a workflow as a new run, which reuses the results of succeeded nodes.
#[derive(Debug, clap::Args)]
pub(super) struct RetryArguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// Execute the nodes that did not succeed. The default.
    #[arg(long, conflicts_with = "node")]
    from_failed: bool,
    /// Execute this node and all nodes after it.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Change a parameter of a node, which is executed again; may be given several times.
    #[arg(short, long = "parameter", value_name = "NODE.NAME=VALUE")]
    parameter: Vec<Parameter>,
    /// Change an input of the run; may be given several times.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// Print the new run's number and return, without waiting for the run.
    #[arg(short, long)]
    detach: bool,
}

/// `node.name=value`.
#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    node: String,
    name: String,
    value: Value,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "not a parameter like node.name=value".to_owned();
        let (place, value) = text.split_once('=').ok_or_else(wrong)?;
        let (node, name) = place.split_once('.').ok_or_else(wrong)?;
        if node.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { node: node.into(), name: name.into(), value: value_of(value) })
    }
}

pub(super) async fn retry(arguments: &RetryArguments, context: &Context) -> Result<ExitCode> {
    let before = selector::workflow_run(context, &arguments.run).await?;
    let retry = request(arguments, &before)?;
    let path = format!("{}/retry", workflow_run::path(&before.run_id));
    let started: RunRef = context.post(&path, &retry).await?;
    if arguments.detach {
        context.output.show(&started);
        return Ok(ExitCode::Success);
    }
    context.output.note(format!("run {} takes up run {}", started.number, before.number));
    workflow_run::follow(started.run_id, started.number, Manner::Nodes, context).await
}

fn request(arguments: &RetryArguments, before: &Run) -> Result<RetryRun> {
    let id_of =
        |name: &String| -> Result<String> { Ok(selector::node(before, name)?.node_id.clone()) };
    let mut parameters: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for parameter in &arguments.parameter {
        let fields = parameters.entry(id_of(&parameter.node)?).or_default();
        fields.insert(parameter.name.clone(), parameter.value.clone());
    }
    Ok(RetryRun {
        from_failed: arguments.from_failed.then_some(true),
        node_id: arguments.node.as_ref().map(id_of).transpose()?,
        parameters,
        inputs: inputs_object(&arguments.input)?,
        client_id: None,
    })
}

/// Signal a node that waits for an approval or an event.
#[derive(Debug, clap::Args)]
pub(super) struct SignalArguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// The node: its alias, its label, its id or the first letters of it.
    node: String,
    /// Approve, for `core.approve`.
    #[arg(long, conflicts_with_all = ["deny", "event"])]
    approve: bool,
    /// Deny, for `core.approve`.
    #[arg(long, conflicts_with = "event")]
    deny: bool,
    /// The event's name, for `core.wait_event`.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Any JSON, which becomes part of the node's result.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// The number of the subgraph, if the node waits in several; see `astra run show -o json`.
    #[arg(long, value_name = "N")]
    frame: Option<u32>,
}

pub(super) async fn signal(arguments: &SignalArguments, context: &Context) -> Result<ExitCode> {
    let signal = signal_of(arguments)?;
    let run = selector::workflow_run(context, &arguments.run).await?;
    let node: &RunNode = selector::node(&run, &arguments.node)?;
    let path = format!("{}/nodes/{}/signal", workflow_run::path(&run.run_id), node.node_id);
    let _: Signalled = context.post(&path, &signal).await?;
    let (run, node) = (run.number, name_of(node));
    let text = format!("run {run}: {node} has heard it");
    context.output.answer(&Signal { run, node }, text, run);
    Ok(ExitCode::Success)
}

/// A signal that was sent.
#[derive(Serialize)]
struct Signal {
    run: u64,
    node: String,
}

fn signal_of(arguments: &SignalArguments) -> Result<SignalNode> {
    let approved = match (arguments.approve, arguments.deny) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    };
    if approved.is_none() && arguments.event.is_none() {
        let hint = "say --approve or --deny, or --event NAME";
        return Err(Failure::usage("there is nothing to say to the node", hint));
    }
    let payload = arguments.payload.as_deref().map(serde_json::from_str::<Box<RawValue>>);
    let payload = payload.transpose().map_err(|error| {
        Failure::usage(format!("the payload is not JSON: {error}"), "a text stands in quotes")
    })?;
    Ok(SignalNode { event: arguments.event.clone(), approved, payload, frame: arguments.frame })
}

/// Move the work of a run to another worker. Running tasks finish where they are.
#[derive(Debug, clap::Args)]
pub(super) struct RebindArguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// Move only the work of this package, or of this node type if it needs no package.
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// The worker to prefer from now on. Default: the next one that asks.
    #[arg(long, value_name = "WORKER")]
    to: Option<String>,
    /// Grant no more tasks of this run to the worker that had it.
    #[arg(long)]
    drain: bool,
}

pub(super) async fn rebind(arguments: &RebindArguments, context: &Context) -> Result<ExitCode> {
    let run = selector::workflow_run(context, &arguments.run).await?;
    let order = RebindRun {
        package: arguments.package.clone(),
        worker_name: arguments.to.clone(),
        mode: if arguments.drain { RebindMode::Drain } else { RebindMode::Move },
    };
    let path = format!("/api/v1/scheduler/runs/{}/rebind", run.run_id);
    let rebound: Rebound = context.post(&path, &order).await?;
    let text = if rebound.bindings.is_empty() {
        "Nobody has the work; the next worker that asks gets it.".into()
    } else {
        let rows = rebound.bindings.iter().map(|one| [one.package.clone(), one.worker.clone()]);
        output::table(["WORK", "WORKER"], rows)
    };
    let workers = output::lines(rebound.bindings.iter().map(|one| one.worker.clone()));
    context.output.answer(&rebound, text, workers);
    Ok(ExitCode::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_name_their_node() {
        let parameter = |text: &str| text.parse::<Parameter>();
        let size = Parameter { node: "copy".into(), name: "size".into(), value: json!(256) };
        assert_eq!(parameter("copy.size=256"), Ok(size));
        let url = parameter("get.url=http://a.b/?x=1").expect("fine");
        assert_eq!((url.name.as_str(), url.value), ("url", json!("http://a.b/?x=1")));
        for wrong in ["copy", "copy=1", ".x=1", "copy.=1"] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }
}
