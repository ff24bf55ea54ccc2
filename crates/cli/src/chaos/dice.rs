//! Chance from a seed, so that a run can be repeated as far as real processes allow.

use std::time::Duration;

/// splitmix64: tiny, and good enough to choose whom to kill.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Dice of their own for `part`, so that parts do not disturb each other's throws.
    pub(crate) fn fork(&self, part: u64) -> Self {
        Self { state: self.state ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 to `end`, `end` excluded.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// An index into something of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True once in so many throws.
    pub(crate) fn one_in(&mut self, throws: u64) -> bool {
        self.below(throws) == 0
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}
