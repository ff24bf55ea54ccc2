//! Workers: when they were last heard of, what they offer, what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Offer, TaskId, Timestamp, WorkerId};

use crate::command::Ticket;
use crate::coordinator::Turn;
use crate::deadline::Deadline;
use crate::effect::{Answer, QueueView, WorkerHealth, WorkerView};
use crate::placement::OfferIdx;
use crate::state::State;

/// Workers that a tenant may have; one more is refused.
pub const WORKERS_MAX: usize = 100_000;
/// How often a worker should be heard of.
pub const WORKER_HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// How late a heartbeat may be before it counts as missed.
const HEARTBEAT_GRACE: Duration = Duration::from_secs(5);
/// A lost worker that holds nothing is forgotten after this time.
pub const WORKER_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// Everyone who was heard of, and what everyone holds.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    known: BTreeMap<WorkerId, KnownWorker>,
    /// Derived from the leased tasks.
    held: BTreeMap<WorkerId, BTreeSet<TaskId>>,
}

#[derive(Debug)]
struct KnownWorker {
    offer: Option<OfferIdx>,
    last_seen: Timestamp,
    health: WorkerHealth,
    granted: u64,
    /// Requests of this worker that wait right now.
    asking: u32,
    /// Where it stands in the table of deadlines.
    deadline: Timestamp,
}

impl Workers {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn is_known(&self, worker: &WorkerId) -> bool {
        self.known.contains_key(worker)
    }

    pub(crate) fn add_held(&mut self, worker: WorkerId, task: TaskId) {
        self.held.entry(worker).or_default().insert(task);
    }

    pub(crate) fn remove_held(&mut self, worker: &WorkerId, task: TaskId) {
        let held = self.held.get_mut(worker).expect("the holder is known");
        held.remove(&task);
        if held.is_empty() {
            self.held.remove(worker);
        }
    }

    pub(crate) fn held(&self, worker: &WorkerId) -> impl Iterator<Item = TaskId> {
        self.held.get(worker).into_iter().flatten().copied()
    }

    pub(crate) fn in_flight(&self, worker: &WorkerId) -> u64 {
        self.held.get(worker).map_or(0, |held| held.len() as u64)
    }

    pub(crate) fn holds(&self, worker: &WorkerId, task: TaskId) -> bool {
        self.held.get(worker).is_some_and(|held| held.contains(&task))
    }

    pub(crate) fn held_len(&self) -> usize {
        self.held.values().map(BTreeSet::len).sum()
    }

    /// Health and offer of everyone, for `explain`.
    pub(crate) fn offers(
        &self,
    ) -> impl Iterator<Item = (&WorkerId, WorkerHealth, Option<OfferIdx>, bool)> {
        let view =
            |(id, worker): (_, &KnownWorker)| (id, worker.health, worker.offer, worker.asking > 0);
        self.known.iter().map(view)
    }

    pub(crate) fn count_grants(&mut self, worker: &WorkerId, grants: u64) {
        if let Some(known) = self.known.get_mut(worker) {
            known.granted += grants;
        }
    }

    pub(crate) fn set_asking(&mut self, worker: &WorkerId, change: impl Fn(&mut u32)) {
        if let Some(known) = self.known.get_mut(worker) {
            change(&mut known.asking);
        }
    }
}

/// The moment at which a worker that was last heard of at `last_seen` takes the next step down.
fn next_step_down(last_seen: Timestamp, health: WorkerHealth) -> Timestamp {
    let missed = match health {
        WorkerHealth::Healthy => 1,
        WorkerHealth::Warn => 2,
        WorkerHealth::Degraded => 3,
        WorkerHealth::Lost => return last_seen.after(WORKER_FORGOTTEN_AFTER),
    };
    last_seen.after(WORKER_HEARTBEAT_EVERY * missed + HEARTBEAT_GRACE)
}

fn health_after(silence: Duration) -> WorkerHealth {
    let missed = |times: u32| silence >= WORKER_HEARTBEAT_EVERY * times + HEARTBEAT_GRACE;
    match (missed(1), missed(2), missed(3)) {
        (_, _, true) => WorkerHealth::Lost,
        (_, true, false) => WorkerHealth::Degraded,
        (true, false, false) => WorkerHealth::Warn,
        (false, false, false) => WorkerHealth::Healthy,
    }
}

impl Turn<'_> {
    /// A worker gave a sign of life. `false` when there is no room to remember one more.
    pub(crate) fn touch_worker(&mut self, worker: &WorkerId) -> bool {
        let now = self.now();
        let at = next_step_down(now, WorkerHealth::Healthy);
        let workers = &mut self.state.workers;
        if let Some(known) = workers.known.get_mut(worker) {
            known.last_seen = now;
            known.health = WorkerHealth::Healthy;
            // A deadline that is too early only looks and sets the next one, so it may stay.
            let too_late = known.deadline > at;
            if too_late {
                let before = std::mem::replace(&mut known.deadline, at);
                self.state.deadlines.remove(before, Deadline::Worker(worker.clone()));
                self.state.deadlines.insert(at, Deadline::Worker(worker.clone()));
            }
            return true;
        }
        if workers.known.len() >= WORKERS_MAX {
            return false;
        }
        let known = KnownWorker {
            offer: None,
            last_seen: now,
            health: WorkerHealth::Healthy,
            granted: 0,
            asking: 0,
            deadline: at,
        };
        workers.known.insert(worker.clone(), known);
        self.state.deadlines.insert(at, Deadline::Worker(worker.clone()));
        true
    }

    /// A worker said what it can do.
    pub(crate) fn note_offer(&mut self, worker: &WorkerId, offer: &Arc<Offer>) {
        let Some(known) = self.state.workers.known.get_mut(worker) else { return };
        let placement = &mut self.state.placement;
        if known.offer.is_some_and(|current| placement.offer(current) == offer) {
            return;
        }
        if let Some(former) = known.offer.replace(placement.add_offer_user(offer)) {
            placement.remove_offer_user(former);
        }
    }

    /// A worker may have been silent for another heartbeat.
    pub(crate) fn on_worker_due(&mut self, worker: WorkerId) {
        let now = self.now();
        let holds = self.state.workers.in_flight(&worker) > 0;
        let Some(known) = self.state.workers.known.get_mut(&worker) else { return };
        if known.asking > 0 {
            known.last_seen = now; // Its request is still open: it lives.
        }
        known.health = health_after(now.since(known.last_seen));
        let mut at = next_step_down(known.last_seen, known.health);
        if at <= now && !holds {
            if let Some(offer) = known.offer {
                self.state.placement.remove_offer_user(offer);
            }
            self.state.workers.known.remove(&worker);
            return;
        }
        if at <= now {
            at = now.after(WORKER_HEARTBEAT_EVERY);
        }
        known.deadline = at;
        self.state.deadlines.insert(at, Deadline::Worker(worker));
    }

    pub(crate) fn on_list_workers(&mut self, ticket: Ticket) {
        let State { workers, placement, .. } = &*self.state;
        let view = |(worker, known): (&WorkerId, &KnownWorker)| WorkerView {
            worker: worker.clone(),
            health: health_after(self.now().since(known.last_seen)).min(match known.asking {
                0 => WorkerHealth::Lost,
                _ => WorkerHealth::Healthy,
            }),
            last_seen: known.last_seen,
            in_flight: workers.in_flight(worker),
            granted: known.granted,
            is_asking: known.asking > 0,
            drained_by: self.state.drains.causes(worker),
            offer: known.offer.map(|offer| placement.offer(offer).clone()).unwrap_or_default(),
        };
        let views = workers.known.iter().map(view).collect();
        self.answer(ticket, Answer::Workers(views));
    }

    pub(crate) fn on_list_queues(&mut self, ticket: Ticket) {
        let mut oldest: BTreeMap<_, Timestamp> = BTreeMap::new();
        for (demand, task) in self.state.placement.oldest_ready() {
            let since = self.state.tasks.get(task).expect("ready tasks are live").created_at;
            let entry = oldest.entry(demand.queue.clone()).or_insert(since);
            *entry = since.min(*entry);
        }
        let view = |(queue, counts): (&model::QueueName, &crate::state::QueueCounts)| QueueView {
            queue: queue.clone(),
            depth: counts.ready,
            oldest_since: oldest.get(queue).copied(),
            in_flight: counts.leased,
            retries_due: counts.backoff,
            scheduled: counts.scheduled,
        };
        let views = self.state.queues.iter().map(view).collect();
        self.answer(ticket, Answer::Queues(views));
    }
}
