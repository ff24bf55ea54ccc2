//! A live task, as memory keeps it.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    ConcurrencyKey, IdempotencyMark, NodeLink, Pin, RunName, StateWord, TaskId, Timestamp,
};

use crate::change::{EndedAttempt, Outcome, Progress, TaskFacts, TaskState, WaitReason};
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
    pub(crate) after: Option<Box<AfterPart>>,
    pub(crate) link: Option<Box<LinkPart>>,
    pub(crate) pin: Option<Box<Pin>>,
}

/// What only tasks of runs have.
#[derive(Debug)]
pub(crate) struct LinkPart {
    pub(crate) link: Arc<NodeLink>,
    pub(crate) facts: TaskFacts,
}

/// What only tasks have that run after others.
#[derive(Debug)]
pub(crate) struct AfterPart {
    /// The tasks that it had to wait for.
    pub(crate) tasks: Vec<TaskId>,
    /// How many of them are live while it waits for them; derived.
    pub(crate) unmet: usize,
}

/// What one entry of `after` takes in memory, here and in the index, roughly.
const AFTER_BYTES: usize = 64;

/// How much of `LIVE_BYTES_MAX` a task takes.
pub(crate) fn live_bytes(parameters: &Bytes, n_after: usize) -> usize {
    parameters.len() + n_after * AFTER_BYTES
}

impl Task {
    fn after_part(&self) -> Option<&AfterPart> {
        self.rare.as_ref()?.after.as_deref()
    }

    pub(crate) fn after(&self) -> &[TaskId] {
        self.after_part().map_or(&[], |part| &part.tasks)
    }

    /// Whether it waits for other tasks, or did so until a moment ago.
    pub(crate) fn is_after(&self) -> bool {
        matches!(self.progress.state, TaskState::Waiting { why: WaitReason::After, .. })
    }

    /// How many live tasks it waits for.
    pub(crate) fn unmet(&self) -> usize {
        self.after_part().map_or(0, |part| part.unmet)
    }

    pub(crate) fn set_unmet(&mut self, unmet: usize) {
        if let Some(part) = self.rare.as_mut().and_then(|rare| rare.after.as_mut()) {
            part.unmet = unmet;
        }
    }

    pub(crate) fn live_bytes(&self) -> usize {
        live_bytes(&self.parameters, self.after().len())
    }

    pub(crate) fn concurrency_key(&self) -> Option<&ConcurrencyKey> {
        self.rare.as_ref()?.concurrency_key.as_ref()
    }

    pub(crate) fn idempotency(&self) -> Option<&IdempotencyMark> {
        self.rare.as_ref()?.idempotency.as_ref()
    }

    pub(crate) fn run(&self) -> Option<&RunName> {
        self.rare.as_ref()?.run.as_ref()
    }

    pub(crate) fn link(&self) -> Option<&Arc<NodeLink>> {
        self.rare.as_ref()?.link.as_ref().map(|part| &part.link)
    }

    /// The numbers of its facts within its run.
    pub(crate) fn facts(&self) -> TaskFacts {
        let part = self.rare.as_ref().and_then(|rare| rare.link.as_ref());
        part.map_or_else(TaskFacts::default, |part| part.facts)
    }

    pub(crate) fn facts_mut(&mut self) -> Option<&mut TaskFacts> {
        self.rare.as_mut()?.link.as_mut().map(|part| &mut part.facts)
    }

    pub(crate) fn pin(&self) -> Option<&Pin> {
        self.rare.as_ref()?.pin.as_deref()
    }

    pub(crate) fn ended_attempts(&self) -> &[EndedAttempt] {
        self.rare.as_ref().map_or(&[], |rare| &rare.ended_attempts)
    }

    pub(crate) fn push_ended_attempt(&mut self, attempt: EndedAttempt) {
        self.rare.get_or_insert_default().ended_attempts.push(attempt);
    }
}

impl TaskState {
    /// How the task ended, if it did.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Settled(settlement) => Some(settlement.outcome),
            Self::Waiting { .. } | Self::Ready | Self::Leased(_) => None,
        }
    }

    /// When the worker that holds the task got it.
    pub(crate) fn granted_at(&self) -> Option<Timestamp> {
        match self {
            Self::Leased(lease) => Some(lease.granted_at),
            Self::Waiting { .. } | Self::Ready | Self::Settled(_) => None,
        }
    }

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
