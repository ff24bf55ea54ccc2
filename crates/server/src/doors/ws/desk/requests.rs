//! The requests for leases that are out for one worker.

use tokio_util::sync::CancellationToken;

/// Requests that are out, oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests {
    out: Vec<Out>,
    next: u64,
}

#[derive(Debug)]
struct Out {
    id: u64,
    slots: u32,
    /// How many leases the worker may hold, as the request says it.
    limit: u32,
    stop: CancellationToken,
}

impl Requests {
    /// Slots that are asked for.
    pub(super) fn slots(&self) -> u32 {
        self.out.iter().map(|one| one.slots).sum()
    }

    pub(super) fn add(&mut self, slots: u32, limit: u32) -> (u64, CancellationToken) {
        self.next += 1;
        let (id, stop) = (self.next, CancellationToken::new());
        self.out.push(Out { id, slots, limit, stop: stop.clone() });
        (id, stop)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.out.retain(|one| one.id != id);
    }

    /// Takes back the newest requests until no more than `slots` are asked for, and all that would
    /// be held to fewer than `limit` leases. Each is out until it is answered all the same.
    pub(super) fn take_back(&self, slots: u32, limit: u32) {
        let mut n_asked = 0;
        for one in &self.out {
            n_asked += one.slots;
            if n_asked > slots || one.limit < limit {
                one.stop.cancel();
            }
        }
    }
}
