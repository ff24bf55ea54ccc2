//! Dice from a seed: the only source of chance in a run.

/// A generator of the family xoshiro256**: small, fast, the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice {
    state: [u64; 4],
}

/// One step of splitmix64: scatters a number over 64 bits.
pub(crate) fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Dice {
    /// Dice for one purpose. Each purpose has its own, so that taking a kind of fault out of a
    /// run leaves the other throws as they were: that is what makes shrinking work.
    pub fn for_purpose(seed: u64, purpose: &str) -> Self {
        let label = purpose.bytes().fold(seed, |hash, byte| scatter(hash ^ u64::from(byte)));
        Self::of_parts(seed, label, 0)
    }

    /// Dice for one thing that has two numbers, like a task and its epoch.
    pub fn of_parts(seed: u64, first: u64, second: u64) -> Self {
        let mut x = scatter(seed ^ scatter(first ^ scatter(second)));
        let mut next = || {
            x = scatter(x);
            x
        };
        Self { state: [next(), next(), next(), next() | 1] }
    }

    /// Sixty-four fresh bits.
    pub fn bits(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `limit`; zero if there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.bits() % limit }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A position in a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of these, if there is any.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let index = self.index(choices.len());
        choices.get(index)
    }

    /// Mostly near `base`, sometimes many times as long: each doubling is half as likely.
    pub fn heavy_tail(&mut self, base: u64, doublings_max: u32) -> u64 {
        let doublings = self.bits().trailing_zeros().min(doublings_max);
        let top = base << doublings;
        self.between(top / 2, top)
    }
}
