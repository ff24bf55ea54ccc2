//! The past of one tenant, as far as it is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::Timestamp;
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
    /// Events that wait for ids.
    waiting: VecDeque<Vec<Event>>,
    n_waiting: usize,
}

/// What comes next for a reader is not here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Ring {
    pub(super) fn new(now: Timestamp, floor: Option<u64>) -> Self {
        let ids = Ids::begin(now, floor);
        Self {
            complete_after: ids.last(),
            ids,
            batches: VecDeque::new(),
            n_events: 0,
            n_bytes: 0,
            rendered: RenderedBytes::default(),
            waiting: VecDeque::new(),
            n_waiting: 0,
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

    /// Tells events, in order. They wait if there are no ids for them yet.
    pub(super) fn push(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        self.n_waiting += events.len();
        if events.len() <= BATCH_EVENTS_MAX {
            self.waiting.push_back(events);
        } else {
            let mut events = events.into_iter();
            while events.len() > 0 {
                self.waiting.push_back(events.by_ref().take(BATCH_EVENTS_MAX).collect());
            }
        }
        self.flush();
        if self.n_waiting > RING_EVENTS_MAX {
            self.forget();
        }
    }

    /// Gives ids to those that wait, as far as there are some.
    pub(super) fn flush(&mut self) {
        while let Some(n) = self.waiting.front().map(Vec::len) {
            let Some(first_id) = self.ids.take(n) else { break };
            let Some(events) = self.waiting.pop_front() else { break };
            self.n_waiting -= n;
            self.n_events += events.len();
            let batch = Batch::new(first_id, events, Arc::clone(&self.rendered));
            self.n_bytes += batch.bytes;
            self.batches.push_back(Arc::new(batch));
        }
        self.drop_old();
    }

    /// Readers must start anew: something may have happened that was never told.
    pub(super) fn forget(&mut self) {
        while self.drop_oldest() {}
        self.waiting.clear();
        self.n_waiting = 0;
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
