//! What happens when: one ordered list of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coordinator::{LoadKey, LoadTicket, PrepareTicket, ScheduleId};
use model::Timestamp;
use shard::sessions::LinkId;

use crate::faults::Fault;
use crate::message::Wire;
use crate::server::ShardAt;
use crate::session::{Direction, Sent, SessionTimer};
use crate::submitter::SubmitterTimer;
use crate::worker::WorkerTimer;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message reaches its end of the wire.
    Deliver(Box<Wire>),
    /// A server takes up what is in the inbox of a tenant.
    ServerTurn { at: ShardAt },
    /// A tenant's alarm rings on a server.
    ServerTick { at: ShardAt, alarm: u64 },
    /// A server's process claims the shard of a tenant and reads it.
    ServerStart { at: ShardAt },
    /// A transaction reaches the point at which it is durable or not.
    StoreApplies { transaction: u64 },
    /// The store says how the turns of a transaction ended.
    StoreReplies { transaction: u64 },
    /// A read that a server asked for is done.
    LoadDone { at: ShardAt, life: u64, load: LoadTicket, keys: Vec<LoadKey> },
    /// The run of a schedule's moment is compiled.
    Prepared { at: ShardAt, life: u64, prepare: PrepareTicket, moment: (ScheduleId, Timestamp) },
    /// Something reaches its end of a worker's connection.
    Frame { line: LinkId, direction: Direction, sent: Box<Sent> },
    /// A server hears that a connection is gone.
    LinkGone { server: usize, link: LinkId },
    /// A connection's alarm rings on its server.
    LinkTick { server: usize, link: LinkId, alarm: u64 },
    /// A connection whose shard was rebuilt asks for its place again.
    LinkAttaches { server: usize, link: LinkId },
    /// A session worker's timer.
    SessionWorker { worker: usize, process: u64, timer: SessionTimer },
    /// A worker's timer.
    Worker { worker: usize, process: u64, timer: WorkerTimer },
    /// A submitter's timer.
    Submitter { submitter: usize, timer: SubmitterTimer },
    /// A planned fault strikes.
    Fault(Fault),
    /// No more faults: from here on everything must come to its end.
    FaultsEnd,
}

/// Events by time; those of one moment in the order in which they were planned.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, number: self.planned, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
