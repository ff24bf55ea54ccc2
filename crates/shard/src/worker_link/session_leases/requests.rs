//! The requests for leases that are out for one worker.

use super::super::in_flight::RequestId;

/// Requests that are out, oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests {
    out: Vec<Out>,
}

#[derive(Debug)]
struct Out {
    id: RequestId,
    slots: u32,
    /// How many leases the worker may hold, as the request says it.
    limit: u32,
    is_withdrawn: bool,
}

impl Requests {
    /// Slots that are asked for.
    pub(super) fn slots(&self) -> u32 {
        self.out.iter().map(|one| one.slots).sum()
    }

    pub(super) fn add(&mut self, id: RequestId, slots: u32, limit: u32) {
        self.out.push(Out { id, slots, limit, is_withdrawn: false });
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        self.out.retain(|one| one.id != id);
    }

    /// Takes back the newest requests until no more than `slots` are asked for, and all that would
    /// be held to fewer than `limit` leases. Each is out until it is answered all the same.
    pub(super) fn take_back(&mut self, slots: u32, limit: u32, withdrawn: &mut Vec<RequestId>) {
        let mut n_asked = 0;
        for one in &mut self.out {
            n_asked += one.slots;
            if (n_asked > slots || one.limit < limit) && !one.is_withdrawn {
                one.is_withdrawn = true;
                withdrawn.push(one.id);
            }
        }
    }
}
