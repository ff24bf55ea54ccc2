//! Keys in the order in which they were last used.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Which keys were used, and in which order.
#[derive(Debug)]
pub(super) struct Recent<K> {
    by_turn: BTreeMap<u64, K>,
    turns: HashMap<K, u64, RandomState>,
    next_turn: u64,
}

impl<K: Copy + Eq + Hash> Recent<K> {
    pub(super) fn new() -> Self {
        Self { by_turn: BTreeMap::new(), turns: HashMap::default(), next_turn: 0 }
    }

    /// The key is in use.
    pub(super) fn touch(&mut self, key: K) {
        let turn = self.next_turn;
        self.next_turn += 1;
        if let Some(before) = self.turns.insert(key, turn) {
            self.by_turn.remove(&before);
        }
        self.by_turn.insert(turn, key);
    }

    pub(super) fn remove(&mut self, key: K) {
        if let Some(turn) = self.turns.remove(&key) {
            self.by_turn.remove(&turn);
        }
    }

    /// Takes the key that was not used for longest.
    pub(super) fn pop_oldest(&mut self) -> Option<K> {
        let (_, key) = self.by_turn.pop_first()?;
        self.turns.remove(&key);
        Some(key)
    }

    pub(super) fn len(&self) -> usize {
        self.by_turn.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_goes_last() {
        let mut recent = Recent::new();
        for key in [1, 2, 3, 1] {
            recent.touch(key);
        }
        recent.remove(3);
        assert_eq!(recent.len(), 2);
        assert_eq!((recent.pop_oldest(), recent.pop_oldest()), (Some(2), Some(1)));
        assert_eq!(recent.pop_oldest(), None);
    }
}
