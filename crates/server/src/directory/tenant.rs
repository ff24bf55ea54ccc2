//! Everything that the server holds of one tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coordinator::Load;
use model::TenantId;
use parking_lot::Mutex;
use shard::ClaimedShard;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use super::Common;
use crate::events::TenantEvents;
use crate::handle::{AskError, Message, ShardHandle};
use crate::keyspace::{self, TenantKeyspace};
use crate::metrics::TenantMetrics;
use crate::resources::Catalog;
use crate::updates::Updates;

/// One tenant, from a claim of its shard until that claim is lost.
///
/// The directory's entry and the task that drives the shard own it; everyone else holds a
/// [`ShardHandle`], which does not keep it alive.
pub struct Tenant {
    id: TenantId,
    pub(crate) common: Arc<Common>,
    handle: ShardHandle,
    /// The task of the shard renews it; the keyspace commits under it too.
    claim: Mutex<ClaimedShard>,
    is_ready: AtomicBool,
    is_lost: AtomicBool,
    /// The keyspace ends: with the tenant, or with the server.
    pub(crate) keyspace_ends: CancellationToken,
    /// Restored when it is first asked for.
    keyspace: OnceCell<Arc<TenantKeyspace>>,
    /// What is told of runs, nodes and workers.
    pub(crate) events: Arc<TenantEvents>,
    /// Who listens to tasks.
    pub(crate) updates: Updates,
    /// What workers keep.
    pub(crate) resources: Catalog,
    pub(crate) metrics: TenantMetrics,
}

impl Tenant {
    pub(super) fn new(
        common: Arc<Common>,
        id: TenantId,
        claim: ClaimedShard,
    ) -> (Arc<Self>, mpsc::Receiver<Message>) {
        let floor = common.event_floors.get(id.as_str()).copied().unwrap_or(0);
        let mut receiver = None;
        let tenant = Arc::new_cyclic(|own| {
            let shutdown = common.shutdown.clone();
            let (handle, inbox) = ShardHandle::new(claim.shard, own.clone(), shutdown);
            receiver = Some(inbox);
            Self {
                handle,
                claim: Mutex::new(claim),
                is_ready: AtomicBool::new(false),
                is_lost: AtomicBool::new(false),
                keyspace_ends: common.keyspaces_stop.child_token(),
                keyspace: OnceCell::new(),
                events: Arc::new(TenantEvents::new(id.clone(), common.clock, floor)),
                updates: Updates::default(),
                resources: Catalog::default(),
                metrics: common.metrics.tenant(&id),
                id,
                common,
            }
        });
        (tenant, receiver.expect("made with the handle"))
    }

    pub(crate) fn id(&self) -> &TenantId {
        &self.id
    }

    pub(crate) fn handle(&self) -> &ShardHandle {
        &self.handle
    }

    /// The claim under which the shard is changed right now.
    pub(crate) fn claim(&self) -> ClaimedShard {
        *self.claim.lock()
    }

    /// The shard has raised its epoch.
    pub(crate) fn renew(&self, claim: ClaimedShard) {
        *self.claim.lock() = claim;
        self.events.begin_epoch(claim.epoch);
    }

    /// Whether the shard answers.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The claim is lost: everyone who waits for something of this tenant is told.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.keyspace_ends.cancel();
        self.events.end();
        self.metrics.set_load(Load::default());
    }

    /// The keys and values; restored from the store when they are first asked for.
    pub(crate) async fn keyspace(self: &Arc<Self>) -> Result<Arc<TenantKeyspace>, AskError> {
        // Who comes while it is restored waits for the same work. A failure is tried again by the
        // next one who asks.
        self.keyspace.get_or_try_init(|| keyspace::open(Arc::clone(self))).await.cloned()
    }

    /// Looks whether the claim still holds: a turn without facts is fenced too.
    pub(crate) async fn check_claim(&self) {
        // A turn that fails ends the shard, and with it the tenant.
        let _ = self.handle.report(Vec::new()).await;
    }
}
