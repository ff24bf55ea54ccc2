//! Random bits for jitter: not secret, only spread.

/// A small generator (splitmix64), seeded once from the system.
#[derive(Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn seeded() -> Self {
        let mut seed = [0; 8];
        // Without a seed the jitter repeats from start to start, which hurts nobody.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        Self { state: u64::from_le_bytes(seed) }
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
