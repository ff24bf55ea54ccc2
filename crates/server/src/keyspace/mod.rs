//! Keys and values of a tenant, durable.
//!
//! Commands are carried out in memory, under one short lock. The keys that they changed gather in a
//! batch, a task gives batches to the store, and no answer leaves before everything that it may have
//! seen is durable.
//!
//! Reading order: `tenant_keyspace` (what doors use), `memory` (what the lock guards), `committer`
//! (changes, whoever waits for them, and their way to the store), `waiters` (pops that wait, and
//! pops that nobody took).

mod committer;
mod memory;
mod tenant_keyspace;
mod waiters;

pub use committer::CommitPoint;
pub(crate) use committer::open;
pub use memory::PENDING_BYTES_MAX;
pub use tenant_keyspace::{KeyspaceLoad, TenantKeyspace};
pub use waiters::WAITERS_MAX;
