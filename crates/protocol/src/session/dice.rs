//! Random bits for jitter: not secret, only spread, and the same for the same seed.

use std::time::Duration;

/// A small generator (splitmix64), seeded by the caller.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Anything from nothing to `limit`, in milliseconds.
    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.roll() % (millis + 1))
    }
}
