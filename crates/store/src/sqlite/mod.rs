//! The embedded store: one SQLite file in a data folder that one process owns.
//!
//! Reading order: `store` (the contract), `open` (folder, lock, settings), `migrations`,
//! `queue` and `writer` (one thread writes everything, in order), `part` (what shares a
//! transaction), `commit` (rows of tasks), `specs` (what tasks share), `run_commit` (rows of runs), `scratch` (rows of keys and
//! values), `checkpoint` (keeps the write-ahead log short), `restore`, `read` and `run_read` (pages
//! and look-ups), `record` and `run_record` (rows become tasks and runs again), `documents`
//! (what a tenant keeps beside its tasks).
//!
//! What is promised: an answer of `commit` means that the turn is synced to the disk; a turn is
//! kept as a whole or not at all; a turn of a stale claim is never kept; nothing is ever deleted
//! because it cannot be read.

mod checkpoint;
mod commit;
mod documents;
mod error;
mod failpoint;
mod migrations;
mod open;
mod part;
mod queue;
mod read;
mod record;
mod restore;
mod run_commit;
mod run_read;
mod run_record;
mod schedules;
mod scratch;
mod settings;
mod specs;
mod store;
mod writer;

pub use failpoint::Failpoint;
pub use store::SqliteStore;
