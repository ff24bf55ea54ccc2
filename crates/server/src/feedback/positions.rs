//! How much of each attempt's output a log holds: what is sent again is recognised by it.

use std::collections::BTreeMap;

/// Attempts of one task whose position is known; what an older one sends late is not kept.
pub(super) const EPOCHS_MAX: usize = 64;

/// For each lease epoch, the byte of its output that comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Positions(BTreeMap<u32, u64>);

/// What is to be done with bytes that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing: all of them are held.
    Held,
    /// Note that `gap` bytes before them never came, leave out the first `skip` and keep the rest.
    Fresh { skip: u64, gap: u64 },
}

impl Positions {
    /// Where `length` bytes from `position` on belong.
    pub(super) fn place(&self, epoch: u32, position: u64, length: u64) -> Place {
        if self.has_forgotten(epoch) {
            return Place::Held;
        }
        let next = self.next_of(epoch);
        if position + length <= next {
            return Place::Held;
        }
        Place::Fresh { skip: next.saturating_sub(position), gap: position.saturating_sub(next) }
    }

    /// Everything before `next` is held, or known to be lost.
    pub(super) fn advance(&mut self, epoch: u32, next: u64) {
        let known = self.0.entry(epoch).or_default();
        *known = next.max(*known);
        if self.0.len() > EPOCHS_MAX {
            self.0.pop_first();
        }
    }

    /// The byte that comes next.
    pub(super) fn next_of(&self, epoch: u32) -> u64 {
        self.0.get(&epoch).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u64)> {
        self.0.iter().map(|(epoch, next)| (*epoch, *next))
    }

    /// Whether the epoch is older than all that are remembered.
    fn has_forgotten(&self, epoch: u32) -> bool {
        let oldest = self.0.first_key_value().map(|(oldest, _)| *oldest);
        self.0.len() == EPOCHS_MAX && oldest.is_some_and(|oldest| epoch < oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_left_out_and_what_never_came_is_noted() {
        let mut positions = Positions::default();
        assert_eq!(positions.place(1, 0, 4), Place::Fresh { skip: 0, gap: 0 });
        positions.advance(1, 4);
        assert_eq!(positions.place(1, 0, 4), Place::Held);
        assert_eq!(positions.place(1, 3, 1), Place::Held);
        assert_eq!(positions.place(1, 2, 5), Place::Fresh { skip: 2, gap: 0 });
        assert_eq!(positions.place(1, 9, 1), Place::Fresh { skip: 0, gap: 5 });
        assert_eq!(positions.place(2, 0, 1), Place::Fresh { skip: 0, gap: 0 });
    }

    #[test]
    fn attempts_that_are_long_over_are_forgotten() {
        let mut positions = Positions::default();
        for epoch in 1..=200 {
            positions.advance(epoch, 10);
        }
        assert_eq!(positions.iter().len(), EPOCHS_MAX);
        assert_eq!(positions.place(1, 50, 1), Place::Held);
        assert_eq!(positions.place(201, 0, 1), Place::Fresh { skip: 0, gap: 0 });
    }
}
