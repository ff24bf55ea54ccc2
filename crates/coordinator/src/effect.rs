//! Everything that the shell may be told to do, once the facts behind it are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ConcurrencyKey, Failure, IdempotencyKey, LeaseId, NodeLink, NodeWord, Offer, QueueName, RunId,
    RunName, StateWord, TaskId, TaskSpec, Timestamp, ToolName, WorkerHealth, WorkerId,
};
use uuid::Uuid;

use crate::change::{Change, Outcome, WaitReason};
use crate::command::{Drain, DrainCause, Pause, Ticket};
use crate::run::change::{FactNumber, RunChange};
use crate::schedule::{PrepareTicket, ScheduleId, ScheduleRecord, ScheduleSpec};
use crate::task::explain::Explanation;
use crate::tenant_change::TenantChange;
use crate::worker::drain::VerifiedTool;

/// What came of one call: facts to keep, then things to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Facts, in the order in which they became true.
    pub changes: Vec<Change>,
    /// Facts about runs, in the order in which they became true. They are kept together with
    /// `changes`, all or none.
    pub runs: Vec<RunChange>,
    /// Facts about the tenant as a whole, in order; kept together with the others.
    pub tenant: Vec<TenantChange>,
    /// What may leave once `changes` are durable.
    pub effects: Vec<Effect>,
}

impl Step {
    /// Whether nothing came of the call.
    pub fn is_empty(&self) -> bool {
        let Self { changes, runs, tenant, effects } = self;
        changes.is_empty() && runs.is_empty() && tenant.is_empty() && effects.is_empty()
    }

    /// Adds what came of a later call.
    pub fn append(&mut self, later: Self) {
        self.changes.extend(later.changes);
        self.runs.extend(later.runs);
        self.tenant.extend(later.tenant);
        self.effects.extend(later.effects);
    }
}

/// An order to the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the asker.
    Answer {
        /// Whom.
        ticket: Ticket,
        /// What.
        answer: Answer,
    },
    /// Read settled tasks from the store and come back with `Command::Loaded`.
    Load {
        /// Names the load in the command that comes back.
        load: LoadTicket,
        /// What to read.
        keys: Vec<LoadKey>,
    },
    /// Compile what the run of a schedule's moment executes, and come back with
    /// `Command::Prepared`. One is under way at a time.
    Prepare {
        /// Names the preparation in the command that comes back.
        prepare: PrepareTicket,
        /// Which schedule.
        schedule: ScheduleId,
        /// Which moment of the wall clock.
        due: Timestamp,
        /// What to start: a workflow and its version.
        spec: Arc<ScheduleSpec>,
    },
}

/// Names one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadTicket(pub u64);

/// What a task in the store is looked up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadKey {
    /// By its id.
    Task(TaskId),
    /// By its submitter's key.
    Idempotency(IdempotencyKey),
}

/// What the asker hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The tasks exist, in the order in which they were asked for.
    Submitted(Vec<SubmittedTask>),
    /// Leases, best first; empty when the wait is over.
    Leases(Vec<Grant>),
    /// The worker was heard.
    Heartbeats {
        /// One verdict per listed lease, in order.
        verdicts: Vec<HeartbeatVerdict>,
        /// What a person's drain asks of the worker, if it is drained.
        drain: Option<DrainOrder>,
    },
    /// One judgement per report, in order.
    Judgements(Vec<Judgement>),
    /// The task is stopped.
    Stopped,
    /// The task is in the queue again.
    Requeued,
    /// The watched task is settled, or the wait is over.
    WatchEnded,
    /// The run exists.
    RunStarted {
        /// Its name.
        run: RunId,
        /// Whether an earlier start with the same key made it.
        existed: bool,
    },
    /// What the next in line came to.
    Next(Box<NextEnd>),
    /// Which workers have the work of a run.
    Bindings(Vec<BindingView>),
    /// The word was heard.
    Signalled,
    /// What of a run is under way, and stands in no fact.
    Underway(Box<Underway>),
    /// Why the task does not run.
    Explained(Box<Explanation>),
    /// What would be granted next.
    Peeked {
        /// Some of the ready tasks, best first.
        tasks: Vec<TaskId>,
        /// How many there are in all.
        total: u64,
    },
    /// The workers, by name.
    Workers(Vec<WorkerView>),
    /// The queues, by name.
    Queues(Vec<QueueView>),
    /// The schedules, by id.
    Schedules(Vec<ScheduleRecord>),
    /// One schedule, as it is from here on.
    Schedule(Box<ScheduleRecord>),
    /// The schedule is forgotten.
    ScheduleRemoved,
    /// The worker is known, with what it can do.
    Registered,
    /// The worker is forgotten.
    Unregistered {
        /// Whether it was known before.
        was_known: bool,
    },
    /// The tool is remembered as verified.
    Verified,
    /// The worker is drained, or takes work again.
    DrainSet,
    /// The queue is paused, or goes on.
    PauseSet,
    /// The task is not among the live ones: settled, or never known. The store knows which.
    NotLive,
    /// The command cannot be carried out; nothing changed.
    Refused(Refusal),
}

/// What a middleware hears of the next in line.
#[derive(Clone, Debug, PartialEq)]
pub enum NextEnd {
    /// It is done; what it gave, as JSON.
    Succeeded(Bytes),
    /// It came to another end.
    Ended {
        /// The end: failed, skipped or cancelled.
        word: NodeWord,
        /// Why, where someone said so.
        failure: Option<Failure>,
        /// What it gave all the same.
        result: Option<Bytes>,
    },
    /// The caller's time is over.
    TimedOut,
    /// The same call was made again, and its end is told there. The caller's lease goes on.
    AskedAgain,
    /// The caller has no right to call: its lease is over, or its task is in no chain.
    NotAllowed {
        /// A short word, like `next_no_chain`.
        code: &'static str,
        /// A sentence for people.
        reason: &'static str,
    },
}

/// A task that was just submitted, or found again by its idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedTask {
    /// Its name.
    pub task: TaskId,
    /// Where it stands.
    pub state: StateWord,
    /// Whether an earlier submit with the same key made it.
    pub existed: bool,
}

impl From<Outcome> for StateWord {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::Dead => Self::Dead,
            Outcome::Stopped => Self::Stopped,
        }
    }
}

/// A worker may now decide an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The right.
    pub lease: LeaseId,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What the task has in common with others.
    pub spec: Arc<TaskSpec>,
    /// JSON, opaque here.
    pub parameters: Bytes,
    /// The run that the task belongs to.
    pub run: Option<RunName>,
    /// No other task with this key runs meanwhile.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// The part of the run that the task executes.
    pub link: Option<Arc<NodeLink>>,
    /// The chain that it stands in, where its node has middlewares.
    pub chain: Option<Arc<Chain>>,
    /// The number of the grant among the facts of its run. Every grant takes a new one.
    pub fact: Option<FactNumber>,
    /// When the right ends unless a heartbeat comes first.
    pub expires_at: Timestamp,
    /// How often the worker should give a sign of life.
    pub heartbeat_every: Duration,
}

/// What only the coordinator knows of a run that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    /// Leases whose holders have not confirmed them, and until when they may.
    pub unconfirmed: Vec<(LeaseId, Timestamp)>,
}

/// A node with what is wrapped around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The node, by its id as authored.
    pub host: Uuid,
    /// Its middlewares, outermost first, by their ids as authored.
    pub middlewares: Vec<Uuid>,
}

/// What a person's drain asks of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOrder {
    /// Take nothing new, and finish what is under way.
    Finish,
    /// The time to finish is over: leave.
    Leave,
}

/// What became of a heartbeat for one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatVerdict {
    /// The lease lasts until then.
    Extended {
        /// Its new end.
        expires_at: Timestamp,
    },
    /// The lease is over: stop the work.
    Cancelled(LostAuthority),
    /// The heartbeat makes no sense: a bug on the worker's side.
    Rejected(Violation),
}

/// The coordinator's word about a report. Seed 002 section 3: exactly one of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The report counts.
    Committed,
    /// The reporter had lost its authority; the report is discarded.
    Cancelled(LostAuthority),
    /// The report makes no sense: a bug on the worker's side.
    Rejected(Violation),
}

/// A verdict, and where the task stands after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Where the task stands; `None` when there is no such task.
    pub task_state: Option<StateWord>,
}

/// How a worker lost its authority. Not a failure: seed 002 section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAuthority {
    /// The lease ended before the report came.
    Expired,
    /// Another lease was granted since.
    Superseded,
    /// A person stopped the task.
    TaskCancelled,
    /// The lease was reported; a heartbeat for it has no point.
    Reported,
}

/// What was wrong with a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// There is no such task.
    UnknownTask,
    /// No such lease was ever granted.
    UnknownLease,
    /// Another worker holds, or held, that lease.
    NotHolder,
    /// The lease was reported before, with other words.
    DuplicateReport,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many live tasks.
    LiveTasksFull,
    /// The parameters of live tasks take too much memory.
    LiveBytesFull,
    /// Too many different kinds of demand among live tasks.
    DemandsFull,
    /// Too many workers.
    WorkersFull,
    /// Too many waiting requests.
    RequestsFull,
    /// Too many paused queues.
    PausesFull,
    /// Too many verified tools.
    VerifiedToolsFull,
    /// Too many schedules.
    SchedulesFull,
    /// There is no such schedule.
    UnknownSchedule,
    /// Too many moments of the past wait for their runs.
    BackfillFull,
    /// The key belongs to a task with other content.
    IdempotencyConflict {
        /// The key.
        key: IdempotencyKey,
    },
    /// A task is to run after one that is not known.
    UnknownDependency {
        /// Which one.
        after: TaskId,
    },
    /// A task is to run after more tasks than it may.
    TooManyDependencies {
        /// How many.
        count: usize,
    },
    /// What the command needed could not be read from the store.
    StoreUnavailable,
    /// There is no such task.
    UnknownTask,
    /// The task belongs to a run that has ended, and cannot be put back on its own.
    PartOfRun {
        /// The run.
        run: RunId,
    },
    /// There is no such run.
    UnknownRun,
    /// Too many runs are live, or their definitions take too much room.
    RunsFull,
    /// A run with this key was started with other content.
    RunConflict {
        /// The key.
        key: IdempotencyKey,
    },
    /// There is no such worker.
    UnknownWorker {
        /// Its name.
        worker: WorkerId,
    },
    /// A worker of another credential lives under this name.
    WorkerNameTaken,
    /// No worker has that work of the run yet.
    NotBound,
    /// Too many runs are kept from workers, or one from too many, or it has too many bindings.
    RunDrainsFull,
    /// No node of the run waits for that word.
    NotWaiting {
        /// What the node does instead, in words.
        instead: String,
    },
    /// The task is in a state from which it cannot be requeued.
    NotRequeueable {
        /// Where it stands.
        state: StateWord,
    },
}

/// The worker that has the work of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// Which package, or which type where its tasks need no package.
    pub package: String,
    /// Who.
    pub worker: WorkerId,
    /// Since when.
    pub since: Timestamp,
}

/// One worker, as seen from here.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// Its name.
    pub worker: WorkerId,
    /// How it does.
    pub health: WorkerHealth,
    /// When it was last heard of.
    pub last_seen: Timestamp,
    /// Leases that it holds.
    pub in_flight: u64,
    /// Leases that it was ever given.
    pub granted: u64,
    /// Whether it waits for work right now.
    pub is_asking: bool,
    /// The person's order by which it is given nothing new.
    pub drain: Option<Drain>,
    /// Why it wants nothing new, by its own word.
    pub drained_by: BTreeSet<DrainCause>,
    /// What it offered last.
    pub offer: Arc<Offer>,
    /// Tools that it was seen to have.
    pub verified: BTreeMap<ToolName, VerifiedTool>,
}

/// One queue, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Its name.
    pub queue: QueueName,
    /// Tasks that may run and are held by no worker.
    pub depth: u64,
    /// Since when the oldest of them exists.
    pub oldest_since: Option<Timestamp>,
    /// Tasks held by workers.
    pub in_flight: u64,
    /// Tasks that wait for their next attempt.
    pub retries_due: u64,
    /// Tasks that wait for the moment that their submitter chose.
    pub scheduled: u64,
    /// Tasks that wait for other tasks.
    pub blocked: u64,
    /// Who paused it, if someone did.
    pub paused: Option<Pause>,
}

/// The word for a task that waits for a moment.
impl From<WaitReason> for StateWord {
    fn from(why: WaitReason) -> Self {
        match why {
            WaitReason::Scheduled | WaitReason::After | WaitReason::Delay | WaitReason::Signal => {
                Self::Waiting
            }
            WaitReason::Backoff => Self::Retrying,
        }
    }
}
