//! Gives the changes of one keyspace to the store, and builds the keyspace anew after a failure.
//!
//! Whatever has gathered is given at once; while the store syncs, the next changes gather by
//! themselves. A failed commit ends the memory: everyone who waits for a change hears of it, and
//! the keyspace is restored from what is durable.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keyspace::{DamagedRow, Keyspace, Limits};
use model::Timestamp;
use shard::ClaimedShard;
use store::{CommitError, Committed, KeyspaceTurn, StoreError, StoreFuture};
use tokio::sync::SetOnce;
use tokio::time::{Instant, Sleep};

use super::memory::Gathered;
use super::tenant_keyspace::TenantKeyspace;
use crate::directory::Tenant;
use crate::handle::AskError;

/// Limit: batches of one keyspace on their way to the store; beyond this, changes gather. The store
/// merges what waits for it into one transaction.
const BATCHES_IN_FLIGHT_MAX: usize = 64;
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

/// Why a keyspace was not restored.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Damaged(#[from] DamagedRow),
}

/// Restores the keyspace of a tenant, and serves it until the tenant is lost or the server stops.
pub(crate) async fn open(tenant: Arc<Tenant>) -> Result<Arc<TenantKeyspace>, AskError> {
    if tenant.common.keyspaces_stop.is_cancelled() {
        return Err(AskError::Stopping);
    }
    let (claim, restored) = restore(&tenant).await.map_err(|error| {
        tracing::error!(tenant = %tenant.id(), %error, "cannot restore the keyspace");
        AskError::Unavailable
    })?;
    let keyspace = Arc::new(TenantKeyspace::new(tenant.common.clock, restored));
    let committers = tenant.common.committers.clone();
    committers.spawn(run(tenant, Arc::clone(&keyspace), claim));
    Ok(keyspace)
}

/// The keyspace of a tenant as it is durable, and the claim under which it is changed.
async fn restore(tenant: &Tenant) -> Result<(ClaimedShard, Keyspace), RestoreError> {
    // First the claim: whoever takes the shard over after this fences what builds on it.
    let claim = tenant.claim();
    let rows = tenant.common.store.restore_keys(claim.shard).await?;
    // A large one takes a while.
    let building = tokio::task::spawn_blocking(move || Keyspace::restore(Limits::default(), rows));
    let keyspace = building.await.expect("restoring does not panic")?;
    let keys = keyspace.len();
    tracing::info!(tenant = %tenant.id(), keys, epoch = claim.epoch, "keyspace restored");
    Ok((claim, keyspace))
}

/// Serves one keyspace until it ends, through failures of its own commits.
async fn run(tenant: Arc<Tenant>, keyspace: Arc<TenantKeyspace>, mut claim: ClaimedShard) {
    loop {
        let mut committer = Committer::new(&tenant, &keyspace, claim);
        let Err(error) = committer.serve().await else { return };
        tracing::error!(tenant = %tenant.id(), %error, "commit of keys failed; rebuilding the keyspace from the store");
        let fenced = (error == CommitError::Fenced).then_some(claim);
        tokio::select! {
            biased;
            () = tenant.keyspace_ends.cancelled() => {
                keyspace.memory.lock().end(ending(&tenant));
                return;
            }
            current = recover(&tenant, &keyspace, fenced) => claim = current,
        }
    }
}

/// Restores the keyspace as soon as the store can. Under a claim that was fenced it is of no use:
/// the shard has raised its epoch, or finds out that it has lost its claim.
async fn recover(
    tenant: &Tenant,
    keyspace: &TenantKeyspace,
    fenced: Option<ClaimedShard>,
) -> ClaimedShard {
    loop {
        if fenced == Some(tenant.claim()) {
            tenant.check_claim().await;
        } else {
            match restore(tenant).await {
                Ok((claim, restored)) => {
                    let now = keyspace.clock.now();
                    keyspace.change(|memory| memory.restore(now, restored));
                    return claim;
                }
                Err(error) => {
                    tracing::error!(tenant = %tenant.id(), %error, "cannot restore the keyspace");
                }
            }
        }
        tokio::time::sleep(RECOVERY_EVERY).await;
    }
}

/// What is said to whoever comes after the end.
fn ending(tenant: &Tenant) -> AskError {
    if tenant.is_lost() { AskError::Unavailable } else { AskError::Stopping }
}

struct Committer<'a> {
    tenant: &'a Tenant,
    keyspace: &'a TenantKeyspace,
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
    fn new(tenant: &'a Tenant, keyspace: &'a TenantKeyspace, claim: ClaimedShard) -> Self {
        Self {
            tenant,
            keyspace,
            claim,
            in_flight: VecDeque::new(),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            sweep_from: Timestamp::default(),
        }
    }

    /// Serves until the tenant is lost or the server stops, or a batch cannot be kept.
    async fn serve(&mut self) -> Result<(), CommitError> {
        loop {
            let has_room = self.in_flight.len() < BATCHES_IN_FLIGHT_MAX;
            let mut next_expiry = None;
            if has_room {
                let mut memory = self.keyspace.memory.lock();
                next_expiry = memory.next_expiry();
                let gathered = memory.hand_over();
                drop(memory);
                self.give(gathered);
            }
            self.set_alarm(next_expiry);
            tokio::select! {
                biased;
                () = self.tenant.keyspace_ends.cancelled() => {
                    self.finish().await;
                    return Ok(());
                }
                committed = next_commit(&mut self.in_flight) => self.release(committed)?,
                () = self.keyspace.gathered.notified(), if has_room => {}
                () = self.alarm.as_mut(), if next_expiry.is_some() => self.sweep(),
            }
        }
    }

    /// Queues a batch at the store, if there is one.
    fn give(&mut self, gathered: Option<Gathered>) {
        let Some(Gathered { writes, bytes, batch }) = gathered else { return };
        let commit =
            self.tenant.common.store.commit_keys(KeyspaceTurn { claim: self.claim, writes });
        self.in_flight.push_back(Pending { commit, batch, bytes });
    }

    /// The oldest batch is durable: answers that saw it may leave. Or it is lost, and all after it.
    fn release(
        &mut self,
        (committed, oldest): (Result<Committed, CommitError>, Pending),
    ) -> Result<(), CommitError> {
        match committed {
            Ok(_) => {
                self.keyspace.memory.lock().kept(oldest.bytes);
                oldest.batch.settle(true);
                Ok(())
            }
            Err(error) => {
                let later = self.in_flight.drain(..).map(|pending| pending.batch);
                self.keyspace.memory.lock().lose(std::iter::once(oldest.batch).chain(later));
                Err(error)
            }
        }
    }

    fn sweep(&mut self) {
        let now = self.keyspace.clock.now();
        let goes_on = self.keyspace.memory.lock().sweep(now, KEYS_PER_SWEEP);
        self.sweep_from = now.after(if goes_on { SWEEP_ON_AFTER } else { SWEEP_EVERY });
    }

    fn set_alarm(&mut self, next_expiry: Option<Timestamp>) {
        let Some(expiry) = next_expiry else { return };
        let at: Instant = self.keyspace.clock.instant_of(expiry.max(self.sweep_from));
        if self.alarm.deadline() != at {
            self.alarm.as_mut().reset(at);
        }
    }

    /// Nothing new begins. What has gathered becomes durable, unless the claim is lost.
    async fn finish(&mut self) {
        let gathered = self.keyspace.memory.lock().end(ending(self.tenant));
        if self.tenant.is_lost() {
            let given = self.in_flight.drain(..).map(|pending| pending.batch);
            given.chain(gathered.map(|own| own.batch)).for_each(|batch| batch.settle(false));
            return;
        }
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
            let tenant = self.tenant.id();
            tracing::warn!(%tenant, "stopped before the last keys were durable");
            self.in_flight.drain(..).for_each(|pending| pending.batch.settle(false));
        }
    }
}

/// Waits for the oldest batch; for ever when there is none.
async fn next_commit(
    in_flight: &mut VecDeque<Pending>,
) -> (Result<Committed, CommitError>, Pending) {
    let Some(oldest) = in_flight.front_mut() else { return std::future::pending().await };
    let committed = (&mut oldest.commit).await;
    let pending = in_flight.pop_front().expect("it was there");
    (committed, pending)
}

/// Changes that become durable together. Batches of one keyspace are kept in order: when one is,
/// so are all before it; when one is lost, so are all after it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    is_kept: SetOnce<bool>,
}

impl Batch {
    /// Tells everyone who waits whether it is durable.
    pub(super) fn settle(&self, is_kept: bool) {
        self.is_kept.set(is_kept).expect("a batch is settled once");
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_kept.initialized()
    }
}

/// The last change that an answer may have seen. The answer is true once that is durable.
#[derive(Clone, Debug, Default)]
pub struct CommitPoint {
    batch: Option<Arc<Batch>>,
}

impl CommitPoint {
    pub(super) fn of(batch: Option<Arc<Batch>>) -> Self {
        Self { batch }
    }

    /// Whether there is nothing to wait for.
    pub fn is_durable(&self) -> bool {
        self.batch.as_ref().is_none_or(|batch| batch.is_kept.get() == Some(&true))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.is_kept.get() == Some(&false))
    }

    /// Waits until everything up to here is durable. An error means that the answers must not
    /// leave: what they say is lost, or may be.
    pub async fn durable(&self) -> Result<(), AskError> {
        match &self.batch {
            None => Ok(()),
            Some(batch) if *batch.is_kept.wait().await => Ok(()),
            Some(_) => Err(AskError::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_point_is_durable_when_its_batch_is() {
        assert!(CommitPoint::default().is_durable());
        let batch = Arc::new(Batch::default());
        let point = CommitPoint::of(Some(Arc::clone(&batch)));
        assert!(!point.is_durable());
        let waiting = tokio::spawn({
            let point = point.clone();
            async move { point.durable().await }
        });
        tokio::task::yield_now().await;
        batch.settle(true);
        assert_eq!(waiting.await.expect("ends"), Ok(()));
        assert!(point.is_durable());
        assert_eq!(point.durable().await, Ok(()));
    }

    #[tokio::test]
    async fn a_lost_commit_point_stays_lost() {
        let batch = Arc::new(Batch::default());
        let point = CommitPoint::of(Some(Arc::clone(&batch)));
        batch.settle(false);
        assert!(point.is_lost() && !point.is_durable());
        assert_eq!(point.durable().await, Err(AskError::Unavailable));
    }
}
