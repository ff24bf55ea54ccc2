//! Who wants to hear that tasks moved on, hears it here, once it is durable.

use std::collections::BTreeMap;

use model::{TenantId, WorkerId};
use parking_lot::RwLock;
use shard::projection::TaskUpdate;
use tokio::sync::broadcast;

/// Updates that a listener may be behind; one that falls back further is cut off.
pub(crate) const UPDATES_BEHIND_MAX: usize = 4_096;

/// Workers whose jobs went over their time that are remembered.
const SUSPECTS_MAX: usize = 10_000;

/// The listeners of all tenants.
#[derive(Default)]
pub(crate) struct Updates {
    tenants: RwLock<BTreeMap<TenantId, broadcast::Sender<TaskUpdate>>>,
    /// How many jobs of a worker went over their time: someone should look at it (seed 004
    /// section 5.2).
    timed_out: RwLock<BTreeMap<(TenantId, WorkerId), u32>>,
}

impl Updates {
    /// Hears of every task of a tenant from here on.
    pub(crate) fn listen(&self, tenant: &TenantId) -> broadcast::Receiver<TaskUpdate> {
        let mut tenants = self.tenants.write();
        let sender = tenants
            .entry(tenant.clone())
            .or_insert_with(|| broadcast::channel(UPDATES_BEHIND_MAX).0);
        sender.subscribe()
    }

    /// Whether anybody listens; if not, nobody needs to put updates together.
    pub(crate) fn has_listeners(&self, tenant: &TenantId) -> bool {
        let tenants = self.tenants.read();
        tenants.get(tenant).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Remembers whose jobs went over their time.
    pub(crate) fn note_timed_out(&self, tenant: &TenantId, workers: &[WorkerId]) {
        for worker in workers {
            tracing::warn!(%tenant, %worker, "a job went over its time; the worker may hang");
            let mut timed_out = self.timed_out.write();
            if timed_out.len() >= SUSPECTS_MAX {
                timed_out.pop_first();
            }
            *timed_out.entry((tenant.clone(), worker.clone())).or_default() += 1;
        }
    }

    /// How many jobs of a worker went over their time since it registered.
    pub(crate) fn timed_out(&self, tenant: &TenantId, worker: &WorkerId) -> u32 {
        let key = (tenant.clone(), worker.clone());
        self.timed_out.read().get(&key).copied().unwrap_or_default()
    }

    /// A worker begins anew.
    pub(crate) fn clear_timed_out(&self, tenant: &TenantId, worker: &WorkerId) {
        self.timed_out.write().remove(&(tenant.clone(), worker.clone()));
    }

    /// Tells everyone who listens.
    pub(crate) fn tell(&self, tenant: &TenantId, updates: Vec<TaskUpdate>) {
        let tenants = self.tenants.read();
        let Some(sender) = tenants.get(tenant) else { return };
        for update in updates {
            // Nobody may be left; then nobody missed it.
            let _ = sender.send(update);
        }
    }
}
