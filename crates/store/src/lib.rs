//! Remembers: facts become durable here before anyone hears of them, and come back after a crash.
//!
//! Reading order: [`Store`] (what every store owes the coordinator; `tests/it/conformance` asks every
//! store for it), `rows` (changes become row writes),
//! `stored_json` (values that are one text in a row), [`sqlite`] (the embedded store).

mod claims;
mod contract;
mod page;
mod rows;
pub mod sqlite;
mod stored_json;
mod words;

pub use claims::{Claims, TurnKind};
pub use contract::{
    CommitError, Committed, Detail, DocumentVersion, KeyspaceTurn, Note, NoteKind, PageQuery,
    RunKey, RunPage, RunQuery, SUMMARY_PARAMETERS_BYTES, SUMMARY_RESULT_BYTES_MAX, Store,
    StoreError, StoreFuture, StoreRead, StoreWrite, TaskPage, TokenRow,
};
pub use page::{PAGE_BYTES_MAX, ROWS_PER_LIST_MAX};
pub use rows::{Contradiction, add_facts, check_order, check_runs_are_own};
pub use sqlite::SqliteStore;
