//! The calls of `next` that a worker waits for.
//!
//! A middleware that waits for the next in line does nothing meanwhile, so its slot is free for
//! that one. Otherwise a chain would need as many slots as it is long, and many chains at once
//! would wait for each other for ever.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use model::LeaseId;

use super::super::in_flight::RequestId;
use crate::sessions::Call;

/// Limit: calls of one middleware that may be open at the same time.
const CALLS_PER_LEASE_MAX: usize = 64;

/// What became of the wish to open a call.
#[derive(Debug)]
pub(in super::super) enum Opening {
    /// It is open.
    Open,
    /// It is open already: the worker asked twice.
    Known,
    /// The middleware has too many calls open.
    TooMany,
}

/// The open calls of one worker, by the lease that calls.
#[derive(Debug, Default)]
pub(in super::super) struct Calls(BTreeMap<LeaseId, BTreeMap<Arc<str>, Open>>);

#[derive(Debug)]
struct Open {
    call: Arc<Call>,
    request: RequestId,
}

impl Calls {
    /// Opens a call that is asked for under this request.
    pub(in super::super) fn open(&mut self, call: &Arc<Call>, request: RequestId) -> Opening {
        let of_lease = self.0.entry(call.lease).or_default();
        let is_full = of_lease.len() >= CALLS_PER_LEASE_MAX;
        match of_lease.entry(Arc::clone(&call.request)) {
            btree_map::Entry::Occupied(_) => Opening::Known,
            btree_map::Entry::Vacant(_) if is_full => Opening::TooMany,
            btree_map::Entry::Vacant(place) => {
                place.insert(Open { call: Arc::clone(call), request });
                Opening::Open
            }
        }
    }

    pub(in super::super) fn is_open(&self, call: &Call) -> bool {
        self.0.get(&call.lease).is_some_and(|calls| calls.contains_key(&call.request))
    }

    /// The call is answered.
    pub(in super::super) fn close(&mut self, call: &Call) {
        if let Some(of_lease) = self.0.get_mut(&call.lease) {
            of_lease.remove(&call.request);
            if of_lease.is_empty() {
                self.0.remove(&call.lease);
            }
        }
    }

    /// The caller is done with its task, and so with its calls. Gives their requests.
    pub(super) fn close_all_of(&mut self, lease: LeaseId) -> impl Iterator<Item = RequestId> {
        self.0.remove(&lease).into_iter().flatten().map(|(_, open)| open.request)
    }

    /// The leases that wait in `next`.
    pub(super) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.0.keys().copied()
    }

    /// Everything that is open, to be asked for again.
    pub(in super::super) fn all(&self) -> Vec<Arc<Call>> {
        self.0.values().flat_map(BTreeMap::values).map(|open| Arc::clone(&open.call)).collect()
    }
}
