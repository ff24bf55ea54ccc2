//! Pops that wait until a list grows: first come, first served, and nothing is lost whenever a
//! client goes away.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use keyspace::{Answer, Operation};
use tokio::sync::oneshot;

use super::committer::CommitPoint;
use super::memory::PopStart;
use super::tenant_keyspace::TenantKeyspace;
use crate::handle::AskError;

/// Limit: pops of one tenant that wait at the same time; one more is refused.
pub const WAITERS_MAX: usize = 10_000;

/// What a pop came to.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) answer: Answer,
    pub(super) point: CommitPoint,
}

/// Names a waiter; later ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterId(u64);

/// One pop that waits. Its client holds the other end, and takes its waiter out of the table before
/// it goes.
#[derive(Debug)]
pub(super) struct Waiter {
    operation: Operation,
    arguments: Vec<Bytes>,
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
        self.all.len() >= WAITERS_MAX
    }

    /// Adds a pop to the end of the line of each of these keys.
    pub(super) fn add(
        &mut self,
        (operation, arguments): (Operation, Vec<Bytes>),
        keys: Vec<Bytes>,
    ) -> (WaiterId, oneshot::Receiver<Served>) {
        let (served, receiver) = oneshot::channel();
        let id = WaiterId(self.n_before);
        self.n_before += 1;
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().insert(id);
        }
        self.all.insert(id, Waiter { operation, arguments, keys, served });
        (id, receiver)
    }

    /// The first in the line of a key.
    pub(super) fn first_of(&self, key: &Bytes) -> Option<WaiterId> {
        self.by_key.get(key)?.first().copied()
    }

    /// Everyone, in the order in which they came.
    pub(super) fn ids(&self) -> Vec<WaiterId> {
        self.all.keys().copied().collect()
    }

    pub(super) fn command(&self, id: WaiterId) -> (Operation, &[Bytes]) {
        let Waiter { operation, arguments, .. } = &self.all[&id];
        (*operation, arguments)
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

/// A pop on its way to an answer. When it is dropped before that, the pop is undone.
pub(super) struct BlockingPop<'a> {
    keyspace: &'a TenantKeyspace,
    state: State,
}

enum State {
    /// In line.
    Waits { id: WaiterId, served: oneshot::Receiver<Served>, timeout: Option<Duration> },
    /// Popped, perhaps not durable yet.
    Served(Served),
    /// The client has the answer.
    Answered,
}

impl<'a> BlockingPop<'a> {
    pub(super) fn begin(
        keyspace: &'a TenantKeyspace,
        operation: Operation,
        arguments: &[Bytes],
    ) -> Result<Self, AskError> {
        let now = keyspace.clock.now();
        let state = match keyspace.change(|memory| memory.begin_pop(now, operation, arguments))? {
            PopStart::Served(served) => State::Served(served),
            PopStart::Waits { id, served, timeout } => State::Waits { id, served, timeout },
        };
        Ok(Self { keyspace, state })
    }

    pub(super) async fn answer(mut self) -> Result<Answer, AskError> {
        if let State::Waits { id, served, timeout } = &mut self.state {
            let waited = match timeout {
                Some(timeout) => tokio::time::timeout(*timeout, &mut *served).await,
                None => Ok((&mut *served).await),
            };
            self.state = match waited {
                Ok(Ok(served)) => State::Served(served),
                // The keyspace has ended.
                Ok(Err(_)) => return Err(self.keyspace.memory.lock().why_ended()),
                Err(_) => match self.keyspace.leave(*id, served) {
                    // It was served at the last moment.
                    Some(served) => State::Served(served),
                    None => State::Answered,
                },
            };
        }
        let State::Served(served) = &self.state else { return Ok(Answer::NullArray) };
        served.point.durable().await?;
        // No step lies between this and the client, so the answer cannot be lost on the way.
        match std::mem::replace(&mut self.state, State::Answered) {
            State::Served(served) => Ok(served.answer),
            State::Waits { .. } | State::Answered => unreachable!("it was just looked at"),
        }
    }
}

impl Drop for BlockingPop<'_> {
    fn drop(&mut self) {
        let served = match std::mem::replace(&mut self.state, State::Answered) {
            State::Waits { id, mut served, .. } => self.keyspace.leave(id, &mut served),
            State::Served(served) => Some(served),
            State::Answered => None,
        };
        // Nothing left the keyspace but by a pop: a move keeps its element in the other list.
        let Some(Served { answer: Answer::Popped(popped), point }) = served else { return };
        let now = self.keyspace.clock.now();
        self.keyspace.change(|memory| memory.give_back(now, popped, &point));
    }
}

impl TenantKeyspace {
    /// Leaves the line. A pop that was served before that gets what it was served.
    fn leave(&self, id: WaiterId, served: &mut oneshot::Receiver<Served>) -> Option<Served> {
        // Serving happens under the same lock: either it came before, or it never comes.
        let has_left = self.memory.lock().end_wait(id);
        if has_left { None } else { served.try_recv().ok() }
    }
}

#[cfg(test)]
mod tests {
    use keyspace::lists::blpop;

    use super::*;

    fn keys(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    #[test]
    fn lines_are_in_the_order_of_arrival_and_leave_nothing_behind() {
        let mut waiters = Waiters::default();
        let (first, _a) = waiters.add((blpop, keys(&["1"])), keys(&["x", "y", "x"]));
        let (second, _b) = waiters.add((blpop, keys(&["2"])), keys(&["y", "x"]));
        let x = Bytes::from_static(b"x");
        assert_eq!(waiters.first_of(&x), Some(first));
        assert!(waiters.remove(first).is_some());
        assert!(waiters.remove(first).is_none());
        assert_eq!(waiters.first_of(&x), Some(second));
        assert_eq!(waiters.command(second).1, keys(&["2"]));
        assert!(waiters.remove(second).is_some());
        assert_eq!((waiters.first_of(&x), waiters.len()), (None, 0));
        assert!(waiters.by_key.is_empty());
    }
}
