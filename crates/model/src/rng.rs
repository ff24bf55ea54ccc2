//! Pseudo-random numbers: the same for the same seed, spread well, not secret.

use std::time::Duration;

/// A small generator (splitmix64), seeded by the caller.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 to `end`, `end` excluded.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end.max(1)
    }

    /// A jitter from nothing to `limit`, in whole milliseconds.
    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.below(millis + 1))
    }
}
