//! Keys and values of a tenant, as Redis keeps them, and durable.
//!
//! Commands are carried out in memory, under one short lock. What they changed gathers in a batch,
//! a task gives batches to the store, and no answer leaves before everything that it may have seen
//! is durable.
//!
//! Reading order: `tenant` (the keyspace, for doors), `batch` (changes
//! and who waits for them), `memory` (what the lock guards), `committer` (to the store, and back
//! after a failure), `waiters` and `turn` (pops that wait), `give_back` (pops that nobody took).

mod batch;
mod committer;
mod give_back;
mod memory;
mod tenant;
mod turn;
mod waiters;

pub use batch::Mark;
pub(crate) use committer::open;
pub use committer::{
    SCRATCH_BATCHES_IN_FLIGHT_MAX, SCRATCH_BYTES_MAX, SCRATCH_ELEMENTS_MAX, SCRATCH_KEYS_MAX,
    SCRATCH_VALUE_BYTES_MAX,
};
pub use memory::SCRATCH_PENDING_BYTES_MAX;
pub use tenant::{ScratchLoad, TenantScratch};
pub use waiters::SCRATCH_WAITERS_MAX;
