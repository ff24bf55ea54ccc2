//! A run in words: what it is, where each node stands, and who is bound to its work.

use std::collections::BTreeMap;

use coordinator::{
    BoundPackage, NodeStatus, RunRecord, TaskRecord, TaskState, Underway, WaitReason, has_begun,
};
use model::{LeaseId, Timestamp, WorkerId};
use protocol::rest::problem::FlowProblem;
use protocol::rest::runs as wire;
use protocol::rest::runs::{Artifact, Binding, NodeCounts, Run, RunNode, RunRef, RunStatus};
use serde::Deserialize;

use super::node_view::{Painter, error, raw};
use super::run_snapshot::{RunSnapshot, SubgraphSnapshot};
use super::start::{Promises, Started};
use crate::logs::FeedbackHub;
pub(crate) use shard::projection::of_end;

/// A run in a few words.
pub(crate) fn reference(record: &RunRecord, existed: bool) -> RunRef {
    RunRef {
        run_id: record.id.to_string(),
        number: record.id.number(),
        status: status(record),
        definition_hash: record.about.definition_hash.clone(),
        client_id: record.about.client_id.clone(),
        created_at: record.created_at.to_string(),
        existed,
        warnings: Vec::new(),
    }
}

/// A run that was just asked for.
pub(crate) fn started(started: &Started) -> RunRef {
    let mut reference = reference(&started.record, started.existed);
    if !started.existed && !reference.status.is_terminal() {
        reference.status = RunStatus::Queued;
    }
    reference.warnings = started.warnings.iter().map(problem).collect();
    reference
}

/// What is wrong with a definition, on the wire.
pub(crate) fn problem(problem: &flow::Problem) -> FlowProblem {
    FlowProblem {
        code: problem.code.to_owned(),
        severity: match problem.severity {
            flow::Severity::Warning => "warning".to_owned(),
            flow::Severity::Error => "error".to_owned(),
        },
        node: problem.node.clone(),
        path: problem.path.clone(),
        message: problem.message.clone(),
    }
}

/// Where a run stands, as far as its own row tells.
pub(crate) fn status(record: &RunRecord) -> RunStatus {
    match &record.end {
        Some(end) => of_end(end.word),
        None if record.began_at.is_some() => RunStatus::Running,
        None => RunStatus::Queued,
    }
}

/// A run as lists show it.
pub(crate) fn row(record: &RunRecord) -> Run {
    let about = &record.about;
    let end = record.end.as_deref();
    let failure = end.and_then(|end| end.failure.as_ref());
    let node_id = || end.and_then(|end| end.node.clone());
    Run {
        run_id: record.id.to_string(),
        number: record.id.number(),
        status: status(record),
        name: about.name.clone(),
        workflow_id: about.workflow_id.clone(),
        workflow_version: about.workflow_version,
        definition_hash: about.definition_hash.clone(),
        client_id: about.client_id.clone(),
        created_at: record.created_at.to_string(),
        started_at: record.began_at.map(|at| at.to_string()),
        finished_at: end.map(|end| end.at.to_string()),
        started_by: about.started_by.clone(),
        retry_of: about.retry_of.map(|run| run.to_string()),
        error: failure.map(|failure| wire::RunError { node_id: node_id(), ..error(failure) }),
        ..Run::default()
    }
}

/// A run with everything that is known of it.
pub(crate) fn whole(
    snapshot: &RunSnapshot<'_>,
    feedback: &FeedbackHub,
    with_nodes: bool,
    underway: &Underway,
) -> Run {
    let record = snapshot.record;
    // Whoever waits for the end of a large run does not pay for a row of each of its nodes.
    let needs_nodes = with_nodes || record.began_at.is_none() || snapshot.has_artifacts();
    let mut nodes = if needs_nodes { nodes(snapshot, feedback) } else { Vec::new() };
    mark_unconfirmed(&mut nodes, &underway.unconfirmed);
    let end = record.end.as_deref();
    let first = || nodes.iter().filter_map(|node| node.started_at.clone()).min();
    // Runs of older versions do not say it themselves.
    let began_at = record.began_at.map(|at| at.to_string()).or_else(first);
    let artifacts: Vec<Artifact> = nodes.iter().flat_map(|node| node.artifacts.clone()).collect();
    Run {
        status: of_run(snapshot),
        started_at: began_at,
        inputs: raw(&record.inputs),
        outputs: end.and_then(|end| end.outputs.as_deref()).and_then(raw),
        counts: Some(counts(snapshot)),
        artifacts: Some(artifacts),
        bindings: Some(bindings(snapshot)),
        nodes: with_nodes.then_some(nodes),
        ..row(record)
    }
}

/// Only the coordinator knows which dispatches nobody has confirmed: signs of life are not kept.
fn mark_unconfirmed(nodes: &mut [RunNode], unconfirmed: &[(LeaseId, Timestamp)]) {
    let until: BTreeMap<String, Timestamp> =
        unconfirmed.iter().map(|(lease, until)| (lease.to_string(), *until)).collect();
    if until.is_empty() {
        return;
    }
    for node in nodes {
        let found = node.dispatch_id.as_ref().and_then(|dispatch| until.get(dispatch));
        node.pending_ack = found.is_some();
        node.ack_deadline = found.map(ToString::to_string);
    }
}

/// Every node with its middlewares: of the workflow itself, then of each subgraph that was entered.
fn nodes(snapshot: &RunSnapshot<'_>, feedback: &FeedbackHub) -> Vec<RunNode> {
    let painter = Painter { snapshot, feedback };
    let mut promises = Promises::default();
    let mut rows = Vec::new();
    for (place, frame) in snapshot.frames.iter().enumerate() {
        let mark = painter.mark(place);
        for node in 0..frame.nodes.len() {
            let mut of_node = painter.node(frame, node, mark.as_ref());
            promises.look(&frame.graph.nodes[node], &mut of_node[0]);
            rows.extend(of_node);
        }
    }
    rows
}

/// Middlewares belong to their node, and are not counted.
pub(crate) fn counts(snapshot: &RunSnapshot<'_>) -> NodeCounts {
    let mut counts = NodeCounts::default();
    for parts in snapshot.frames.iter().flat_map(|frame| &frame.nodes) {
        let count = match parts.status {
            NodeStatus::Waiting | NodeStatus::Queued => &mut counts.queued,
            NodeStatus::Running => &mut counts.running,
            NodeStatus::Succeeded => &mut counts.succeeded,
            NodeStatus::Failed => &mut counts.failed,
            NodeStatus::Cancelled | NodeStatus::NotRun => &mut counts.cancelled,
            NodeStatus::Skipped => &mut counts.skipped,
        };
        *count += 1;
        counts.total += 1;
    }
    counts
}

/// The worker that a person named for each package, or that had a task of it since.
pub(super) fn bindings(snapshot: &RunSnapshot<'_>) -> Vec<Binding> {
    let said = snapshot.rebound.map_or(&[][..], |rebound| &rebound.bound);
    let said = said.iter().map(|bound| (bound.package.as_str(), bound.clone()));
    let mut bound: BTreeMap<&str, BoundPackage> = said.collect();
    let tasks =
        snapshot.frames.iter().flat_map(|frame| &frame.nodes).flat_map(|parts| &parts.tasks);
    let held = tasks.filter_map(|task| {
        let package = task.spec.demand.package.as_ref()?;
        holder(task).map(|(worker, since)| (since, package.name.as_str(), worker))
    });
    let mut held: Vec<(Timestamp, &str, &WorkerId)> = held.collect();
    held.sort_by_key(|(since, _, _)| *since);
    for (since, package, worker) in held {
        let known = bound.entry(package).or_insert_with(|| BoundPackage {
            package: package.to_owned(),
            worker: Some(worker.clone()),
            since,
            moved_from: None,
        });
        let is_same = known.worker.as_ref() == Some(worker);
        let is_left = known.moved_from.as_ref() == Some(worker);
        if !is_same && !is_left && since >= known.since {
            (known.worker, known.since) = (Some(worker.clone()), since);
        }
    }
    bound.into_values().filter_map(words).collect()
}

fn words(bound: BoundPackage) -> Option<Binding> {
    let BoundPackage { package, worker, since, .. } = bound;
    Some(Binding { package, worker: worker?.to_string(), bound_at: since.to_string() })
}

fn holder(task: &TaskRecord) -> Option<(&WorkerId, Timestamp)> {
    match &task.progress.state {
        TaskState::Leased(lease) => Some((&lease.holder, lease.granted_at)),
        TaskState::Settled(settlement) => {
            let worker = settlement.holder.as_ref()?;
            Some((worker, settlement.granted_at.unwrap_or(task.created_at)))
        }
        TaskState::Waiting { .. } | TaskState::Ready => None,
    }
}

/// Names in one sentence; the rest are counted.
const NAMES_TOLD_MAX: usize = 5;

/// The wire's word for a status; whether something has begun is seen from its task.
pub(crate) fn wire_word(status: NodeStatus) -> wire::NodeStatus {
    match status {
        NodeStatus::Waiting | NodeStatus::Queued => wire::NodeStatus::Queued,
        NodeStatus::Running => wire::NodeStatus::Running,
        NodeStatus::Succeeded => wire::NodeStatus::Succeeded,
        NodeStatus::Failed => wire::NodeStatus::Failed,
        NodeStatus::Skipped => wire::NodeStatus::Skipped,
        NodeStatus::Cancelled | NodeStatus::NotRun => wire::NodeStatus::Cancelled,
    }
}

/// Where the run itself stands.
pub(crate) fn of_run(snapshot: &RunSnapshot<'_>) -> RunStatus {
    if let Some(end) = &snapshot.record.end {
        return of_end(end.word);
    }
    let parts = || snapshot.frames.iter().flat_map(|frame| &frame.nodes);
    let began = snapshot.record.began_at.is_some()
        || snapshot.frames.len() > 1
        || parts().any(|parts| parts.tasks.iter().any(|task| has_begun(&task.progress)));
    if began { RunStatus::Running } else { RunStatus::Queued }
}

/// Why a node waits, or why it was skipped.
pub(crate) fn reason(frame: &SubgraphSnapshot<'_>, place: usize) -> Option<String> {
    let (_, parts) = frame.node(place);
    match parts.status {
        NodeStatus::Waiting => Some(blocked(frame, place)),
        NodeStatus::Queued | NodeStatus::Running => {
            parts.tasks.last().and_then(|task| waiting(task))
        }
        NodeStatus::Skipped => {
            let failure = parts.end.and_then(|end| end.failure.as_ref());
            failure.map(|failure| failure.reason.clone())
        }
        NodeStatus::NotRun => Some("the run ended before its turn came".to_owned()),
        NodeStatus::Cancelled | NodeStatus::Succeeded | NodeStatus::Failed => None,
    }
}

fn waiting(task: &TaskRecord) -> Option<String> {
    let progress = &task.progress;
    match &progress.state {
        TaskState::Ready => Some("no worker has taken it yet".to_owned()),
        TaskState::Waiting { until, why } => Some(match why {
            WaitReason::Backoff => format!(
                "attempt {} of {} failed; the next is due at {until}",
                progress.attempt, task.spec.retry.max_attempts
            ),
            WaitReason::Delay => format!("it lets time pass until {until}"),
            WaitReason::Signal => signal_words(awaited_event(task).as_deref(), *until),
            WaitReason::Scheduled => format!("it is not to start before {until}"),
            WaitReason::After => "other tasks go first".to_owned(),
        }),
        TaskState::Leased(_) | TaskState::Settled(_) => None,
    }
}

/// The event that a task waits for; an approval waits for none.
pub(crate) fn awaited_event(task: &TaskRecord) -> Option<String> {
    #[derive(Deserialize)]
    struct Given {
        event: Option<String>,
    }
    let TaskState::Waiting { why: WaitReason::Signal, .. } = &task.progress.state else {
        return None;
    };
    serde_json::from_slice::<Given>(&task.parameters).ok()?.event
}

/// What a node waits for that somebody outside must say.
pub(crate) fn signal_words(event: Option<&str>, until: Timestamp) -> String {
    let word =
        event.map_or_else(|| "a yes or no".to_owned(), |event| format!("the event `{event}`"));
    if until == Timestamp::MAX {
        return format!("it waits for {word}");
    }
    format!("it waits for {word}, until {until}")
}

/// Which nodes go first, by name.
pub(crate) fn blocked(frame: &SubgraphSnapshot<'_>, place: usize) -> String {
    let blockers = frame.blockers(place);
    if blockers.is_empty() {
        return "its turn has come; it begins as other tasks of the run end".to_owned();
    }
    let told: Vec<_> = blockers.iter().take(NAMES_TOLD_MAX).map(|node| node.name()).collect();
    let told = told.join(", ");
    match blockers.len().saturating_sub(NAMES_TOLD_MAX) {
        0 => format!("waits for {told}"),
        more => format!("waits for {told} and {more} more"),
    }
}
