//! The embedded store: one SQLite file in a data folder that one process owns.
//!
//! Reading order: `store` (the contract), `open` (folder, lock, settings, checkpoints that keep the write-ahead log short), `migrations`,
//! `writer` (one thread writes everything, in order), `part` (what shares a
//! transaction), `commit` (rows of tasks), `specs` (what tasks share), `run_commit` (rows of runs), `keys` (rows of keys and
//! values), `restore`, `read` and `run_read` (pages
//! and look-ups), `record` (rows become tasks again), `documents`
//! (what a tenant keeps beside its tasks).
//!
//! What is promised: an answer of `commit` means that the turn is synced to the disk; a turn is
//! kept as a whole or not at all; a turn of a stale claim is never kept; nothing is ever deleted
//! because it cannot be read.

mod commit;
mod documents;
mod error;
mod keys;
mod migrations;
mod open;
mod part;
mod read;
mod record;
mod restore;
mod run_commit;
mod run_read;
mod schedules;
mod settings;
mod specs;
mod store;
mod writer;

pub use store::SqliteStore;
pub use writer::Failpoint;
