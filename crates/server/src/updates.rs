//! Who wants to hear that tasks moved on, hears it here, once it is durable.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use model::WorkerId;
use parking_lot::Mutex;
use shard::projection::{LogLine, TaskUpdate};
use tokio::sync::broadcast;

/// Limit: updates that a listener may be behind; one that falls back further is cut off.
const UPDATES_BEHIND_MAX: usize = 4_096;

/// Limit: workers of a tenant whose timed-out jobs are counted; beyond it the least recently
/// counted one is dropped.
const TIMED_OUT_WORKERS_MAX: usize = 10_000;

/// The listeners of one tenant.
#[derive(Default)]
pub(crate) struct Updates {
    /// Made for the first listener: it is large, and most tenants have none.
    listeners: OnceLock<broadcast::Sender<TaskUpdate>>,
    timed_out: Mutex<TimedOut>,
}

/// How many jobs of each worker went over their time: someone should look at it (seed 004 section
/// 5.2).
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
    /// Hears of every task from here on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<TaskUpdate> {
        self.listeners.get_or_init(|| broadcast::channel(UPDATES_BEHIND_MAX).0).subscribe()
    }

    /// Whether anybody listens; if not, nobody needs to put updates together.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.get().is_some_and(|listeners| listeners.receiver_count() > 0)
    }

    /// Remembers whose jobs went over their time.
    pub(crate) fn observe(&self, line: &LogLine) {
        if let LogLine::JobTimedOut { worker } = line {
            self.timed_out.lock().count(worker);
        }
    }

    /// How many jobs of a worker went over their time since it registered.
    pub(crate) fn timed_out(&self, worker: &WorkerId) -> u32 {
        self.timed_out.lock().counts.get(worker).map_or(0, |(count, _)| *count)
    }

    /// A worker begins anew.
    pub(crate) fn clear_timed_out(&self, worker: &WorkerId) {
        self.timed_out.lock().forget(worker);
    }

    /// Tells everyone who listens.
    pub(crate) fn tell(&self, updates: Vec<TaskUpdate>) {
        let Some(listeners) = self.listeners.get() else { return };
        for update in updates {
            // Nobody may be left; then nobody missed it.
            let _ = listeners.send(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_counted_worker_is_dropped() {
        let updates = Updates::default();
        let worker = |number: usize| format!("w{number:05}").parse::<WorkerId>().expect("a name");
        let count = |number| updates.observe(&LogLine::JobTimedOut { worker: worker(number) });
        for number in 0..TIMED_OUT_WORKERS_MAX {
            count(number);
        }
        count(0);
        assert_eq!(updates.timed_out(&worker(1)), 1, "no new worker, so none is dropped");
        count(TIMED_OUT_WORKERS_MAX);
        let counts = [0, 1, 2, TIMED_OUT_WORKERS_MAX].map(|n| updates.timed_out(&worker(n)));
        assert_eq!(counts, [2, 0, 1, 1], "the first was counted again since");
        updates.clear_timed_out(&worker(0));
        assert_eq!(updates.timed_out(&worker(0)), 0);
        count(1);
        assert_eq!(updates.timed_out(&worker(2)), 1, "there was room");
    }
}
