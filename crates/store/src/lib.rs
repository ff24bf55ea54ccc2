//! Remembers: facts become durable here before anyone hears of them, and come back after a crash.
//!
//! Reading order: [`Store`] (what every store owes the coordinator), [`Tables`] (the same in plain
//! memory: the reference), [`conformance`] (the promise as tests), `rows` (changes become row
//! writes), `scratch_rows` (the same for keys and values), `stored_json` (values that are one text in a
//! row), [`sqlite`] (the embedded store).

mod claims;
#[doc(hidden)]
pub mod conformance;
mod contract;
mod memory;
mod page;
mod rows;
mod run_tables;
mod scratch_rows;
mod scratch_tables;
pub mod sqlite;
mod stored_json;
mod tables;
mod words;

pub use claims::Claims;
pub use contract::{
    CommitError, Committed, Detail, DocumentVersion, Note, NoteKind, PageQuery, RunKey, RunPage,
    RunParts, RunQuery, SUMMARY_PARAMETERS_BYTES, SUMMARY_RESULT_BYTES_MAX, ScratchTurn, Store,
    StoreError, StoreFuture, TaskPage, TokenRow,
};
pub use memory::MemoryStore;
pub use page::{PAGE_BYTES_MAX, ROWS_PER_LIST_MAX};
pub use rows::Contradiction;
pub use sqlite::SqliteStore;
pub use tables::Tables;
