//! The past of a tenant: its newest events, each with an id that only rises, across restarts too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shard::projection::Event;
use store::{NoteKind, Store, StoreError};

use super::page::{Batch, RenderedBytes};
use super::reader::{RING_BYTES_MAX, RING_EVENTS_MAX};

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

/// Events that one epoch of a shard can number.
const COUNTER_BITS: u32 = 32;
/// When so few ids are left, the shard raises its epoch: long before the last one is used.
const LOW: u64 = 1 << 31;

/// The ids of one tenant: `base + (epoch << 32) + counter`.
///
/// A claim raises the shard's epoch in the store, so no id is used twice and nothing is written for
/// them. The base is the last id that an earlier form of numbering may have used.
#[derive(Debug)]
pub(super) struct Ids {
    base: u64,
    next: u64,
    end: u64,
}

impl Ids {
    pub(super) fn new(base: u64) -> Self {
        Self { base, next: base + 1, end: base + 1 }
    }

    /// The shard has a new epoch.
    pub(super) fn begin(&mut self, epoch: u64) {
        // The first is left out, so that a reader that saw the last id of the epoch before is not
        // taken for one that missed nothing.
        self.next = self.base + (epoch << COUNTER_BITS) + 1;
        self.end = self.base + ((epoch + 1) << COUNTER_BITS);
    }

    /// The id before the next one: what a reader has seen who has seen everything.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// The first of `n` new ids; `None` when the epoch has no more.
    pub(super) fn take(&mut self, n: usize) -> Option<u64> {
        let first = self.next;
        let end = first + n as u64;
        if end > self.end {
            return None;
        }
        self.next = end;
        Some(first)
    }

    /// Whether the shard should raise its epoch.
    pub(super) fn are_low(&self) -> bool {
        self.end - self.next < LOW
    }

    /// Leaves one id out: who has seen everything before it has not seen everything.
    pub(super) fn leave_one_out(&mut self) {
        self.next = self.end.min(self.next + 1);
    }

    /// All but so many ids of the epoch are used.
    #[cfg(test)]
    pub(super) fn use_up(&mut self, left: u64) {
        self.next = self.end - left;
    }
}

/// How far the ids of each tenant had gone when they were not numbered by epochs. An earlier version
/// wrote it; younger folders hold none.
pub(crate) async fn floors(store: &dyn Store) -> Result<BTreeMap<String, u64>, StoreError> {
    let notes = store.notes(NoteKind::EventFloor).await?;
    let read = |json: Option<String>| json.and_then(|json| json.parse().ok());
    notes
        .into_iter()
        .map(|note| match read(note.json) {
            Some(floor) => Ok((note.tenant, floor)),
            None => {
                Err(StoreError::Damaged(format!("event_floor of {} is no number", note.tenant)))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the former numbering gave last: a thousand for each millisecond.
    const FORMER: u64 = 1_790_000_000_000 * 1_000;

    #[test]
    fn ids_rise_from_epoch_to_epoch_and_stay_exact_in_javascript() {
        for base in [0, FORMER] {
            let mut ids = Ids::new(base);
            assert_eq!(ids.take(1), None, "no epoch, no ids");
            let mut newest = base;
            for epoch in 1..1_000_000 / 17 {
                ids.begin(epoch * 17);
                assert!(ids.last() > newest);
                newest = ids.take(3).expect("free") + 2;
                assert!(newest < 1 << 53);
            }
        }
    }

    #[test]
    fn an_epoch_is_used_to_its_end_and_no_further() {
        let mut ids = Ids::new(7);
        ids.begin(1);
        assert!(!ids.are_low());
        ids.use_up(10);
        assert!(ids.are_low());
        let first = ids.take(9).expect("free");
        assert_eq!(ids.take(2), None);
        assert_eq!(ids.take(1), Some(first + 9));
        ids.leave_one_out();
        assert_eq!(ids.take(1), None);
        ids.begin(2);
        assert!(ids.take(1).expect("free") > first + 9 && !ids.are_low());
    }
}
