//! A run, in words.

use std::collections::BTreeMap;

use coordinator::{NodeStatus, RunRecord, Underway};
use model::{LeaseId, Timestamp};
use protocol::rest::problem::FlowProblem;
use protocol::rest::runs::{Artifact, NodeCounts, Run, RunNode, RunRef, RunStatus};

use super::binding_view::bindings;
use super::board::Board;
use super::node_view::{Painter, error, raw};
use super::promises::Promises;
use super::standing;
use super::start::Started;
use crate::feedback::FeedbackHub;

/// A run in a few words.
pub(crate) fn reference(record: &RunRecord, existed: bool) -> RunRef {
    RunRef {
        run_id: record.id.to_string(),
        number: record.id.number(),
        status: status_of_row(record),
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
fn status_of_row(record: &RunRecord) -> RunStatus {
    match &record.end {
        Some(end) => standing::of_end(end.word),
        None if record.began_at.is_some() => RunStatus::Running,
        None => RunStatus::Queued,
    }
}

/// A run as lists show it.
pub(crate) fn row(record: &RunRecord) -> Run {
    let about = &record.about;
    let end = record.end.as_deref();
    let failure = end.and_then(|end| end.failure.as_ref()).map(error);
    Run {
        run_id: record.id.to_string(),
        number: record.id.number(),
        status: status_of_row(record),
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
        inputs: None,
        outputs: None,
        error: failure.map(|error| protocol::rest::runs::RunError {
            node_id: end.and_then(|end| end.node.clone()),
            ..error
        }),
        counts: None,
        artifacts: None,
        bindings: None,
        nodes: None,
    }
}

/// A run with everything that is known of it.
pub(crate) fn whole(
    board: &Board<'_>,
    feedback: &FeedbackHub,
    with_nodes: bool,
    underway: &Underway,
) -> Run {
    let mut nodes = nodes(board, feedback);
    mark_unconfirmed(&mut nodes, &underway.unconfirmed);
    let record = board.record;
    let end = record.end.as_deref();
    let first = || nodes.iter().filter_map(|node| node.started_at.clone()).min();
    // Runs of older versions do not say it themselves.
    let began_at = record.began_at.map(|at| at.to_string()).or_else(first);
    let artifacts: Vec<Artifact> = nodes.iter().flat_map(|node| node.artifacts.clone()).collect();
    Run {
        status: standing::of_run(board),
        started_at: began_at,
        inputs: raw(&record.inputs),
        outputs: end.and_then(|end| end.outputs.as_deref()).and_then(raw),
        counts: Some(counts(board)),
        artifacts: Some(artifacts),
        bindings: Some(bindings(board)),
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
fn nodes(board: &Board<'_>, feedback: &FeedbackHub) -> Vec<RunNode> {
    let painter = Painter { board, feedback };
    let mut promises = Promises::default();
    let mut rows = Vec::new();
    for (place, frame) in board.frames.iter().enumerate() {
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
pub(crate) fn counts(board: &Board<'_>) -> NodeCounts {
    let mut counts = NodeCounts::default();
    for parts in board.frames.iter().flat_map(|frame| &frame.nodes) {
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
