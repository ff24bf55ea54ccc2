//! The past of one tenant, as far as it is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shard::projection::Event;

use super::batch::{Batch, RenderedBytes};
use super::ids::Ids;
use super::limits::{RING_BYTES_MAX, RING_EVENTS_MAX};

/// Events that share one place in the ring; what is told at once goes at once.
const BATCH_EVENTS_MAX: usize = 1_024;

/// The newest events of a tenant, oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    ids: Ids,
    batches: VecDeque<Arc<Batch>>,
    n_events: usize,
    n_bytes: usize,
    rendered: RenderedBytes,
    /// Everything with a greater id is here.
    complete_after: u64,
}

/// What comes next for a reader is not here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Ring {
    pub(super) fn new(base: u64) -> Self {
        let ids = Ids::new(base);
        Self {
            complete_after: ids.last(),
            ids,
            batches: VecDeque::new(),
            n_events: 0,
            n_bytes: 0,
            rendered: RenderedBytes::default(),
        }
    }

    pub(super) fn ids(&mut self) -> &mut Ids {
        &mut self.ids
    }

    /// The id of the newest event.
    pub(super) fn last_id(&self) -> u64 {
        self.ids.last()
    }

    /// Whether a reader that has seen everything up to `id` can go on from here.
    pub(super) fn can_resume(&self, id: u64) -> bool {
        (self.complete_after..=self.last_id()).contains(&id)
    }

    /// Tells events, in order. Without ids nobody can be told: readers start anew.
    pub(super) fn push(&mut self, events: Vec<Event>) {
        if events.len() <= BATCH_EVENTS_MAX {
            self.push_batch(events);
        } else {
            let mut events = events.into_iter();
            while events.len() > 0 {
                self.push_batch(events.by_ref().take(BATCH_EVENTS_MAX).collect());
            }
        }
        self.drop_old();
    }

    fn push_batch(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let Some(first_id) = self.ids.take(events.len()) else { return self.forget() };
        self.n_events += events.len();
        let batch = Batch::new(first_id, events, Arc::clone(&self.rendered));
        self.n_bytes += batch.bytes;
        self.batches.push_back(Arc::new(batch));
    }

    /// The shard has a new epoch.
    pub(super) fn begin(&mut self, epoch: u64) {
        self.ids.begin(epoch);
        self.forget();
    }

    /// Readers must start anew: something may have happened that was never told.
    fn forget(&mut self) {
        while self.drop_oldest() {}
        self.ids.leave_one_out();
        self.complete_after = self.last_id();
    }

    /// What a reader has not seen, at most about `n_max` events.
    pub(super) fn after(&self, id: u64, n_max: usize) -> Result<Vec<Arc<Batch>>, Gone> {
        if !self.can_resume(id) {
            return Err(Gone);
        }
        let first = self.batches.partition_point(|batch| batch.last_id() <= id);
        let (mut found, mut n_found) = (Vec::new(), 0);
        for batch in self.batches.range(first..) {
            if n_found >= n_max {
                break;
            }
            n_found += batch.events.len();
            found.push(Arc::clone(batch));
        }
        Ok(found)
    }

    fn drop_old(&mut self) {
        while self.n_events > RING_EVENTS_MAX || self.bytes() > RING_BYTES_MAX {
            if !self.drop_oldest() {
                break;
            }
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.batches.pop_front() else { return false };
        self.n_events -= oldest.events.len();
        self.n_bytes -= oldest.bytes;
        self.complete_after = oldest.last_id();
        oldest.retire();
        true
    }

    /// What a reader has seen that has everything here before it.
    #[cfg(test)]
    pub(super) fn after_the_oldest(&self) -> u64 {
        self.complete_after
    }

    /// What the ring takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let rendered = self.rendered.load(Ordering::Relaxed);
        self.n_bytes + usize::try_from(rendered).unwrap_or(0)
    }
}
