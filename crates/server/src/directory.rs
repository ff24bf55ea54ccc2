//! Which tenants this server owns. It is the only place that claims shards.
//!
//! ```text
//!             claimed                commit failed
//!   unknown ----------> [ serving ] --------------> [ recovering ] -- claimed again --> serving
//!      ^                     | fenced
//!      +---------------------+
//! ```
//!
//! Whatever ends a shard ends everything that the server holds of its tenant ([`Tenant`]). Where the
//! store was away, the directory claims the shard again by itself: nobody else may want it. Where
//! another server has claimed it, the directory does so only when somebody asks this server for the
//! tenant: two servers on one store would otherwise take it from each other for ever.

mod tenant;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::TenantId;
use parking_lot::RwLock;
use shard::ClaimedShard;
use store::{Store, StoreError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::tenant::Tenant;
use crate::clock::Clock;
use crate::handle::{AskError, Message, ShardHandle};
use crate::metrics::Metrics;
use crate::runs::programs::Programs;
use crate::shard_task::{self, Ended};

/// The pause between two tries to get a store back.
const RECOVERY_EVERY: Duration = Duration::from_millis(500);

/// The tenants of this server. Cheap to clone.
#[derive(Clone)]
pub struct Directory {
    inner: Arc<Inner>,
}

/// What belongs to no tenant and what all of them need.
pub(crate) struct Common {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// Compiles what schedules start.
    pub(crate) programs: Arc<Programs>,
    /// See [`crate::events::floors`].
    pub(crate) event_floors: BTreeMap<String, u64>,
    pub(crate) shutdown: CancellationToken,
    /// Keyspaces take no further command. It comes after the doors have closed: a connection that
    /// ends may give an element back.
    pub(crate) keyspaces_stop: CancellationToken,
    /// The tasks that commit the changes of keyspaces.
    pub(crate) committers: TaskTracker,
}

struct Inner {
    common: Arc<Common>,
    /// The tasks that own shards.
    owners: TaskTracker,
    entries: RwLock<BTreeMap<TenantId, Entry>>,
    /// Held while a shard is claimed for somebody who asks, so that two first requests claim it
    /// once.
    claiming: tokio::sync::Mutex<()>,
}

/// One tenant that this server owns, or is about to own again.
struct Entry {
    /// Refuses everything while the tenant is recovering.
    handle: ShardHandle,
    /// `None` while the tenant is recovering.
    tenant: Option<Arc<Tenant>>,
}

impl Directory {
    pub(crate) fn new(common: Common) -> Self {
        let inner = Inner {
            common: Arc::new(common),
            owners: TaskTracker::new(),
            entries: RwLock::default(),
            claiming: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The way to a tenant. Its shard is claimed if this server does not own it.
    pub async fn of(&self, tenant: &TenantId) -> Result<ShardHandle, AskError> {
        if let Some(handle) = self.find(tenant) {
            return Ok(handle);
        }
        let _claiming = self.inner.claiming.lock().await;
        if let Some(handle) = self.find(tenant) {
            return Ok(handle);
        }
        if self.inner.common.shutdown.is_cancelled() {
            return Err(AskError::Stopping);
        }
        let claim = self.inner.claim(tenant).await.map_err(|_| AskError::Unavailable)?;
        Ok(Arc::clone(&self.inner).begin(tenant, claim))
    }

    /// The way to a tenant that this server owns, or is about to own again. Never claims.
    pub fn find(&self, tenant: &TenantId) -> Option<ShardHandle> {
        self.inner.entries.read().get(tenant).map(|entry| entry.handle.clone())
    }

    /// Whether every tenant of this server is served.
    pub fn all_ready(&self) -> bool {
        let entries = self.inner.entries.read();
        entries.values().all(|entry| entry.tenant.as_ref().is_some_and(|own| own.is_ready()))
    }

    /// Makes everything durable and waits until every task has come to its end. Comes after the
    /// doors have closed. May be called twice.
    pub async fn stop(&self) {
        let Inner { common, owners, .. } = &*self.inner;
        common.keyspaces_stop.cancel();
        common.committers.close();
        common.committers.wait().await;
        common.shutdown.cancel();
        owners.close();
        owners.wait().await;
    }
}

impl Inner {
    async fn claim(&self, tenant: &TenantId) -> Result<ClaimedShard, StoreError> {
        let claimed = self.common.store.claim(tenant.clone()).await;
        claimed.inspect_err(|error| tracing::error!(%tenant, %error, "cannot claim the shard"))
    }

    /// Enters a tenant whose shard was claimed.
    fn begin(self: Arc<Self>, id: &TenantId, claim: ClaimedShard) -> ShardHandle {
        let (tenant, inbox) = Tenant::new(Arc::clone(&self.common), id.clone(), claim);
        let handle = tenant.handle().clone();
        let entry = Entry { handle: handle.clone(), tenant: Some(Arc::clone(&tenant)) };
        self.entries.write().insert(id.clone(), entry);
        let owners = self.owners.clone();
        owners.spawn(self.own(tenant, inbox));
        handle
    }

    /// Serves a tenant until its shard is lost, and drops it as a whole.
    async fn own(self: Arc<Self>, tenant: Arc<Tenant>, mut inbox: mpsc::Receiver<Message>) {
        let id = tenant.id().clone();
        let ended = shard_task::run(&tenant, &mut inbox).await;
        match &ended {
            // The keyspace still takes back what connections that end were given.
            Ended::Stopped => return,
            Ended::Fenced => {
                self.entries.write().remove(&id);
                tracing::warn!(tenant = %id, "another server claimed the shard; tenant dropped");
            }
            Ended::Unavailable(error) => {
                self.forget(&id);
                tracing::error!(tenant = %id, %error, "store failed; recovering the tenant");
            }
            Ended::Contradiction(assertion) => {
                self.forget(&id);
                self.common.metrics.count_failed_assertion();
                tracing::error!(
                    tenant = %id, assertion,
                    "assertion failed; rebuilding the tenant from the store"
                );
            }
        }
        tenant.lose();
        drop((tenant, inbox));
        if let Ended::Unavailable(_) | Ended::Contradiction(_) = ended {
            self.recover(id).await;
        }
    }

    /// The tenant is recovering.
    fn forget(&self, tenant: &TenantId) {
        if let Some(entry) = self.entries.write().get_mut(tenant) {
            entry.tenant = None;
        }
    }

    /// Claims a shard again as soon as the store can, unless the server stops before.
    async fn recover(self: Arc<Self>, tenant: TenantId) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(RECOVERY_EVERY) => {}
                () = self.common.shutdown.cancelled() => return,
            }
            if let Ok(claim) = self.claim(&tenant).await {
                self.begin(&tenant, claim);
                return;
            }
        }
    }
}
