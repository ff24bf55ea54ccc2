//! What the writer thread is asked to do, in order.

use std::mem;
use std::time::Duration;

use model::{ShardId, TenantId};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::contract::{CommitError, Committed, Note, ScratchTurn, StoreError, TokenRow};
use shard::{ClaimedShard, Turn};

/// One thing to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Keep a turn.
    Commit(PendingTurn),
    /// Keep a turn of a scratch keyspace.
    CommitScratch(PendingScratch),
    /// A scratch keyspace begins anew from what is durable: forget its failed turn.
    ScratchRestored(ShardId, Reply<()>),
    /// Take a shard over.
    Claim(TenantId, Reply<Result<ClaimedShard, StoreError>>),
    /// Raise the epoch of a shard that is owned.
    RaiseEpoch(ClaimedShard, Reply<Result<ClaimedShard, CommitError>>),
    /// Keep a token.
    PutToken(Box<TokenRow>, Reply<Result<(), StoreError>>),
    /// Keep a small document.
    PutNote(PendingNote),
    /// Write and sync something.
    Probe(Reply<Result<(), StoreError>>),
    /// The background checkpoint is over.
    CheckpointEnded,
    /// Let the database grow to so many pages and no further; for tests of a full disk.
    LimitPages(u32),
    /// Do what was asked before this, then end.
    Stop,
}

/// A turn, and who waits for it.
#[derive(Debug)]
pub(super) struct PendingTurn {
    pub turn: Turn,
    pub reply: Reply<Result<Committed, CommitError>>,
}

/// A turn of a scratch keyspace, and who waits for it.
#[derive(Debug)]
pub(super) struct PendingScratch {
    pub turn: ScratchTurn,
    pub reply: Reply<Result<Committed, CommitError>>,
}

/// A document, and who waits for it.
#[derive(Debug)]
pub(super) struct PendingNote {
    pub note: Note,
    pub reply: Reply<Result<(), StoreError>>,
}

/// Whoever asked may have gone; then nobody hears the answer.
pub(super) type Reply<T> = oneshot::Sender<T>;

/// Filled from any thread, emptied by the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    is_closed: bool,
    /// Whether someone writes: the writer thread, or a caller that commits on its own thread.
    is_busy: bool,
}

impl Queue {
    /// A job for a closed queue is dropped, and its asker hears that the writer is gone.
    pub(super) fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        waiting.jobs.push(job);
        // Whoever made the queue non-empty wakes the writer; it takes everything at once.
        if waiting.jobs.len() == 1 {
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// Takes everything that waits, and the right to write until [`Queue::release`]. Sleeps until
    /// there is something, at most for `patience`; an empty answer means that nothing came.
    pub(super) fn take_all(&self, into: &mut Vec<Job>, patience: Option<Duration>) {
        let mut waiting = self.waiting.lock();
        let mut is_patient = true;
        while waiting.is_busy || waiting.jobs.is_empty() && is_patient {
            match patience {
                None => self.arrived.wait(&mut waiting),
                Some(patience) => {
                    is_patient &= !self.arrived.wait_for(&mut waiting, patience).timed_out();
                }
            }
        }
        waiting.is_busy = true;
        mem::swap(&mut waiting.jobs, into);
    }

    /// Takes the right to write for a caller, if nobody writes and nothing waits.
    pub(super) fn try_take(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_free = !waiting.is_busy && waiting.jobs.is_empty() && !waiting.is_closed;
        waiting.is_busy |= is_free;
        is_free
    }

    /// Gives the right to write back; what came in the meantime wakes the writer.
    pub(super) fn release(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_busy = false;
        if !waiting.jobs.is_empty() {
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// Nobody takes jobs any more: those that wait are dropped.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.jobs.clear();
    }
}
