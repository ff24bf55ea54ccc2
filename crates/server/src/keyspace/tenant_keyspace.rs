//! The keyspace of one tenant, as doors use it.

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Operation};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::committer::CommitPoint;
use super::memory::Memory;
use super::waiters::BlockingPop;
use crate::clock::Clock;
use crate::handle::AskError;

/// Keys and values of one tenant.
#[derive(Debug)]
pub struct TenantKeyspace {
    pub(super) clock: Clock,
    pub(super) memory: Mutex<Memory>,
    /// Something has gathered for the store.
    pub(super) gathered: Notify,
}

/// How large a keyspace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceLoad {
    /// Keys that have not ended.
    pub keys: usize,
    /// About how much memory keys and values take.
    pub bytes: usize,
    /// Pops that wait.
    pub waiters: usize,
}

impl TenantKeyspace {
    pub(super) fn new(clock: Clock, keyspace: Keyspace) -> Self {
        let memory = Mutex::new(Memory::new(keyspace));
        Self { clock, memory, gathered: Notify::new() }
    }

    /// Carries out commands in order; the arguments of each begin with its name. No answer may
    /// leave before [`CommitPoint::durable`] says that everything up to it is, and that holds for
    /// answers that only read as well.
    ///
    /// [`Answer::Block`] means that the pop found nothing; [`TenantKeyspace::pop_or_wait`] waits.
    pub fn execute<'a>(
        &self,
        commands: impl IntoIterator<Item = (Operation, &'a [Bytes])>,
    ) -> Result<(Vec<Answer>, CommitPoint), AskError> {
        self.change(|memory| memory.execute(self.clock.now(), commands))
    }

    /// Carries out a pop that may wait, and gives its answer once that is durable.
    ///
    /// Pops of a list are served in the order in which they came, before any other command can take
    /// from it. When this future is dropped before it gave an answer, nothing was taken: an element
    /// that was popped on its behalf goes back to the end from which it came.
    pub async fn pop_or_wait(
        &self,
        operation: Operation,
        arguments: &[Bytes],
    ) -> Result<Answer, AskError> {
        BlockingPop::begin(self, operation, arguments)?.answer().await
    }

    /// How large the keyspace is now.
    pub fn load(&self) -> KeyspaceLoad {
        self.memory.lock().load(self.clock.now())
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
