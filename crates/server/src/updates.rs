//! Who wants to hear that tasks moved on, hears it here, once it is durable.

use std::collections::BTreeMap;

use model::{TenantId, WorkerId};
use parking_lot::RwLock;
use shard::projection::TaskUpdate;
use tokio::sync::broadcast;

/// Updates that a listener may be behind; one that falls back further is cut off.
pub(crate) const UPDATES_BEHIND_MAX: usize = 4_096;

/// Workers of a tenant whose timed-out jobs are counted; beyond it the least recently counted one
/// is dropped.
pub(crate) const TIMED_OUT_WORKERS_MAX: usize = 10_000;

/// The listeners of all tenants.
#[derive(Default)]
pub(crate) struct Updates {
    tenants: RwLock<BTreeMap<TenantId, broadcast::Sender<TaskUpdate>>>,
    /// How many jobs of a worker went over their time: someone should look at it (seed 004
    /// section 5.2).
    timed_out: RwLock<BTreeMap<TenantId, TimedOut>>,
}

/// How many jobs of each worker of one tenant went over their time.
#[derive(Default)]
struct TimedOut {
    /// The count, and the place in `order`.
    counts: BTreeMap<WorkerId, (u32, u64)>,
    /// The least recently counted worker first.
    order: BTreeMap<u64, WorkerId>,
    last_place: u64,
}

impl TimedOut {
    fn count(&mut self, worker: &WorkerId) {
        let count = self.forget(worker) + 1;
        if self.counts.len() >= TIMED_OUT_WORKERS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.counts.remove(&oldest);
        }
        self.last_place += 1;
        self.order.insert(self.last_place, worker.clone());
        self.counts.insert(worker.clone(), (count, self.last_place));
    }

    /// Drops a worker; gives its count.
    fn forget(&mut self, worker: &WorkerId) -> u32 {
        let Some((count, place)) = self.counts.remove(worker) else { return 0 };
        self.order.remove(&place);
        count
    }
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
            self.timed_out.write().entry(tenant.clone()).or_default().count(worker);
        }
    }

    /// How many jobs of a worker went over their time since it registered.
    pub(crate) fn timed_out(&self, tenant: &TenantId, worker: &WorkerId) -> u32 {
        let timed_out = self.timed_out.read();
        timed_out.get(tenant).and_then(|own| own.counts.get(worker)).map_or(0, |(count, _)| *count)
    }

    /// A worker begins anew.
    pub(crate) fn clear_timed_out(&self, tenant: &TenantId, worker: &WorkerId) {
        if let Some(own) = self.timed_out.write().get_mut(tenant) {
            own.forget(worker);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_counted_worker_of_the_same_tenant_is_dropped() {
        let (updates, acme, bolt) = (Updates::default(), tenant("acme"), tenant("bolt"));
        let worker = |number: usize| format!("w{number:05}").parse::<WorkerId>().expect("a name");
        let count = |tenant, number| updates.note_timed_out(tenant, &[worker(number)]);
        count(&acme, 0);
        for number in 0..TIMED_OUT_WORKERS_MAX {
            count(&bolt, number);
        }
        count(&bolt, 0);
        assert_eq!(updates.timed_out(&bolt, &worker(1)), 1, "no new worker, so none is dropped");
        count(&bolt, TIMED_OUT_WORKERS_MAX);
        let counts = [0, 1, 2, TIMED_OUT_WORKERS_MAX].map(|n| updates.timed_out(&bolt, &worker(n)));
        assert_eq!(counts, [2, 0, 1, 1], "the first was counted again since");
        assert_eq!(updates.timed_out(&acme, &worker(0)), 1, "another tenant drops nothing");
        updates.clear_timed_out(&bolt, &worker(0));
        assert_eq!(updates.timed_out(&bolt, &worker(0)), 0);
        count(&bolt, 1);
        assert_eq!(updates.timed_out(&bolt, &worker(2)), 1, "there was room");
    }

    fn tenant(name: &str) -> TenantId {
        name.parse().expect("a name")
    }
}
