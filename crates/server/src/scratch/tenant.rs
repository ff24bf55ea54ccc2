//! The keyspace of one tenant, as doors use it.

use bytes::Bytes;
use keyspace::{Answer, Keyspace};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::Mark;
use super::memory::{Memory, Waking};
use super::turn::Turn;
use crate::clock::Clock;
use crate::handle::AskError;

/// Keys and values of one tenant.
#[derive(Debug)]
pub struct TenantScratch {
    pub(super) clock: Clock,
    pub(super) memory: Mutex<Memory>,
    /// Something has gathered for the store.
    pub(super) gathered: Notify,
}

/// How large a keyspace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScratchLoad {
    /// Keys.
    pub keys: usize,
    /// About how much memory keys and values take.
    pub bytes: usize,
    /// Pops that wait.
    pub waiters: usize,
}

impl TenantScratch {
    pub(super) fn new(clock: Clock, keyspace: Keyspace) -> Self {
        let memory = Mutex::new(Memory::new(keyspace));
        Self { clock, memory, gathered: Notify::new() }
    }

    /// Carries out commands in order. No answer may leave before [`TenantScratch::durable`] says
    /// that everything up to the mark is, and that holds for answers that only read as well.
    ///
    /// [`Answer::Block`] means that there was nothing to take; who wants to wait for it asks
    /// [`TenantScratch::wait_turn`].
    pub fn execute<C: AsRef<[Bytes]>>(
        &self,
        commands: &[C],
    ) -> Result<(Vec<Answer>, Mark), AskError> {
        self.change(|memory| memory.execute(self.clock.now(), commands, Waking::Each))
    }

    /// The same as one step: pops that wait hear of it after the last command, and commands that
    /// would wait find nothing. All changes become durable together.
    pub fn transact<C: AsRef<[Bytes]>>(
        &self,
        commands: &[C],
    ) -> Result<(Vec<Answer>, Mark), AskError> {
        self.change(|memory| memory.execute(self.clock.now(), commands, Waking::Last))
    }

    /// Waits until everything up to a mark is durable. An error means that the answers must not
    /// leave: what they say is lost, or may be.
    pub async fn durable(&self, mark: &Mark) -> Result<(), AskError> {
        mark.durable().await
    }

    /// Carries out a command that may wait, and gives its answer once that is durable.
    ///
    /// Who waits longest for a list is served first, before any other command can take from it.
    /// When this future is dropped before it gave an answer, nothing was taken: an element that was
    /// popped on its behalf goes back to the end from which it came.
    pub async fn wait_turn(&self, command: &[Bytes]) -> Result<Answer, AskError> {
        Turn::begin(self, command)?.answer().await
    }

    /// How large the keyspace is now.
    pub fn load(&self) -> ScratchLoad {
        let (keys, bytes, waiters) = self.memory.lock().load();
        ScratchLoad { keys, bytes, waiters }
    }

    /// Does something under the lock, and tells the committer if there is something for it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.memory.lock();
        let changed = change(&mut memory);
        let has_gathered = memory.has_gathered();
        drop(memory);
        if has_gathered {
            self.gathered.notify_one();
        }
        changed
    }
}
