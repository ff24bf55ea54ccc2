//! Why a node does not run, where no task of its own can tell.

use coordinator::{NodeStatus, TaskState};
use protocol::rest::tasks::Reason;

use super::run_snapshot::{NodeParts, RunSnapshot, Spot, SubgraphSnapshot};
use super::view;

/// Nodes that are told one by one.
const BLOCKERS_TOLD_MAX: usize = 10;

/// What is known of a node without asking about a task.
pub(crate) fn reasons(snapshot: &RunSnapshot<'_>, spot: Spot) -> Vec<Reason> {
    let frame = &snapshot.frames[spot.frame];
    let (_, parts) = frame.node(spot.node);
    let run = snapshot.record.id.number();
    match parts.status {
        NodeStatus::Waiting => blocked(run, frame, spot.node),
        NodeStatus::Queued | NodeStatus::Running => inside(snapshot, frame, spot.node),
        status => vec![ended(run, frame, spot.node, status)],
    }
}

fn blocked(run: u64, frame: &SubgraphSnapshot<'_>, place: usize) -> Vec<Reason> {
    let blockers = frame.blockers(place);
    let total = blockers.len() as u64;
    let told = blockers.iter().take(BLOCKERS_TOLD_MAX).map(|node| {
        let place = frame.graph.nodes.iter().position(|other| other.id == node.id);
        let status = place.map_or(NodeStatus::Waiting, |place| frame.nodes[place].status);
        let status = view::wire_word(status);
        let message = format!("node {} goes first; it is {}", node.name(), status.word());
        Reason::new("blocked_by_nodes", message)
            .hint(format!("see why with `astra explain {run}/{}`", node.handle()))
            .count(total)
    });
    let mut reasons: Vec<Reason> = told.collect();
    if reasons.is_empty() {
        let message = view::blocked(frame, place);
        reasons.push(Reason::new("blocked_by_nodes", message).hint("ask again"));
    }
    reasons
}

/// A node that takes several tasks or a subgraph: what goes on inside.
fn inside(snapshot: &RunSnapshot<'_>, frame: &SubgraphSnapshot<'_>, place: usize) -> Vec<Reason> {
    let (_, parts) = frame.node(place);
    let mut reasons = Vec::new();
    for inner in parts.frames.iter().map(|place| &snapshot.frames[*place]) {
        let open = |status| inner.nodes.iter().filter(|parts| parts.status == status).count();
        let queued = open(NodeStatus::Waiting) + open(NodeStatus::Queued);
        let running = open(NodeStatus::Running);
        if queued + running > 0 {
            let number = inner.number;
            let message =
                format!("in its subgraph (frame {number}), {running} nodes run and {queued} wait");
            let reason = Reason::new("subgraph", message).count((queued + running) as u64);
            reasons.push(reason.hint("look at them with `astra run show`"));
        }
    }
    let open = parts
        .tasks
        .iter()
        .filter(|task| !NodeStatus::of_task(&task.progress).is_terminal())
        .count();
    if parts.tasks.len() > 1 && open > 0 {
        let message = format!("{open} of its {} tasks have not ended", parts.tasks.len());
        reasons.push(Reason::new("elements", message).count(open as u64));
    }
    reasons
}

/// Why it failed: its end tells, or its newest task.
fn failure_words(parts: &NodeParts<'_>) -> Option<String> {
    let of_task = || match &parts.tasks.last()?.progress.state {
        TaskState::Settled(settlement) => settlement.failure.as_ref(),
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => None,
    };
    let failure = parts.end.and_then(|end| end.failure.as_ref()).or_else(of_task)?;
    Some(format!("{} ({})", failure.reason, failure.code))
}

fn ended(run: u64, frame: &SubgraphSnapshot<'_>, place: usize, status: NodeStatus) -> Reason {
    let (_, parts) = frame.node(place);
    let why = view::reason(frame, place).or_else(|| failure_words(parts));
    let code = if status == NodeStatus::NotRun { "run_ended" } else { "ended" };
    let end = match status {
        NodeStatus::Succeeded => "it has succeeded",
        NodeStatus::Failed => "it has failed",
        NodeStatus::Skipped => "it was skipped",
        _ => "it was stopped",
    };
    let message = why.map_or_else(|| end.to_owned(), |why| format!("{end}: {why}"));
    let hint = match status {
        NodeStatus::Failed | NodeStatus::Cancelled | NodeStatus::NotRun => {
            Some(format!("take the run up again with `astra run retry {run} --from-failed`"))
        }
        _ => None,
    };
    Reason { hint, ..Reason::new(code, message) }
}
