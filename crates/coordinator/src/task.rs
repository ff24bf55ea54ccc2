//! A live task, as memory keeps it.

use bytes::Bytes;
use model::{ConcurrencyKey, IdempotencyMark, RunName, TaskId, Timestamp};

use crate::change::{EndedAttempt, Progress, TaskState};
use crate::effect::StateWord;
use crate::placement::SpecIdx;

/// A live task. A million of these must fit in memory, so what few tasks have is boxed away.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) parameters: Bytes,
    pub(crate) created_at: Timestamp,
    pub(crate) progress: Progress,
    /// Where the task stands in the table of deadlines, if it does.
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) spec: SpecIdx,
    pub(crate) rare: Option<Box<RareParts>>,
}

/// What most tasks do not have.
#[derive(Debug, Default)]
pub(crate) struct RareParts {
    pub(crate) concurrency_key: Option<ConcurrencyKey>,
    pub(crate) idempotency: Option<IdempotencyMark>,
    pub(crate) run: Option<RunName>,
    pub(crate) ended_attempts: Vec<EndedAttempt>,
}

impl Task {
    pub(crate) fn concurrency_key(&self) -> Option<&ConcurrencyKey> {
        self.rare.as_ref()?.concurrency_key.as_ref()
    }

    pub(crate) fn idempotency(&self) -> Option<&IdempotencyMark> {
        self.rare.as_ref()?.idempotency.as_ref()
    }

    pub(crate) fn run(&self) -> Option<&RunName> {
        self.rare.as_ref()?.run.as_ref()
    }

    pub(crate) fn ended_attempts(&self) -> &[EndedAttempt] {
        self.rare.as_ref().map_or(&[], |rare| &rare.ended_attempts)
    }

    pub(crate) fn push_ended_attempt(&mut self, attempt: EndedAttempt) {
        self.rare.get_or_insert_default().ended_attempts.push(attempt);
    }
}

impl TaskState {
    /// The word for this state.
    pub fn word(&self) -> StateWord {
        match self {
            Self::Waiting { why, .. } => (*why).into(),
            Self::Ready => StateWord::Queued,
            Self::Leased(_) => StateWord::Running,
            Self::Settled(settlement) => settlement.outcome.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_task_is_small() {
        assert!(size_of::<Task>() <= 144, "{} bytes", size_of::<Task>());
    }
}
