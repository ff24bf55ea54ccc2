//! The leases of an open session: what its worker holds, and what is asked for on its behalf.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Chain, Grant, LeaseRequest};
use model::{LeaseId, NodeLink, Offer, ShardId, TaskId, Timestamp, TypeName, WorkerId};
use protocol::session::payload::control::Metrics;

use self::calls::Calls;
use self::requests::Requests;
use super::convert::{Registered, SLOTS_MAX};
use super::in_flight::RequestId;
use crate::sessions::Carried;

pub mod calls;
mod requests;

/// Limit: a dispatch that shows no sign of life for so long is taken back.
const DISPATCH_CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// A worker that is told the timeout of a task has so much longer to say that it was too long.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long one request for leases waits; it is renewed as long as the session lasts.
const REQUEST_WAIT: Duration = Duration::from_hours(1);
/// How often a peer must be heard of, if its leases do not want it more often.
pub const BEAT_EVERY: Duration = Duration::from_secs(10);
/// No lease makes us ask more often than this.
const BEAT_EVERY_MIN: Duration = Duration::from_millis(500);
/// A lease that so many heartbeats in a row do not list is no longer worked on.
const UNLISTED_MAX: u8 = 2;

/// From here on a worker is given nothing new, in percent.
const MEMORY_PRESSURE: f64 = 90.0;
/// The same for its disk.
const DISK_PRESSURE: f64 = 95.0;
/// It must fall so far below before work is offered again, or it would be drained and undrained
/// with each heartbeat.
const PRESSURE_RELEASE: f64 = 5.0;

/// Whose session it is.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) instance_id: String,
    pub(super) worker: WorkerId,
    pub(super) session_id: String,
    pub(super) shard: ShardId,
}

/// The leases of a worker with an open session.
#[derive(Debug)]
pub(super) struct SessionLeases {
    pub(super) owner: Owner,
    pub(super) registered: Registered,
    offer: Arc<Offer>,
    held: BTreeMap<TaskId, Held>,
    pub(super) calls: Calls,
    requests: Requests,
    /// Dispatches so far.
    dispatched: u64,
    /// Leases that one request asks for at most: as many as fitted into the session lately.
    request_max: u32,
    pub(super) beat_every: Duration,
    pub(super) is_strained: bool,
    pub(super) is_leaving: bool,
    /// A dispatch was never confirmed, and nothing has been heard of the worker since: its
    /// connection may be open and dead, so it is given nothing more.
    pub(super) is_doubted: bool,
    /// Requests that are no longer wanted; the link takes them from here.
    pub(super) withdrawn: Vec<RequestId>,
}

/// A lease that the worker is taken to work on.
#[derive(Debug)]
struct Held {
    lease: LeaseId,
    is_confirmed: bool,
    unlisted: u8,
    /// What it is, where it was granted on this connection.
    about: Option<About>,
}

/// What is known of a lease that was granted on this connection.
#[derive(Debug)]
struct About {
    task_type: TypeName,
    place: Option<ChainPlace>,
}

/// Where a task stands in a chain of middlewares.
#[derive(Clone, Debug)]
pub(super) struct ChainPlace {
    pub(super) link: Arc<NodeLink>,
    pub(super) chain: Arc<Chain>,
}

impl ChainPlace {
    fn of(grant: &Grant) -> Option<Self> {
        let (link, chain) = grant.link.as_ref().zip(grant.chain.as_ref())?;
        Some(Self { link: Arc::clone(link), chain: Arc::clone(chain) })
    }

    /// Whether the next in line is the node itself.
    pub(super) fn is_before_host(&self) -> bool {
        usize::from(self.link.level) + 1 == self.chain.middlewares.len()
    }
}

impl SessionLeases {
    /// `is_same_process` says whether the worker surely still does what it did before. If nobody
    /// knows, its leases are only remembered: a report about one finds it, a sign of life does not
    /// extend it.
    pub(super) fn new(
        owner: Owner,
        registered: Registered,
        carried: &Carried,
        is_same_process: bool,
    ) -> Self {
        let offer = Arc::new(registered.offer.clone());
        let unconfirmed: BTreeSet<LeaseId> = carried.unconfirmed.iter().copied().collect();
        let held = |(task, lease): (&TaskId, &LeaseId)| {
            let is_confirmed = is_same_process && !unconfirmed.contains(lease);
            (*task, Held { lease: *lease, is_confirmed, unlisted: 0, about: None })
        };
        Self {
            owner,
            registered,
            offer,
            held: carried.held.iter().map(held).collect(),
            calls: Calls::default(),
            requests: Requests::default(),
            dispatched: 0,
            request_max: SLOTS_MAX,
            beat_every: BEAT_EVERY,
            is_strained: false,
            is_leaving: false,
            is_doubted: false,
            withdrawn: Vec::new(),
        }
    }

    /// The worker's abilities have changed.
    pub(super) fn refresh(&mut self, registered: Registered) {
        self.offer = Arc::new(registered.offer.clone());
        self.registered = registered;
    }

    /// A request for as many leases as the worker has free slots that nobody asked for yet.
    ///
    /// A task that waits in `next` holds its lease and takes no slot.
    pub(super) fn next_request(
        &mut self,
        now: Timestamp,
        id: impl FnOnce() -> RequestId,
    ) -> Option<(RequestId, LeaseRequest)> {
        let (held, waiting) = (count(self.held.len()), self.n_waiting());
        let slots = self.registered.slots;
        let free = slots.saturating_sub(held - waiting);
        let limit = slots.saturating_add(waiting);
        self.requests.take_back(free, limit, &mut self.withdrawn);
        let free = free.saturating_sub(self.requests.slots()).min(self.request_max);
        if free == 0 || self.is_leaving || self.is_doubted {
            return None;
        }
        let id = id();
        self.requests.add(id, free, limit);
        let request = LeaseRequest {
            worker: self.owner.worker.clone(),
            offer: self.offer_now(),
            max: free,
            slots: Some(limit),
            wait_until: now.after(REQUEST_WAIT),
            confirm_within: Some(DISPATCH_CONFIRM_WITHIN),
            timeout_grace: TIMEOUT_GRACE,
            is_loss_noticed: true,
        };
        Some((id, request))
    }

    /// Tasks that wait for the next in line.
    fn n_waiting(&self) -> u32 {
        count(self.waiting().count())
    }

    fn waiting(&self) -> impl Iterator<Item = &Held> {
        let held = |lease: LeaseId| self.held.get(&lease.task).filter(|held| held.lease == lease);
        self.calls.leases().filter_map(held)
    }

    /// What the worker can do, its limits raised by those that wait in `next`.
    fn offer_now(&self) -> Arc<Offer> {
        if self.offer.limits.is_empty() {
            return Arc::clone(&self.offer);
        }
        let mut offer = Offer::clone(&self.offer);
        for about in self.waiting().filter_map(|held| held.about.as_ref()) {
            if let Some(limit) = offer.limits.get_mut(&about.task_type) {
                *limit = limit.saturating_add(1);
            }
        }
        Arc::new(offer)
    }

    /// A request came to its end.
    pub(super) fn answered(&mut self, request: RequestId) {
        self.requests.remove(request);
    }

    /// The number of the next dispatch.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.dispatched += 1;
        self.dispatched
    }

    /// What became of the grants of a request. Tasks with large parameters fill a session before
    /// they fill a worker; asking for more than fits would only hand leases to and fro.
    pub(super) fn note_delivered(&mut self, n_delivered: u32, all: bool) {
        self.request_max = if all {
            self.request_max.saturating_mul(2).min(SLOTS_MAX)
        } else {
            n_delivered.max(1)
        };
    }

    pub(super) fn take(&mut self, grant: &Grant) {
        let about =
            About { task_type: grant.spec.demand.task_type.clone(), place: ChainPlace::of(grant) };
        let (is_confirmed, about) = (false, Some(about));
        let held = Held { lease: grant.lease, is_confirmed, unlisted: 0, about };
        self.held.insert(grant.lease.task, held);
        self.beat_every = self.beat_every.min(grant.heartbeat_every).max(BEAT_EVERY_MIN);
    }

    /// The worker has nothing more to do with a lease.
    pub(super) fn release(&mut self, lease: LeaseId) -> bool {
        let is_held = self.held.get(&lease.task).is_some_and(|held| held.lease == lease);
        if is_held {
            self.held.remove(&lease.task);
        }
        self.withdrawn.extend(self.calls.close_all_of(lease));
        if self.held.is_empty() {
            self.beat_every = BEAT_EVERY;
        }
        is_held
    }

    /// The worker has a dispatch. `false` if it is of no more interest.
    pub(super) fn confirm(&mut self, lease: LeaseId) -> bool {
        let held = self.held.get_mut(&lease.task).filter(|held| held.lease == lease);
        held.is_some_and(|held| !std::mem::replace(&mut held.is_confirmed, true))
    }

    /// Whether the worker has not confirmed that it has a dispatch.
    pub(super) fn is_unconfirmed(&self, lease: LeaseId) -> bool {
        let held = self.held.get(&lease.task).filter(|held| held.lease == lease);
        held.is_some_and(|held| !held.is_confirmed)
    }

    /// The leases that a sign of life stands for, where the worker does not list them itself. A
    /// dispatch that is not confirmed may never have arrived.
    pub(super) fn confirmed(&self) -> Vec<LeaseId> {
        self.held.values().filter(|held| held.is_confirmed).map(|held| held.lease).collect()
    }

    /// The worker says what it works on: what it never lists is not kept alive on its behalf.
    pub(super) fn note_listed(&mut self, listed: &[LeaseId]) {
        // What is listed starts over at nothing, so that everything else can be told by its count.
        for held in self.held.values_mut().filter(|held| held.is_confirmed) {
            held.unlisted += 1;
        }
        for lease in listed {
            self.keep(*lease);
        }
        self.held.retain(|_, held| held.unlisted < UNLISTED_MAX);
    }

    /// The worker speaks of a lease, so it works on it.
    pub(super) fn keep(&mut self, lease: LeaseId) {
        let known = self.held.remove(&lease.task).filter(|held| held.lease == lease);
        let about = known.and_then(|held| held.about);
        let held = Held { lease, is_confirmed: true, unlisted: 0, about };
        self.held.insert(lease.task, held);
    }

    /// Whether a change of the worker's load changes what it is given.
    pub(super) fn pressure_changed(&mut self, metrics: &Metrics) -> Option<bool> {
        let release = if self.is_strained { PRESSURE_RELEASE } else { 0.0 };
        let exceeds = |share: Option<f64>, limit: f64| share.is_some_and(|s| s >= limit - release);
        let is_strained =
            exceeds(metrics.mem_pct, MEMORY_PRESSURE) || exceeds(metrics.disk_pct, DISK_PRESSURE);
        let has_changed = is_strained != self.is_strained;
        self.is_strained = is_strained;
        has_changed.then_some(is_strained)
    }

    /// What the next connection of the worker goes on with, but for the windows.
    pub(super) fn carried(&self) -> Carried {
        let unconfirmed = self.held.values().filter(|held| !held.is_confirmed);
        Carried {
            session: None,
            held: self.held.iter().map(|(task, held)| (*task, held.lease)).collect(),
            unconfirmed: unconfirmed.map(|held| held.lease).collect(),
            calls: self.calls.all(),
        }
    }

    pub(super) fn lease_of(&self, task: TaskId) -> Option<LeaseId> {
        self.held.get(&task).map(|held| held.lease)
    }

    /// Where a lease stands in its chain; `None` where that is not known here.
    pub(super) fn place_of(&self, lease: LeaseId) -> Option<&ChainPlace> {
        let held = self.held.get(&lease.task).filter(|held| held.lease == lease)?;
        held.about.as_ref()?.place.as_ref()
    }

    /// The lease of a middleware, by its id and its run's.
    pub(super) fn lease_of_middleware(&self, run_id: &str, middleware_id: &str) -> Option<LeaseId> {
        let mut of_run = self.held.values().filter(|held| {
            let place = held.about.as_ref().and_then(|about| about.place.as_ref());
            place.is_some_and(|place| {
                place.link.run.to_string() == run_id
                    && place.link.step_id.to_string() == middleware_id
            })
        });
        // In a list or in two subgraphs the same middleware may run twice; nobody should guess.
        let first = of_run.next()?.lease;
        of_run.next().is_none().then_some(first)
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
