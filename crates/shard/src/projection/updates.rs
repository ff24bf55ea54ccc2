//! Tasks that moved on, for those who listen to all of them.

use coordinator::{Change, StateWord, TaskState};
use model::{TaskId, Timestamp, WorkerId};

/// A task moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskUpdate {
    /// The task.
    pub task: TaskId,
    /// Its state from here on.
    pub state: StateWord,
    /// Who holds it, or held it last.
    pub worker: Option<WorkerId>,
    /// How often it was tried.
    pub attempt: u32,
    /// When it moved on.
    pub at: Timestamp,
}

impl TaskUpdate {
    pub(super) fn of(change: &Change, at: Timestamp) -> Self {
        let progress = change.progress();
        let worker = match &progress.state {
            TaskState::Leased(lease) => Some(lease.holder.clone()),
            TaskState::Settled(settlement) => settlement.holder.clone(),
            TaskState::Waiting { .. } | TaskState::Ready => None,
        };
        let (state, attempt) = (progress.state.word(), progress.attempt);
        Self { task: change.task(), state, worker, attempt, at }
    }
}
