//! What a worker with an open session does for us: its slots, its leases, its questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Grant, LeaseRequest};
use model::{LeaseId, Offer, TaskId, TenantId, Timestamp, WorkerId};
use protocol::session::payload::heartbeat::Metrics;

use super::convert::{Registered, SLOTS_MAX};
use crate::handle::CoordinatorHandle;
use crate::metrics::WsMetrics;
use crate::sessions::Carried;

/// A dispatch that shows no sign of life for so long is taken back.
pub(crate) const DISPATCH_CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// A worker that is told the timeout of a task has so much longer to say that it was too long.
pub(crate) const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long one request for leases waits; it is renewed as long as the session lasts.
const REQUEST_WAIT: Duration = Duration::from_hours(1);
/// How often a peer must be heard of, if its leases do not want it more often.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(10);
/// No lease makes us ask more often than this.
const BEAT_EVERY_MIN: Duration = Duration::from_millis(500);
/// A lease that so many heartbeats in a row do not list is no longer worked on.
const UNLISTED_MAX: u8 = 2;

/// From here on a worker is given nothing new, in percent.
pub(crate) const MEMORY_PRESSURE: f64 = 90.0;
/// The same for its disk.
pub(crate) const DISK_PRESSURE: f64 = 95.0;
/// It must fall so far below before work is offered again, or it would be drained and undrained
/// with each heartbeat.
const PRESSURE_RELEASE: f64 = 5.0;

/// A worker with an open session.
pub(super) struct Desk {
    pub(super) tenant: TenantId,
    pub(super) instance_id: String,
    pub(super) worker: WorkerId,
    pub(super) connection: u64,
    pub(super) session_id: String,
    pub(super) handle: CoordinatorHandle,
    pub(super) metrics: Arc<WsMetrics>,
    pub(super) registered: Registered,
    offer: Arc<Offer>,
    held: BTreeMap<TaskId, Held>,
    /// Slots for which requests are out.
    asked: u32,
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
}

/// A lease that the worker is taken to work on.
struct Held {
    lease: LeaseId,
    is_confirmed: bool,
    unlisted: u8,
}

/// Who a desk is for.
pub(super) struct Place {
    pub(super) tenant: TenantId,
    pub(super) instance_id: String,
    pub(super) worker: WorkerId,
    pub(super) connection: u64,
    pub(super) session_id: String,
    pub(super) handle: CoordinatorHandle,
    pub(super) metrics: Arc<WsMetrics>,
}

impl Desk {
    /// `is_same_process` says whether the worker surely still does what it did before. If nobody
    /// knows, its leases are only remembered: a report about one finds it, a sign of life does not
    /// extend it.
    pub(super) fn new(
        place: Place,
        registered: Registered,
        carried: &Carried,
        is_same_process: bool,
    ) -> Self {
        let offer = Arc::new(registered.offer.clone());
        let held = |lease| {
            let is_confirmed = is_same_process && !carried.unconfirmed.contains(&lease);
            Held { lease, is_confirmed, unlisted: 0 }
        };
        Self {
            tenant: place.tenant,
            instance_id: place.instance_id,
            worker: place.worker,
            connection: place.connection,
            session_id: place.session_id,
            handle: place.handle,
            metrics: place.metrics,
            registered,
            offer,
            held: carried.leases().map(|(task, lease)| (task, held(lease))).collect(),
            asked: 0,
            dispatched: 0,
            request_max: SLOTS_MAX,
            beat_every: BEAT_EVERY,
            is_strained: false,
            is_leaving: false,
            is_doubted: false,
        }
    }

    /// The worker's abilities have changed.
    pub(super) fn refresh(&mut self, registered: Registered) {
        self.offer = Arc::new(registered.offer.clone());
        self.registered = registered;
    }

    /// A request for as many leases as the worker has free slots that nobody asked for yet.
    pub(super) fn next_request(&mut self, now: Timestamp) -> Option<(u32, LeaseRequest)> {
        let held = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        let free = self.registered.slots.saturating_sub(held).saturating_sub(self.asked);
        let free = free.min(self.request_max);
        if free == 0 || self.is_leaving || self.is_doubted {
            return None;
        }
        self.asked += free;
        let request = LeaseRequest {
            worker: self.worker.clone(),
            offer: Arc::clone(&self.offer),
            max: free,
            slots: Some(self.registered.slots),
            wait_until: now.after(REQUEST_WAIT),
            confirm_within: Some(DISPATCH_CONFIRM_WITHIN),
            timeout_grace: TIMEOUT_GRACE,
        };
        Some((free, request))
    }

    /// A request came to its end.
    pub(super) fn answered(&mut self, asked: u32) {
        self.asked -= asked;
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
        let held = Held { lease: grant.lease, is_confirmed: false, unlisted: 0 };
        self.held.insert(grant.lease.task, held);
        self.beat_every = self.beat_every.min(grant.heartbeat_every).max(BEAT_EVERY_MIN);
    }

    /// The worker has nothing more to do with a lease.
    pub(super) fn release(&mut self, lease: LeaseId) -> bool {
        let is_held = self.held.get(&lease.task).is_some_and(|held| held.lease == lease);
        if is_held {
            self.held.remove(&lease.task);
        }
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
        for lease in listed {
            let held = Held { lease: *lease, is_confirmed: true, unlisted: 0 };
            self.held.insert(lease.task, held);
        }
        self.held.retain(|_, held| {
            let is_listed = listed.contains(&held.lease);
            held.unlisted = if is_listed || !held.is_confirmed { 0 } else { held.unlisted + 1 };
            held.unlisted < UNLISTED_MAX
        });
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

    pub(super) fn leases(&self) -> BTreeMap<TaskId, LeaseId> {
        self.held.iter().map(|(task, held)| (*task, held.lease)).collect()
    }

    /// The dispatches that the worker has not confirmed yet.
    pub(super) fn unconfirmed(&self) -> Vec<LeaseId> {
        self.held.values().filter(|held| !held.is_confirmed).map(|held| held.lease).collect()
    }

    pub(super) fn lease_of(&self, task: TaskId) -> Option<LeaseId> {
        self.held.get(&task).map(|held| held.lease)
    }
}

#[cfg(test)]
mod tests;
