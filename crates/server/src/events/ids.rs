//! Ids of events: they only rise, whatever the clock does and however the process ends.

use model::Timestamp;

use super::limits::ID_BLOCK;

/// Ids per millisecond of the clock at the start: more than a tenant's events, so that the clock
/// alone is ahead of every earlier id unless it was set back.
const IDS_PER_MS: u64 = 1_000;

/// The ids of one tenant.
///
/// An id is used only if the store knows that it may have been: a restart begins beyond the floor
/// that the store has, so that no id is used twice.
#[derive(Debug)]
pub(super) struct Ids {
    next: u64,
    /// The store knows that ids up to here may have been used.
    floor: u64,
}

impl Ids {
    /// Begins beyond everything that may have been used. No id is free until [`Ids::raise`].
    pub(super) fn begin(now: Timestamp, floor: Option<u64>) -> Self {
        let floor = floor.unwrap_or(0);
        // One is left out, so that a reader that saw the last id before is not taken for one that
        // missed nothing.
        let next = (now.as_millis() * IDS_PER_MS).max(floor + 2);
        Self { next, floor }
    }

    /// The id before the next one: what a reader has seen who has seen everything.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// The first of `n` new ids; `None` until the floor is raised.
    pub(super) fn take(&mut self, n: usize) -> Option<u64> {
        let first = self.next;
        let end = first + n as u64;
        if end > self.floor + 1 {
            return None;
        }
        self.next = end;
        Some(first)
    }

    /// Whether an id is free.
    pub(super) fn has_room(&self) -> bool {
        self.next <= self.floor
    }

    /// The floor that the store should know of, if it is time to tell it.
    pub(super) fn wanted_floor(&self) -> Option<u64> {
        let is_low = self.next + ID_BLOCK / 2 > self.floor;
        is_low.then(|| self.next + ID_BLOCK)
    }

    /// The store knows.
    pub(super) fn raise(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// Leaves one id out: who has seen everything before it has not seen everything.
    pub(super) fn leave_one_out(&mut self) {
        self.next += 1;
    }

    /// Someone else may have used ids up to here.
    pub(super) fn skip_beyond(&mut self, floor: u64) {
        if floor > self.floor {
            self.next = self.next.max(floor + 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    #[test]
    fn no_id_is_free_before_the_store_knows() {
        let mut ids = Ids::begin(NOW, None);
        assert_eq!(ids.take(1), None);
        assert!(!ids.has_room());
        let floor = ids.wanted_floor().expect("a floor");
        ids.raise(floor);
        assert_eq!(ids.take(1), Some(NOW.as_millis() * IDS_PER_MS));
        assert_eq!(ids.wanted_floor(), None, "half a block is left");
    }

    #[test]
    fn ids_rise_across_restarts_and_clock_steps() {
        let (mut floor, mut newest) = (None, 0);
        let clocks = [NOW, NOW, Timestamp::from_millis(0), Timestamp::from_millis(5), NOW];
        for now in clocks {
            let mut ids = Ids::begin(now, floor);
            assert!(ids.last() > newest, "{} after {newest}", ids.last());
            for _ in 0..3 {
                if let Some(wanted) = ids.wanted_floor() {
                    assert!(Some(wanted) > floor, "a floor only rises");
                    floor = Some(wanted);
                    ids.raise(wanted);
                }
                // The process may end after any of these.
                let first =
                    ids.take(usize::try_from(ID_BLOCK / 2).expect("a small block")).expect("free");
                assert!(first > newest);
                newest = ids.last();
                assert!(Some(newest) <= floor, "the store knows of every id that is used");
            }
        }
    }

    #[test]
    fn a_block_is_used_to_its_end_and_no_further() {
        let mut ids = Ids::begin(NOW, None);
        let first = ids.last() + 1;
        ids.raise(first + 9);
        assert_eq!(ids.take(9), Some(first));
        assert_eq!(ids.take(2), None);
        assert_eq!(ids.take(1), Some(first + 9));
        assert_eq!(ids.take(1), None);
    }
}
