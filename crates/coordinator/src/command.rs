//! Everything that can be asked of the coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::Program;
use model::{
    IdempotencyMark, LeaseId, NewTask, NodeWord, Offer, QueueName, Report, RunId, TaskId,
    Timestamp, ToolName, TypeName, WorkerId,
};
use uuid::Uuid;

use crate::change::TaskRecord;
use crate::effect::{LoadKey, LoadTicket};
use crate::run::change::RunAbout;
use crate::schedule::{Preparation, PrepareTicket, ScheduleEdit, ScheduleId, ScheduleSpec};
use crate::worker::presence::SilenceLimits;

/// Whom an answer goes to; chosen by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The outside world at the moment of a call: the coordinator has no clock and no dice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The shell's clock; it never runs backwards within one process.
    pub now: Timestamp,
    /// The wall clock, which may be set: only schedules go by it.
    pub wall: Timestamp,
    /// Fresh random bits, for jitter.
    pub entropy: u64,
}

/// A question, or an order that nobody waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Answer this, to whoever has the ticket.
    Ask(Ticket, Question),
    /// The asker has gone: forget its request. Answered by nothing.
    Withdraw {
        /// The request's or the watch's ticket.
        ticket: Ticket,
    },
    /// These grants never reached their worker: take them back at once. Answered by nothing.
    ReturnLeases {
        /// What could not be delivered.
        leases: Vec<LeaseId>,
    },
    /// A worker gives up what it holds: it leaves before it is done. Answered by nothing.
    GiveBack {
        /// Who gives up.
        worker: WorkerId,
        /// What.
        leases: Vec<LeaseId>,
    },
    /// A worker's process is a new one: what it held before is lost. Answered by nothing.
    LoseWorker {
        /// Whose process ended.
        worker: WorkerId,
    },
    /// The shell did what an `Effect::Prepare` asked for. Answered by nothing.
    Prepared {
        /// Which preparation.
        prepare: PrepareTicket,
        /// What came of it.
        preparation: Preparation,
    },
    /// The shell read what an `Effect::Load` asked for.
    Loaded {
        /// Which load.
        load: LoadTicket,
        /// What the store holds for each key that it knows.
        found: Vec<(LoadKey, TaskRecord)>,
    },
    /// The shell could not read it; the command that waited is refused.
    LoadFailed {
        /// Which load.
        load: LoadTicket,
    },
}

/// What is asked of the coordinator, and answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Make these tasks, all or none. Answered by `Submitted`.
    Submit {
        /// What to make.
        tasks: Vec<NewTask>,
    },
    /// Give a worker up to so many leases; wait for the first one. Answered by `Leases`.
    RequestLeases {
        /// What is asked for.
        request: LeaseRequest,
    },
    /// A worker lives and still works on these leases. Answered by `Heartbeats`, in order.
    Heartbeat {
        /// Who lives.
        worker: WorkerId,
        /// What it works on.
        leases: Renewal,
    },
    /// A worker says what it can do, without asking for work. Answered by `Registered`.
    Register {
        /// Who it is.
        worker: WorkerId,
        /// What it can do.
        offer: Arc<Offer>,
        /// How long it may be silent, from here on.
        silence_limits: SilenceLimits,
        /// Whether its process may be a new one: what its tools showed before is forgotten, and what
        /// it holds is doubtful, see [`Renewal::Unlisted`].
        anew: bool,
    },
    /// A worker executed a tool that it claims to have. Answered by `Verified`.
    NoteVerified {
        /// Which worker.
        worker: WorkerId,
        /// Which tool.
        tool: ToolName,
        /// What the tool said.
        output: String,
    },
    /// A worker leaves: what it holds goes back at once, and it is forgotten. Answered by
    /// `Unregistered`.
    Unregister {
        /// Who leaves.
        worker: WorkerId,
    },
    /// A person drains a worker, or lets it take work again. Answered by `DrainSet`.
    Drain {
        /// Which worker.
        worker: WorkerId,
        /// Who drained it, and by when it is to leave; `None` where it takes work again.
        drain: Option<Drain>,
    },
    /// A worker says of itself that it wants nothing new, or that it does again. Answered by
    /// `DrainSet`.
    SetDrain {
        /// Which worker.
        worker: WorkerId,
        /// Why; the causes of one worker are independent of each other.
        cause: DrainCause,
        /// Whether it is drained from here on.
        on: bool,
    },
    /// Grant nothing of a queue, or grant from it again. Answered by `PauseSet`.
    SetPause {
        /// Which queue.
        queue: QueueName,
        /// Who paused it, and when; `None` where it goes on.
        pause: Option<Pause>,
    },
    /// What workers say about their attempts. Answered by `Judgements`, in order.
    Report {
        /// What they say.
        reports: Vec<Report>,
    },
    /// Stop a task. Answered by `Stopped` or `NotLive`.
    Stop {
        /// Which task.
        task: TaskId,
    },
    /// Put a failed, dead or stopped task back into the queue. Answered by `Requeued`.
    Requeue {
        /// Which task.
        task: TaskId,
    },
    /// Wait until a task is settled. Answered by `WatchEnded` or `NotLive`.
    Watch {
        /// Which task.
        task: TaskId,
        /// No longer than this.
        until: Timestamp,
    },
    /// Why does a task not run? Answered by `Explained` or `NotLive`.
    Explain {
        /// Which task.
        task: TaskId,
    },
    /// Which tasks would be granted next? Nothing is granted. Answered by `Peeked`.
    Peek {
        /// Only tasks of these queues; empty means all.
        queues: Vec<QueueName>,
        /// Only tasks of these types; `None` means all.
        types: Option<BTreeSet<TypeName>>,
        /// So many are passed over.
        skip: u32,
        /// At most so many are told; no call looks beyond the first `PEEK_MAX`.
        limit: u32,
    },
    /// Start a run. Answered by `RunStarted`.
    StartRun {
        /// What to run.
        run: Box<NewRun>,
    },
    /// Stop a run and everything in it. Answered by `Stopped` or `NotLive`.
    CancelRun {
        /// Which run.
        run: RunId,
        /// Who said so.
        by: String,
    },
    /// Wait until a run has ended. Answered by `WatchEnded` or `NotLive`.
    WatchRun {
        /// Which run.
        run: RunId,
        /// No longer than this.
        until: Timestamp,
    },
    /// A middleware hands on to the next in line, and waits for it. Answered by `Next`, when that
    /// has come to its end.
    Next {
        /// The call.
        call: Box<NextCall>,
    },
    /// What of a run is under way and stands in no fact? Answered by `Underway`.
    Underway {
        /// Which run.
        run: RunId,
    },
    /// Someone says the word that a node waits for. Answered by `Signalled`.
    Signal {
        /// The word.
        signal: Box<Signal>,
    },
    /// Which workers have the work of a run? Answered by `Bindings` or `NotLive`.
    Bindings {
        /// Which run.
        run: RunId,
    },
    /// Give the work of a run to another worker. Answered by `Bindings`.
    Rebind {
        /// What goes where.
        rebind: Box<Rebind>,
    },
    /// Which workers are there? Answered by `Workers`.
    ListWorkers,
    /// How do the queues stand? Answered by `Queues`.
    ListQueues,
    /// Which schedules are there? Answered by `Schedules`.
    ListSchedules,
    /// Show one schedule. Answered by `Schedule`.
    ShowSchedule {
        /// Which one.
        schedule: ScheduleId,
    },
    /// Keep a new schedule. Answered by `Schedule`.
    AddSchedule {
        /// A fresh id.
        schedule: ScheduleId,
        /// What its author wrote.
        spec: Box<ScheduleSpec>,
    },
    /// Change a schedule. Answered by `Schedule`.
    EditSchedule {
        /// Which one.
        schedule: ScheduleId,
        /// What changes.
        edit: Box<ScheduleEdit>,
    },
    /// Forget a schedule; its runs go on. Answered by `ScheduleRemoved`.
    RemoveSchedule {
        /// Which one.
        schedule: ScheduleId,
    },
    /// Start runs for moments of the past, one after another. Answered by `Schedule`.
    Backfill {
        /// Whose moments.
        schedule: ScheduleId,
        /// The moments; those that wait already are not added again.
        moments: Vec<Timestamp>,
    },
}

/// A run that is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// What is executed.
    pub program: Arc<Program>,
    /// What it is given: a JSON object, checked at the door.
    pub inputs: Bytes,
    /// Recognises a repeated start.
    pub idempotency: Option<IdempotencyMark>,
    /// What the starter says about it.
    pub about: Arc<RunAbout>,
    /// Nodes of the workflow itself that need not be executed, because an earlier run did.
    pub reused: Vec<Reused>,
}

/// A node that an earlier run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Reused {
    /// Which node, by its place.
    pub node: u32,
    /// How it ended there: succeeded or skipped.
    pub word: NodeWord,
    /// What it gave.
    pub result: Option<Bytes>,
    /// The task that gave it, where one did.
    pub task: Option<TaskId>,
}

/// A call of `next`.
#[derive(Clone, Debug, PartialEq)]
pub struct NextCall {
    /// The caller's lease.
    pub lease: LeaseId,
    /// The caller.
    pub worker: WorkerId,
    /// The caller's own name for the call; the same name again is the same call.
    pub request: Arc<str>,
    /// What is laid over the parameters of the next in line: a JSON object; empty for nothing.
    pub payload: Bytes,
    /// The caller waits no longer than this.
    pub until: Option<Timestamp>,
}

/// A word for a node that waits for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Which run.
    pub run: RunId,
    /// The node, by its id as authored.
    pub node: Uuid,
    /// The frame, where the same node waits in several.
    pub frame: Option<u32>,
    /// The event's name, for a node that waits for a named one.
    pub event: Option<String>,
    /// Yes or no, for a node that waits for an approval.
    pub approved: Option<bool>,
    /// What comes with it: JSON.
    pub payload: Bytes,
    /// Who says it.
    pub by: String,
}

/// The work of a run goes to another worker. What is under way is finished where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebind {
    /// Which run.
    pub run: RunId,
    /// Which package, or which type where a task needs no package; `None` means all that is bound.
    pub package: Option<String>,
    /// The worker that is asked first from here on; `None` leaves it to the next grant.
    pub to: Option<WorkerId>,
    /// The worker that had it gets nothing more of this run. Otherwise it is only asked last.
    pub drain: bool,
}

/// A person's order that a worker is given nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Who gave the order.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
    /// From then on the worker is told to leave, whatever it still holds.
    pub gone_by: Option<Timestamp>,
    /// What the person said about it.
    pub reason: Option<String>,
}

/// Why a worker wants nothing new, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainCause {
    /// It finishes and leaves.
    Leaving,
    /// Its memory or its disk is almost full.
    Pressure,
}

/// Who paused a queue, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who said so.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
}

/// The leases that a heartbeat renews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// These.
    Listed(Vec<LeaseId>),
    /// The worker names none. It implies those that it has for certain. The others are doubtful: it
    /// held them when it registered or when the server started, so they may have been granted to a
    /// process that ended, or nobody knows whether the grant reached it. They are renewed only as far
    /// as the worker counts more tasks than it has for certain.
    Unlisted {
        /// How many tasks the worker says it works on; 0 where it does not say.
        n_active: usize,
    },
}

/// A worker asks for work.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// What it can do.
    pub offer: Arc<Offer>,
    /// At most so many leases.
    pub max: u32,
    /// How many leases the worker holds at most, whatever it asks for; `None` where it does not
    /// say.
    pub slots: Option<u32>,
    /// How long it waits for the first one.
    pub wait_until: Timestamp,
    /// A grant is taken back unless the worker shows within this time that it received it.
    /// `None` where the answer itself travels on a connection that is known to be alive.
    pub confirm_within: Option<Duration>,
    /// How much later than the task's timeout an attempt ends here. A worker that is told the
    /// timeout ends the work itself, and its word about that takes some time.
    pub timeout_grace: Duration,
    /// Whether a grant that does not reach the worker is noticed, as over a connection. Where it is
    /// not, a lease must be named once before it counts as worked on, see [`Renewal::Unlisted`].
    pub is_loss_noticed: bool,
}
