//! Random numbers from a seed, so that a run can be repeated as far as real processes allow.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Choices of a run; a copy of the seed stays, for parts that choose on their own.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    seed: u64,
    numbers: model::Rng,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, numbers: model::Rng::new(seed) }
    }

    /// A generator for `part`, so that parts do not disturb each other's choices.
    pub(crate) fn fork(&self, part: u64) -> Self {
        Self::new(self.seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// From 0 to `end`, `end` excluded.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.numbers.below(end)
    }

    /// An index into something of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True once in so many calls, on average.
    pub(crate) fn one_in(&mut self, calls: u64) -> bool {
        self.below(calls) == 0
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// A seed for a run that was given none: six digits differ from yesterday's, and are short enough to
/// type again.
pub(crate) fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since_1970.subsec_micros())
}
