//! Where a node stands, by what the store holds of it.

use coordinator::{TaskRecord, TaskState, WaitReason};
use flow::{Node, Work};
use model::Timestamp;
use protocol::rest::runs::{NodeStatus, RunStatus};
use serde::Deserialize;
pub(crate) use shard::projection::node_status::{of_end, of_settlement, of_word};

use super::board::{Board, FrameBoard, NodeParts};

/// Names in one sentence; the rest are counted.
const NAMES_TOLD_MAX: usize = 5;

/// Where a node stands.
pub(super) fn status(frame: &FrameBoard<'_>, place: usize) -> NodeStatus {
    let (node, parts) = frame.node(place);
    if let Some(end) = parts.end {
        return of_word(end.word);
    }
    let open = if is_plain(node) {
        parts.tasks.last().map(|task| of_task(task))
    } else {
        of_several(parts)
    };
    match open {
        Some(status) if status.is_terminal() || !frame.is_over => status,
        None if !frame.is_over => NodeStatus::Queued,
        // Whatever it was at, nothing comes of it any more.
        Some(_) | None => NodeStatus::Cancelled,
    }
}

/// Whether the end of its one task is the node's own end.
pub(crate) fn is_plain(node: &Node) -> bool {
    let is_container = matches!(node.host.work, Work::Container { .. });
    node.middlewares.is_empty() && node.map.is_none() && !is_container
}

/// A node that takes several tasks or a subgraph goes on until its own end is told.
fn of_several(parts: &NodeParts<'_>) -> Option<NodeStatus> {
    if !parts.frames.is_empty() || parts.tasks.iter().any(|task| has_begun(task)) {
        return Some(NodeStatus::Running);
    }
    (!parts.tasks.is_empty()).then_some(NodeStatus::Queued)
}

/// Whether a worker had it, or time or a word from outside is all that it takes.
pub(crate) fn has_begun(task: &TaskRecord) -> bool {
    match &task.progress.state {
        TaskState::Leased(_)
        | TaskState::Settled(_)
        | TaskState::Waiting { why: WaitReason::Delay | WaitReason::Signal, .. } => true,
        TaskState::Waiting { .. } | TaskState::Ready => task.progress.attempt > 0,
    }
}

/// What a task says about its node.
pub(crate) fn of_task(task: &TaskRecord) -> NodeStatus {
    match &task.progress.state {
        TaskState::Waiting { why: WaitReason::Delay | WaitReason::Signal, .. }
        | TaskState::Leased(_) => NodeStatus::Running,
        TaskState::Waiting { .. } | TaskState::Ready => NodeStatus::Queued,
        TaskState::Settled(settlement) => of_settlement(settlement),
    }
}

/// Where the run itself stands.
pub(crate) fn of_run(board: &Board<'_>) -> RunStatus {
    if let Some(end) = &board.record.end {
        return of_end(end.word);
    }
    let parts = || board.frames.iter().flat_map(|frame| &frame.nodes);
    let began = board.record.began_at.is_some()
        || board.frames.len() > 1
        || parts().any(|parts| parts.tasks.iter().any(|task| has_begun(task)));
    if began { RunStatus::Running } else { RunStatus::Queued }
}

/// Why a node waits, or why it was skipped.
pub(crate) fn reason(frame: &FrameBoard<'_>, place: usize) -> Option<String> {
    let (_, parts) = frame.node(place);
    match parts.status {
        NodeStatus::Queued | NodeStatus::Running => match parts.tasks.last() {
            Some(task) => waiting(task),
            None if parts.status == NodeStatus::Queued => Some(blocked(frame, place)),
            None => None,
        },
        NodeStatus::Skipped => {
            let failure = parts.end.and_then(|end| end.failure.as_ref());
            failure.map(|failure| failure.reason.clone())
        }
        NodeStatus::Cancelled if parts.tasks.is_empty() && parts.end.is_none() => {
            Some("the run ended before its turn came".to_owned())
        }
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
pub(crate) fn blocked(frame: &FrameBoard<'_>, place: usize) -> String {
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
