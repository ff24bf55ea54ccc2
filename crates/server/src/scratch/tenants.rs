//! The keyspaces of all tenants: restored when a tenant first uses its own, then kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::Limits;
use model::TenantId;
use parking_lot::Mutex;
use store::Store;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::committer::{self, Parts};
use super::tenant::TenantScratch;
use crate::clock::Clock;
use crate::handle::AskError;
use crate::shards::Shards;

/// Keys and values of one tenant, with what it costs to keep them, in bytes.
pub const SCRATCH_BYTES_MAX: usize = 256 << 20;
/// Keys of one tenant.
pub const SCRATCH_KEYS_MAX: usize = 1_000_000;
/// One value, or one name, in bytes.
pub const SCRATCH_VALUE_BYTES_MAX: usize = 8 << 20;
/// Elements of one list, hash or set.
pub const SCRATCH_ELEMENTS_MAX: usize = 1_000_000;

type Cell = Arc<OnceCell<Arc<TenantScratch>>>;

/// The keyspaces of all tenants.
pub struct Scratch {
    parts: Parts,
    clock: Clock,
    tenants: Mutex<BTreeMap<TenantId, Cell>>,
    committers: TaskTracker,
}

impl Scratch {
    pub(crate) fn new(store: Arc<dyn Store>, shards: Shards, clock: Clock) -> Self {
        let limits = Limits {
            bytes_max: SCRATCH_BYTES_MAX,
            keys_max: SCRATCH_KEYS_MAX,
            value_bytes_max: SCRATCH_VALUE_BYTES_MAX,
            elements_max: SCRATCH_ELEMENTS_MAX,
            ..Limits::default()
        };
        let stopping = CancellationToken::new();
        Self {
            parts: Parts { store, shards, limits, stopping },
            clock,
            tenants: Mutex::default(),
            committers: TaskTracker::new(),
        }
    }

    /// The keyspace of one tenant; restored from the store when it is first asked for.
    pub async fn of(&self, tenant: &TenantId) -> Result<Arc<TenantScratch>, AskError> {
        let cell = Arc::clone(self.tenants.lock().entry(tenant.clone()).or_default());
        // Who comes while it is restored waits for the same work. A failure is tried again by the
        // next one who asks.
        cell.get_or_try_init(|| self.open(tenant)).await.cloned()
    }

    async fn open(&self, tenant: &TenantId) -> Result<Arc<TenantScratch>, AskError> {
        if self.parts.stopping.is_cancelled() {
            return Err(AskError::Stopping);
        }
        let (claim, keyspace) = self.parts.restore(tenant).await.map_err(|error| {
            tracing::error!(%tenant, %error, "cannot restore the keyspace");
            AskError::Unavailable
        })?;
        let scratch = Arc::new(TenantScratch::new(tenant.clone(), self.clock, keyspace));
        let committer = committer::run(self.parts.clone(), Arc::clone(&scratch), claim);
        self.committers.spawn(committer);
        Ok(scratch)
    }

    /// Every keyspace that is open.
    pub fn open_ones(&self) -> Vec<(TenantId, Arc<TenantScratch>)> {
        let tenants = self.tenants.lock();
        let open = tenants.iter().filter_map(|(tenant, cell)| Some((tenant, cell.get()?)));
        open.map(|(tenant, scratch)| (tenant.clone(), Arc::clone(scratch))).collect()
    }

    /// Makes everything durable and takes no further command. Comes after the doors have closed:
    /// a connection that ends may give an element back.
    pub async fn stop(&self) {
        self.parts.stopping.cancel();
        self.committers.close();
        self.committers.wait().await;
    }
}
