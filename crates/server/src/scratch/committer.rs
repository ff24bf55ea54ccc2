//! Gives the changes of one keyspace to the store, and builds the keyspace anew after a failure.
//!
//! Whatever has gathered is given at once; while the store syncs, the next changes gather by
//! themselves. A failed commit ends the memory: everyone who waits for a change hears of it, and
//! the keyspace is restored from what is durable.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keyspace::{DamagedRow, Keyspace, Limits};
use model::{TenantId, Timestamp};
use shard::ClaimedShard;
use store::{CommitError, Committed, ScratchTurn, Store, StoreError, StoreFuture};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::batch::Batch;
use super::memory::Gathered;
use super::tenant::TenantScratch;
use crate::handle::AskError;
use crate::shards::Shards;

/// Batches of one keyspace on their way to the store; beyond this, changes gather. The store
/// merges what waits for it into one transaction.
pub const SCRATCH_BATCHES_IN_FLIGHT_MAX: usize = 64;
/// Keys that one sweep removes, so that commands do not wait long for the lock.
const KEYS_PER_SWEEP: usize = 256;
/// The pause between two sweeps of keys that have ended. Nobody sees such a key meanwhile.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// The same when one sweep was not enough.
const SWEEP_ON_AFTER: Duration = Duration::from_millis(5);
/// The pause between two tries to get a keyspace back.
const RECOVERY_EVERY: Duration = Duration::from_millis(500);
/// How long a stopping keyspace waits for its last commits.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// What keyspaces need from the server.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn Store>,
    pub(super) shards: Shards,
    pub(super) limits: Limits,
    pub(super) stopping: CancellationToken,
}

/// Why a keyspace was not restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreError {
    #[error(transparent)]
    Claim(#[from] AskError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Damaged(#[from] DamagedRow),
}

impl Parts {
    /// The keyspace of a tenant as it is durable, and the claim under which it is changed.
    pub(super) async fn restore(
        &self,
        tenant: &TenantId,
    ) -> Result<(ClaimedShard, Keyspace), RestoreError> {
        // First the claim: whoever takes the shard over after this fences what builds on it.
        let claim = self.shards.claim_of(tenant).await?;
        let rows = self.store.restore_scratch(claim.shard).await?;
        let limits = self.limits;
        // A large one takes a while.
        let building = tokio::task::spawn_blocking(move || Keyspace::restore(limits, rows));
        let keyspace = building.await.expect("restoring does not panic")?;
        tracing::info!(%tenant, keys = keyspace.len(), epoch = claim.epoch, "keyspace restored");
        Ok((claim, keyspace))
    }
}

/// Serves one keyspace until the server stops, through every failure of its store.
pub(super) async fn run(parts: Parts, scratch: Arc<TenantScratch>, mut claim: ClaimedShard) {
    loop {
        let mut committer = Committer::new(&parts, &scratch, claim);
        match committer.serve().await {
            Ended::Stopped => return,
            Ended::Failed(error) => {
                let tenant = &scratch.tenant;
                tracing::error!(%tenant, %error, "changes of keys are lost; starting over");
            }
        }
        match recover(&parts, &scratch).await {
            Some(current) => claim = current,
            None => return,
        }
    }
}

/// Restores the keyspace as soon as the store can; `None` when the server stops before.
async fn recover(parts: &Parts, scratch: &TenantScratch) -> Option<ClaimedShard> {
    loop {
        match parts.restore(&scratch.tenant).await {
            Ok((claim, keyspace)) => {
                let now = scratch.clock.now();
                scratch.change(|memory| memory.restore(now, keyspace));
                return Some(claim);
            }
            Err(error) => {
                tracing::error!(tenant = %scratch.tenant, %error, "cannot restore the keyspace");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RECOVERY_EVERY) => {}
            () = parts.stopping.cancelled() => {
                scratch.memory.lock().stop();
                return None;
            }
        }
    }
}

/// Why a keyspace's memory came to its end.
enum Ended {
    /// The server stops.
    Stopped,
    /// A batch could not be kept.
    Failed(CommitError),
}

struct Committer<'a> {
    parts: &'a Parts,
    scratch: &'a TenantScratch,
    claim: ClaimedShard,
    /// Oldest first.
    in_flight: VecDeque<Pending>,
    alarm: Pin<Box<Sleep>>,
    /// When keys may be swept again.
    sweep_from: Timestamp,
}

struct Pending {
    commit: StoreFuture<Result<Committed, CommitError>>,
    batch: Arc<Batch>,
    bytes: usize,
}

impl<'a> Committer<'a> {
    fn new(parts: &'a Parts, scratch: &'a TenantScratch, claim: ClaimedShard) -> Self {
        Self {
            parts,
            scratch,
            claim,
            in_flight: VecDeque::new(),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sweep_from: Timestamp::default(),
        }
    }

    async fn serve(&mut self) -> Ended {
        loop {
            let has_room = self.in_flight.len() < SCRATCH_BATCHES_IN_FLIGHT_MAX;
            let mut next_expiry = None;
            if has_room {
                let mut memory = self.scratch.memory.lock();
                next_expiry = memory.next_expiry();
                let gathered = memory.hand_over();
                drop(memory);
                self.give(gathered);
            }
            self.set_alarm(next_expiry);
            tokio::select! {
                biased;
                () = self.parts.stopping.cancelled() => return self.finish().await,
                committed = next_commit(&mut self.in_flight) => {
                    if let Err(error) = self.release(committed) {
                        return Ended::Failed(error);
                    }
                }
                () = self.scratch.gathered.notified(), if has_room => {}
                () = self.alarm.as_mut(), if next_expiry.is_some() => self.sweep(),
            }
        }
    }

    /// Queues a batch at the store, if there is one.
    fn give(&mut self, gathered: Option<Gathered>) {
        let Some(Gathered { writes, bytes, batch }) = gathered else { return };
        let commit = self.parts.store.commit_scratch(ScratchTurn { claim: self.claim, writes });
        self.in_flight.push_back(Pending { commit, batch, bytes });
    }

    /// The oldest batch is durable: answers that saw it may leave. Or it is lost, and all after it.
    fn release(
        &mut self,
        (committed, oldest): (Result<Committed, CommitError>, Pending),
    ) -> Result<(), CommitError> {
        match committed {
            Ok(_) => {
                self.scratch.memory.lock().kept(oldest.bytes);
                oldest.batch.settle(true);
                Ok(())
            }
            Err(error) => {
                let later = self.in_flight.drain(..).map(|pending| pending.batch);
                self.scratch.memory.lock().lose(std::iter::once(oldest.batch).chain(later));
                Err(error)
            }
        }
    }

    fn sweep(&mut self) {
        let now = self.scratch.clock.now();
        let goes_on = self.scratch.memory.lock().sweep(now, KEYS_PER_SWEEP);
        self.sweep_from = now.after(if goes_on { SWEEP_ON_AFTER } else { SWEEP_EVERY });
    }

    fn set_alarm(&mut self, next_expiry: Option<Timestamp>) {
        let Some(expiry) = next_expiry else { return };
        let at: Instant = self.scratch.clock.instant_of(expiry.max(self.sweep_from));
        if self.alarm.deadline() != at {
            self.alarm.as_mut().reset(at);
        }
    }

    /// The server stops: what has gathered becomes durable, nothing new begins.
    async fn finish(&mut self) -> Ended {
        let gathered = self.scratch.memory.lock().stop();
        self.give(gathered);
        let all = async {
            while !self.in_flight.is_empty() {
                let committed = next_commit(&mut self.in_flight).await;
                if self.release(committed).is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            let tenant = &self.scratch.tenant;
            tracing::warn!(%tenant, "stopped before the last keys were durable");
            self.in_flight.drain(..).for_each(|pending| pending.batch.settle(false));
        }
        Ended::Stopped
    }
}

/// Waits for the oldest batch; for ever when there is none.
async fn next_commit(
    in_flight: &mut VecDeque<Pending>,
) -> (Result<Committed, CommitError>, Pending) {
    let Some(oldest) = in_flight.front_mut() else { return std::future::pending().await };
    let committed = poll_fn(|context| oldest.commit.as_mut().poll(context)).await;
    let pending = in_flight.pop_front().expect("it was there");
    (committed, pending)
}
