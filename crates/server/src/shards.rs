//! The coordinators of all tenants: started when a tenant is first heard of, then kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::TenantId;
use parking_lot::{Mutex, RwLock};
use shard::ClaimedShard;
use store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::events::Events;
use crate::handle::{AskError, CoordinatorHandle};
use crate::metrics::Metrics;
use crate::runs::programs::Programs;
use crate::shard_task::{self, TaskParts};
use crate::updates::Updates;

/// The coordinators of all tenants. Cheap to clone.
#[derive(Clone)]
pub struct Shards {
    inner: Arc<Inner>,
}

/// What all shards share.
pub(crate) struct Common {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) updates: Arc<Updates>,
    pub(crate) events: Arc<Events>,
    pub(crate) programs: Arc<Programs>,
    pub(crate) shutdown: CancellationToken,
}

struct Inner {
    common: Common,
    loops: TaskTracker,
    open: RwLock<BTreeMap<TenantId, OpenShard>>,
    /// Held while a shard is opened, so that two first requests claim it once.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct OpenShard {
    handle: CoordinatorHandle,
    is_ready: Arc<AtomicBool>,
    claim: CurrentClaim,
}

/// The newest claim of a shard. Its coordinator makes it; the shard's scratch keyspace commits
/// under it too.
#[derive(Clone)]
pub(crate) struct CurrentClaim(Arc<Mutex<ClaimedShard>>);

impl CurrentClaim {
    fn new(claim: ClaimedShard) -> Self {
        Self(Arc::new(Mutex::new(claim)))
    }

    pub(crate) fn set(&self, claim: ClaimedShard) {
        *self.0.lock() = claim;
    }
}

impl Shards {
    pub(crate) fn new(common: Common) -> Self {
        let inner = Inner {
            common,
            loops: TaskTracker::new(),
            open: RwLock::default(),
            opening: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The coordinator of one tenant.
    pub async fn of(&self, tenant: &TenantId) -> Result<CoordinatorHandle, AskError> {
        if let Some(shard) = self.inner.open.read().get(tenant) {
            return Ok(shard.handle.clone());
        }
        self.open(tenant).await
    }

    /// The claim under which one tenant's shard is changed right now.
    pub(crate) async fn claim_of(&self, tenant: &TenantId) -> Result<ClaimedShard, AskError> {
        self.of(tenant).await?;
        let open = self.inner.open.read();
        let shard = open.get(tenant).expect("a shard that was opened stays");
        Ok(*shard.claim.0.lock())
    }

    async fn open(&self, tenant: &TenantId) -> Result<CoordinatorHandle, AskError> {
        let _opening = self.inner.opening.lock().await;
        if let Some(shard) = self.inner.open.read().get(tenant) {
            return Ok(shard.handle.clone());
        }
        let common = &self.inner.common;
        if common.shutdown.is_cancelled() {
            return Err(AskError::Stopping);
        }
        let claim = common.store.claim(tenant.clone()).await.map_err(|error| {
            tracing::error!(%tenant, %error, "cannot claim the shard");
            AskError::Unavailable
        })?;
        let (handle, inbox) = CoordinatorHandle::new(claim.shard);
        let is_ready = Arc::new(AtomicBool::new(false));
        let current = CurrentClaim::new(claim);
        let parts = TaskParts {
            tenant: tenant.clone(),
            store: Arc::clone(&common.store),
            clock: common.clock,
            metrics: Arc::clone(&common.metrics),
            updates: Arc::clone(&common.updates),
            events: Arc::clone(&common.events),
            programs: Arc::clone(&common.programs),
            workers: Arc::clone(handle.workers()),
            is_ready: Arc::clone(&is_ready),
            claim: current.clone(),
            shutdown: common.shutdown.clone(),
        };
        self.inner.loops.spawn(shard_task::run(parts, Some(claim), inbox));
        let shard = OpenShard { handle: handle.clone(), is_ready, claim: current };
        self.inner.open.write().insert(tenant.clone(), shard);
        Ok(handle)
    }

    /// Whether every shard answers.
    pub fn all_ready(&self) -> bool {
        let open = self.inner.open.read();
        open.values().all(|shard| shard.is_ready.load(Ordering::Acquire))
    }

    /// Waits until every loop has come to its end.
    pub(crate) async fn stopped(&self) {
        self.inner.loops.close();
        self.inner.loops.wait().await;
    }
}
