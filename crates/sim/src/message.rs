//! What travels between clients and servers.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{Answer, NewRun, NextCall, Renewal, Signal, SilenceLimits};
use model::{NewTask, Offer, QueueName, Report, TaskId, WorkerId};

use crate::server::ShardAt;

/// Who speaks with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Worker(usize),
    Submitter(usize),
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Request(Request),
    Reply(Reply),
}

/// One call, as its caller names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) peer: Peer,
    /// The process of the peer that calls; another process never hears the answer.
    pub(crate) process: u64,
    pub(crate) number: u64,
    /// When it was sent, in true time.
    pub(crate) sent_at: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) at: ShardAt,
    pub(crate) ask: Ask,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) call: Call,
    pub(crate) told: Told,
}

/// What a client wants.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Submit(Vec<NewTask>),
    Lease(LeaseAsk),
    Heartbeat {
        worker: WorkerId,
        leases: Renewal,
    },
    Report(Vec<Report>),
    /// A report whose lease id is text that the door must read.
    ReportText(String),
    Stop(TaskId),
    Requeue(TaskId),
    Watch(TaskId, Duration),
    Explain(TaskId),
    ListWorkers,
    ListQueues,
    Peek,
    Register {
        worker: WorkerId,
        offer: Arc<Offer>,
        silence_limits: SilenceLimits,
    },
    Unregister(WorkerId),
    /// A person pauses a queue, or lets it go on.
    Pause(QueueName, bool),
    StartRun(Box<NewRun>),
    /// A person says the word that a node waits for.
    Signal(Box<Signal>),
    /// A person drains a worker for so long, or lets it take work again.
    Drain(WorkerId, Option<DrainWish>),
    /// A middleware calls the next in line.
    Next(Box<NextCall>),
}

/// How a person drains a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainWish {
    /// When it is to be gone.
    pub(crate) gone_in: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) struct LeaseAsk {
    pub(crate) worker: WorkerId,
    pub(crate) offer: Arc<Offer>,
    pub(crate) max: u32,
    pub(crate) wait: Duration,
    pub(crate) confirm_within: Option<Duration>,
}

/// What a client hears.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Answer(Answer),
    /// Nothing can be kept right now; ask again.
    Unavailable,
    /// The door could not read it.
    Malformed,
}
