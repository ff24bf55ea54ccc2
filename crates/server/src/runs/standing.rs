//! The coordinator's statuses in the words of the wire, and why a node waits.

use coordinator::{NodeStatus, TaskRecord, TaskState, WaitReason, has_begun};
use model::Timestamp;
use protocol::rest::runs::{self as wire, RunStatus};
use serde::Deserialize;
pub(crate) use shard::projection::of_end;

use super::board::{Board, FrameBoard};

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
pub(crate) fn of_run(board: &Board<'_>) -> RunStatus {
    if let Some(end) = &board.record.end {
        return of_end(end.word);
    }
    let parts = || board.frames.iter().flat_map(|frame| &frame.nodes);
    let began = board.record.began_at.is_some()
        || board.frames.len() > 1
        || parts().any(|parts| parts.tasks.iter().any(|task| has_begun(&task.progress)));
    if began { RunStatus::Running } else { RunStatus::Queued }
}

/// Why a node waits, or why it was skipped.
pub(crate) fn reason(frame: &FrameBoard<'_>, place: usize) -> Option<String> {
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
