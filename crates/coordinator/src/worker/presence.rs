//! Workers: when they were last heard of, what they offer, what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Offer, QueueName, TaskId, Timestamp, WorkerHealth, WorkerId};

use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::effect::{Answer, QueueView, Refusal, WorkerView};
use crate::placement::OfferIdx;
use crate::state::Deadline;
use crate::state::State;

/// Limit: workers that a tenant may have; one more is refused.
pub const WORKERS_MAX: usize = 100_000;

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
    silence_limits: SilenceLimits,
    last_seen: Timestamp,
    health: WorkerHealth,
    granted: u64,
    /// Requests of this worker that wait right now.
    asking: BTreeSet<Ticket>,
    /// Where it stands in the table of deadlines.
    deadline: Timestamp,
}

impl KnownWorker {
    fn health_at(&self, now: Timestamp) -> WorkerHealth {
        if self.asking.is_empty() {
            self.silence_limits.health_after(now.since(self.last_seen))
        } else {
            WorkerHealth::Healthy // Its request is still open: it lives.
        }
    }
}

impl Workers {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn is_known(&self, worker: &WorkerId) -> bool {
        self.known.contains_key(worker)
    }

    pub(crate) fn add_held(&mut self, worker: WorkerId, task: TaskId) {
        let is_new = self.held.entry(worker).or_default().insert(task);
        assert!(is_new, "a worker holds a task once");
    }

    pub(crate) fn remove_held(&mut self, worker: &WorkerId, task: TaskId) {
        let held = self.held.get_mut(worker).expect("the holder is known");
        let was_held = held.remove(&task);
        assert!(was_held, "a lease ends for its holder");
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
        let view = |(id, worker): (_, &KnownWorker)| {
            (id, worker.health, worker.offer, !worker.asking.is_empty())
        };
        self.known.iter().map(view)
    }

    pub(crate) fn count_grants(&mut self, worker: &WorkerId, grants: u64) {
        if let Some(known) = self.known.get_mut(worker) {
            known.granted += grants;
        }
    }

    /// The requests of a worker that wait right now.
    pub(crate) fn asking(&self, worker: &WorkerId) -> impl Iterator<Item = Ticket> {
        self.known.get(worker).into_iter().flat_map(|known| &known.asking).copied()
    }

    pub(crate) fn add_asking(&mut self, worker: &WorkerId, ticket: Ticket) {
        if let Some(known) = self.known.get_mut(worker) {
            let is_new = known.asking.insert(ticket);
            assert!(is_new, "a request waits once");
        }
    }

    pub(crate) fn remove_asking(&mut self, worker: &WorkerId, ticket: Ticket) {
        if let Some(known) = self.known.get_mut(worker) {
            let was_asking = known.asking.remove(&ticket);
            assert!(was_asking, "a request that waits is known to its worker");
        }
    }

    /// How many requests wait; for tests.
    pub(crate) fn asking_len(&self) -> usize {
        self.all_asking().count()
    }

    /// Every request that waits, with its worker; for tests.
    pub(crate) fn all_asking(&self) -> impl Iterator<Item = (&WorkerId, Ticket)> {
        self.known
            .iter()
            .flat_map(|(worker, known)| known.asking.iter().map(move |ticket| (worker, *ticket)))
    }

    /// Whether a worker is taken for lost, or was never heard of.
    pub(crate) fn is_away(&self, worker: &WorkerId, now: Timestamp) -> bool {
        let known = self.known.get(worker);
        known.is_none_or(|known| known.health_at(now) == WorkerHealth::Lost)
    }

    /// What a worker offered last.
    pub(crate) fn offer(&self, worker: &WorkerId) -> Option<OfferIdx> {
        self.known.get(worker)?.offer
    }
}

impl Decision<'_> {
    /// A worker gave a sign of life. `false` when there is no room to remember one more.
    pub(crate) fn touch_worker(&mut self, worker: &WorkerId) -> bool {
        self.hear_of(worker, None)
    }

    /// A sign of life, perhaps with new limits of silence; without them a known worker keeps its own.
    fn hear_of(&mut self, worker: &WorkerId, silence_limits: Option<SilenceLimits>) -> bool {
        let now = self.now();
        let workers = &mut self.state.workers;
        if let Some(known) = workers.known.get_mut(worker) {
            known.silence_limits = silence_limits.unwrap_or(known.silence_limits);
            let at = known.silence_limits.next_step_down(now, WorkerHealth::Healthy);
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
        let silence_limits = silence_limits.unwrap_or_default();
        let at = silence_limits.next_step_down(now, WorkerHealth::Healthy);
        let known = KnownWorker {
            offer: None,
            silence_limits,
            last_seen: now,
            health: WorkerHealth::Healthy,
            granted: 0,
            asking: BTreeSet::new(),
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

    /// A worker comes with what it can do, or says it anew.
    pub(crate) fn on_register(
        &mut self,
        worker: &WorkerId,
        offer: &Arc<Offer>,
        (silence_limits, anew): (SilenceLimits, bool),
    ) -> Result<Answer, Refusal> {
        if !self.hear_of(worker, Some(silence_limits)) {
            return Err(Refusal::WorkersFull);
        }
        self.note_offer(worker, offer);
        if anew {
            self.forget_verified(worker);
            self.doubt_leases(worker);
        }
        Ok(Answer::Registered)
    }

    /// A worker leaves for good: what it holds and what it asked for ends with it.
    pub(crate) fn on_unregister(&mut self, worker: &WorkerId) -> Answer {
        let held = self.leases_of(worker);
        self.on_give_back(worker, &held);
        let asking: Vec<Ticket> = self.state.workers.asking(worker).collect();
        for request in asking {
            self.stop_waiting(request);
            self.answer(request, Answer::Leases(Vec::new()));
        }
        self.forget_own_drains(worker);
        self.forget_verified(worker);
        let deadline = self.state.workers.known.get(worker).map(|known| known.deadline);
        if let Some(at) = deadline {
            self.state.deadlines.remove(at, Deadline::Worker(worker.clone()));
            self.forget_worker(worker);
        }
        Answer::Unregistered { was_known: deadline.is_some() }
    }

    /// Nothing of the worker is left but what it holds; its deadline has gone before.
    fn forget_worker(&mut self, worker: &WorkerId) {
        self.state.unbind_worker(worker);
        let Some(known) = self.state.workers.known.remove(worker) else { return };
        if let Some(offer) = known.offer {
            self.state.placement.remove_offer_user(offer);
        }
    }

    /// A worker may have been silent for another heartbeat.
    pub(crate) fn on_worker_due(&mut self, worker: &WorkerId) {
        let now = self.now();
        let holds = self.state.workers.in_flight(worker) > 0;
        let Some(known) = self.state.workers.known.get_mut(worker) else { return };
        if !known.asking.is_empty() {
            known.last_seen = now; // Its request is still open: it lives.
        }
        known.health = known.silence_limits.health_after(now.since(known.last_seen));
        let mut at = known.silence_limits.next_step_down(known.last_seen, known.health);
        if at <= now && !holds {
            self.forget_worker(worker);
            return;
        }
        if at <= now {
            at = now.after(WORKER_HEARTBEAT_EVERY);
        }
        known.deadline = at;
        let is_lost = known.health == WorkerHealth::Lost;
        self.state.deadlines.insert(at, Deadline::Worker(worker.clone()));
        if is_lost {
            self.state.unbind_worker(worker);
        }
    }

    pub(crate) fn on_list_workers(&self) -> Answer {
        let State { workers, placement, .. } = &*self.state;
        let view = |(worker, known): (&WorkerId, &KnownWorker)| WorkerView {
            worker: worker.clone(),
            health: known.health_at(self.now()),
            last_seen: known.last_seen,
            in_flight: workers.in_flight(worker),
            granted: known.granted,
            is_asking: !known.asking.is_empty(),
            drain: self.state.drains.ordered(worker).cloned(),
            drained_by: self.state.drains.causes(worker),
            offer: known.offer.map(|offer| placement.offer(offer).clone()).unwrap_or_default(),
            verified: self.state.verified.get(worker).cloned().unwrap_or_default(),
        };
        Answer::Workers(workers.known.iter().map(view).collect())
    }

    pub(crate) fn on_list_queues(&self) -> Answer {
        let mut oldest: BTreeMap<_, Timestamp> = BTreeMap::new();
        for (demand, task) in self.state.placement.oldest_ready() {
            let since = self.state.tasks.get(task).expect("ready tasks are live").created_at;
            let entry = oldest.entry(demand.queue.clone()).or_insert(since);
            *entry = since.min(*entry);
        }
        let State { queues, placement, .. } = &*self.state;
        let view = |queue: &QueueName| {
            let counts = queues.get(queue).copied().unwrap_or_default();
            QueueView {
                queue: queue.clone(),
                depth: counts.ready,
                oldest_since: oldest.get(queue).copied(),
                in_flight: counts.leased,
                retries_due: counts.backoff,
                scheduled: counts.scheduled,
                blocked: counts.blocked,
                paused: placement.pause(queue).cloned(),
            }
        };
        let paused = placement.pauses().map(|(queue, _)| queue);
        let names: BTreeSet<&QueueName> = queues.keys().chain(paused).collect();
        Answer::Queues(names.into_iter().map(view).collect())
    }
}

/// How often a worker should be heard of, unless it registered with another rhythm.
pub const WORKER_HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// Limit: a lost worker that holds nothing is forgotten after this time.
const WORKER_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// When silence becomes worrying: one missed heartbeat, two, three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceLimits {
    /// So much silence is one missed heartbeat.
    pub warn_after: Duration,
    /// So much is two.
    pub degraded_after: Duration,
    /// So much is three: the worker is taken for lost.
    pub lost_after: Duration,
}

impl SilenceLimits {
    /// A heartbeat every ten seconds, which counts as missed when it is five seconds late.
    pub const STANDARD: Self = Self::of_secs(15, 25, 35);
    /// A heartbeat every thirty seconds, as workers of seed 004 have it; lost after ninety.
    pub const SLOW: Self = Self::of_secs(35, 65, 90);

    const fn of_secs(warn: u64, degraded: u64, lost: u64) -> Self {
        Self {
            warn_after: Duration::from_secs(warn),
            degraded_after: Duration::from_secs(degraded),
            lost_after: Duration::from_secs(lost),
        }
    }

    /// What so long a silence means.
    pub(crate) fn health_after(&self, silence: Duration) -> WorkerHealth {
        match silence {
            _ if silence >= self.lost_after => WorkerHealth::Lost,
            _ if silence >= self.degraded_after => WorkerHealth::Degraded,
            _ if silence >= self.warn_after => WorkerHealth::Warn,
            _ => WorkerHealth::Healthy,
        }
    }

    /// The moment at which a worker that was last heard of at `last_seen` takes the next step
    /// down.
    pub(crate) fn next_step_down(&self, last_seen: Timestamp, health: WorkerHealth) -> Timestamp {
        last_seen.after(match health {
            WorkerHealth::Healthy => self.warn_after,
            WorkerHealth::Warn => self.degraded_after,
            WorkerHealth::Degraded => self.lost_after,
            WorkerHealth::Lost => WORKER_FORGOTTEN_AFTER.max(self.lost_after),
        })
    }
}

impl Default for SilenceLimits {
    fn default() -> Self {
        Self::STANDARD
    }
}
