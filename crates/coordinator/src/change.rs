//! Every fact that can become true of a task. The store keeps them; `apply` makes them state.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    ConcurrencyKey, Failure, IdempotencyMark, NodeLink, Pin, ReportKey, ResultExtra, RunName,
    TaskId, TaskSpec, Timestamp, WorkerId,
};

use crate::run::change::FactNumber;

/// A fact. The store must keep it before anyone hears of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A task came into being.
    TaskSubmitted(Box<TaskRecord>),
    /// A worker was given the right to decide the next attempt.
    LeaseGranted {
        /// Whose lease.
        task: TaskId,
        /// The task from here on.
        progress: Progress,
        /// The number of the fact, where the task belongs to a live run.
        fact: Option<FactNumber>,
    },
    /// An attempt ended and the task goes on: it waits or stands in the queue again.
    AttemptEnded {
        /// Whose attempt.
        task: TaskId,
        /// How it ended.
        attempt: EndedAttempt,
        /// The task from here on.
        progress: Progress,
    },
    /// A worker that was silent when its attempt timed out was heard of after all: it was slow,
    /// not lost.
    LossForgiven {
        /// Whose worker.
        task: TaskId,
        /// The task from here on.
        progress: Progress,
    },
    /// The last of the tasks that it waited for is completed: it may start.
    TaskReleased {
        /// Which task.
        task: TaskId,
        /// The task from here on.
        progress: Progress,
    },
    /// The task reached its end; it leaves memory and stays in the store.
    TaskSettled {
        /// Which task.
        task: TaskId,
        /// The attempt that was lost with it, when no report settled the task.
        attempt: Option<EndedAttempt>,
        /// The end.
        progress: Progress,
        /// The number of the fact, where the task belongs to a live run.
        fact: Option<FactNumber>,
    },
    /// A person put a settled task back into the queue.
    TaskRequeued(Box<TaskRecord>),
}

impl Change {
    /// The task that the fact is about.
    pub fn task(&self) -> TaskId {
        match self {
            Self::TaskSubmitted(record) | Self::TaskRequeued(record) => record.id,
            Self::LeaseGranted { task, .. }
            | Self::AttemptEnded { task, .. }
            | Self::LossForgiven { task, .. }
            | Self::TaskReleased { task, .. }
            | Self::TaskSettled { task, .. } => *task,
        }
    }

    /// What the task is after the fact.
    pub fn progress(&self) -> &Progress {
        match self {
            Self::TaskSubmitted(record) | Self::TaskRequeued(record) => &record.progress,
            Self::LeaseGranted { progress, .. }
            | Self::AttemptEnded { progress, .. }
            | Self::LossForgiven { progress, .. }
            | Self::TaskReleased { progress, .. }
            | Self::TaskSettled { progress, .. } => progress,
        }
    }

    /// The attempt that ended with the fact, if it is to be kept in the task's history.
    pub fn ended_attempt(&self) -> Option<&EndedAttempt> {
        match self {
            Self::AttemptEnded { attempt, .. } => Some(attempt),
            Self::TaskSettled { attempt, .. } => attempt.as_ref(),
            _ => None,
        }
    }
}

/// All that is known of a task: what the store keeps and what a restart brings back.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Its name.
    pub id: TaskId,
    /// What it has in common with others.
    pub spec: Arc<TaskSpec>,
    /// JSON, opaque here.
    pub parameters: Bytes,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// At most one task with the same key runs at a time.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// Recognises a repeated submit.
    pub idempotency: Option<IdempotencyMark>,
    /// The run that it belongs to.
    pub run: Option<RunName>,
    /// The tasks that had to complete before it could start; each is older than it.
    pub after: Vec<TaskId>,
    /// The part of the run that it executes.
    pub link: Option<Arc<NodeLink>>,
    /// The numbers of its facts within that run.
    pub facts: TaskFacts,
    /// The worker that it belongs to.
    pub pin: Option<Box<Pin>>,
    /// The part that changes.
    pub progress: Progress,
    /// Attempts that ended without settling the task, oldest first.
    pub ended_attempts: Vec<EndedAttempt>,
}

/// The numbers that the facts of a task have within its run; a task without a run has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFacts {
    /// The task came into being.
    pub begun: Option<FactNumber>,
    /// Its newest lease was granted.
    pub granted: Option<FactNumber>,
    /// It reached its end.
    pub settled: Option<FactNumber>,
}

/// The part of a task that changes; each change carries the whole of it, so the last one wins.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Where the task stands.
    pub state: TaskState,
    /// Attempts since it was submitted or requeued. Counted at the grant: a task that kills its
    /// worker reports nothing, and would otherwise be retried for ever.
    pub attempt: u32,
    /// Leases ever granted; the epoch of the newest one.
    pub epoch: u32,
    /// Workers lost in a row.
    pub losses: u32,
}

/// Where a task stands.
///
/// ```text
///            submit                    grant
///  Waiting ----------> Ready ---------------------> Leased --> Settled
///     ^  \__time_____^   ^                           |  |         |
///     |                  |__ lost, returned _________|  |         |
///     |______ failed, timed out: backoff _______________|         |
///                        ^________________ requeue _______________|
/// ```
/// A stop by a person leads from each of the first three to `Settled`; so does the failure of a
/// task that a waiting one waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskState {
    /// It may not start before a moment, and not before other tasks if it waits for some.
    Waiting {
        /// The moment.
        until: Timestamp,
        /// Why it waits.
        why: WaitReason,
    },
    /// It may start and no worker holds it.
    Ready,
    /// Exactly one worker holds it, until `lease.expires_at`.
    Leased(Lease),
    /// Nothing but a person's requeue leaves this state.
    Settled(Box<Settlement>),
}

/// Why a task may not start yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The submitter said so.
    Scheduled,
    /// The last attempt failed, and the next one is due later.
    Backoff,
    /// Other tasks must complete first; then the moment counts.
    After,
    /// Nothing but time is to pass; then the task is completed. Nobody executes it.
    Delay,
    /// Someone must say a word; when the moment comes first, the task fails.
    Signal,
}

/// A worker's right to decide one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// Who holds it.
    pub holder: WorkerId,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it ends unless a heartbeat comes first.
    pub expires_at: Timestamp,
    /// When the attempt ends, however alive the holder is.
    pub attempt_ends_at: Option<Timestamp>,
    /// The holder must show that it received the task before this moment.
    pub confirm_by: Option<Timestamp>,
    /// Nobody knows whether the holder has it, see [`crate::Renewal::Unlisted`]. Not kept: after a
    /// restart every lease is doubtful.
    pub is_doubtful: bool,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The end.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
    /// Who held the task last, if anyone ever did.
    pub holder: Option<WorkerId>,
    /// When that worker got it.
    pub granted_at: Option<Timestamp>,
    /// The committed report that settled it; none when time or a person did.
    pub report: Option<ReportKey>,
    /// JSON, opaque here; only a completed task has one.
    pub result: Option<Bytes>,
    /// Why it did not complete.
    pub failure: Option<Failure>,
    /// What only few results have.
    pub extra: Option<Box<ResultExtra>>,
}

impl Settlement {
    /// The end of a task that nobody executed, and that gave nothing.
    pub(crate) fn unexecuted(outcome: Outcome, at: Timestamp) -> Self {
        Self {
            outcome,
            at,
            holder: None,
            granted_at: None,
            report: None,
            result: None,
            failure: None,
            extra: None,
        }
    }
}

/// The ends that a task can come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A committed report said that the work is done.
    Completed,
    /// A committed report said that the work failed for good, or a task that it waited for came
    /// to another end than `Completed`.
    Failed,
    /// It ran out of attempts, or lost too many workers.
    Dead,
    /// A person stopped it.
    Stopped,
}

/// An attempt that ended without settling the task, or that was lost when the task settled.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedAttempt {
    /// Its lease.
    pub epoch: u32,
    /// Who held it.
    pub worker: WorkerId,
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub ending: Ending,
}

/// How an attempt ended without settling its task.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A committed report said that it failed; the task is tried again.
    Failed {
        /// Recognises the report when it is sent again.
        report: ReportKey,
        /// What the worker said.
        failure: Failure,
    },
    /// The lease ended without a report: the worker is taken for lost.
    Expired,
    /// The attempt took longer than its timeout.
    TimedOut,
    /// The worker never showed that it received the task.
    Undelivered,
    /// A person stopped the task while it ran.
    Stopped,
}
