//! Chance, from the bits that came in with the command.

/// A sequence of numbers that looks random (splitmix64).
#[derive(Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(entropy: u64) -> Self {
        Self { state: entropy }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number below the limit, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let product = u128::from(self.bits()) * limit as u128;
        usize::try_from(product >> 64).expect("below the limit")
    }

    /// So many different numbers below the limit, in random order.
    pub(crate) fn different(&mut self, n: usize, limit: usize) -> Vec<usize> {
        // Floyd's way needs no more room than what it gives.
        let mut chosen = indexmap::IndexSet::<usize, crate::hash_state::HashState>::default();
        for top in limit - n..limit {
            let pick = self.below(top + 1);
            if !chosen.insert(pick) {
                chosen.insert(top);
            }
        }
        let mut chosen: Vec<usize> = chosen.into_iter().collect();
        for last in (1..chosen.len()).rev() {
            chosen.swap(last, self.below(last + 1));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_numbers_are_different_and_fair() {
        let mut n_seen = [0; 10];
        for seed in 0..2_000 {
            let mut numbers = Dice::new(seed).different(4, 10);
            for number in &numbers {
                n_seen[*number] += 1;
            }
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 4);
        }
        // Each of ten is expected in 4 of 10 draws.
        assert!(n_seen.iter().all(|n| (700..900).contains(n)), "{n_seen:?}");
    }
}
