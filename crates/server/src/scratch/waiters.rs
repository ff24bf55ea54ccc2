//! Pops that wait until a list grows: first come, first served.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use keyspace::Answer;
use tokio::sync::oneshot;

use super::batch::Mark;

/// Pops of one tenant that wait at the same time; one more is refused.
pub const SCRATCH_WAITERS_MAX: usize = 10_000;

/// What a pop came to.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) answer: Answer,
    pub(super) mark: Mark,
}

/// Names a waiter; later ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterId(u64);

/// One pop that waits. Whoever asked for it holds the other end and is there: it takes its waiter
/// out of the table before it goes.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) command: Vec<Bytes>,
    keys: Vec<Bytes>,
    pub(super) served: oneshot::Sender<Served>,
}

/// Everyone who waits.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: BTreeMap<WaiterId, Waiter>,
    by_key: HashMap<Bytes, BTreeSet<WaiterId>, foldhash::fast::RandomState>,
    n_before: u64,
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= SCRATCH_WAITERS_MAX
    }

    /// The last in the line of each of these keys.
    pub(super) fn add(
        &mut self,
        command: Vec<Bytes>,
        keys: Vec<Bytes>,
    ) -> (WaiterId, oneshot::Receiver<Served>) {
        let (served, receiver) = oneshot::channel();
        let id = WaiterId(self.n_before);
        self.n_before += 1;
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().insert(id);
        }
        self.all.insert(id, Waiter { command, keys, served });
        (id, receiver)
    }

    /// Who is first in the line of a key.
    pub(super) fn first_of(&self, key: &Bytes) -> Option<WaiterId> {
        self.by_key.get(key)?.first().copied()
    }

    /// Everyone, in the order in which they came.
    pub(super) fn ids(&self) -> Vec<WaiterId> {
        self.all.keys().copied().collect()
    }

    pub(super) fn command(&self, id: WaiterId) -> &[Bytes] {
        &self.all[&id].command
    }

    /// Takes a waiter out of every line, if it is still in them.
    pub(super) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.all.remove(&id)?;
        for key in &waiter.keys {
            let line = self.by_key.get_mut(key);
            // A key may be named twice.
            let Some(line) = line else { continue };
            line.remove(&id);
            if line.is_empty() {
                self.by_key.remove(key);
            }
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    #[test]
    fn lines_are_in_the_order_of_arrival_and_leave_nothing_behind() {
        let mut waiters = Waiters::default();
        let (first, _a) = waiters.add(keys(&["1"]), keys(&["x", "y", "x"]));
        let (second, _b) = waiters.add(keys(&["2"]), keys(&["y", "x"]));
        let x = Bytes::from_static(b"x");
        assert_eq!(waiters.first_of(&x), Some(first));
        assert!(waiters.remove(first).is_some());
        assert!(waiters.remove(first).is_none());
        assert_eq!(waiters.first_of(&x), Some(second));
        assert_eq!(waiters.command(second), keys(&["2"]));
        assert!(waiters.remove(second).is_some());
        assert_eq!((waiters.first_of(&x), waiters.len()), (None, 0));
        assert!(waiters.by_key.is_empty());
    }
}
