//! Remembers: facts become durable here before anyone hears of them, and come back after a crash.
//!
//! Reading order: [`Store`] (what every store owes the coordinator), [`Tables`] (the same in plain
//! memory: the reference), [`conformance`] (the promise as tests), `rows` (changes become row
//! writes), `scratch_rows` (the same for keys and values), [`sqlite`] (the embedded store).

mod binding_document;
mod claims;
#[doc(hidden)]
pub mod conformance;
mod contract;
mod link_document;
mod memory;
mod page;
mod pin_document;
mod rows;
mod run_tables;
mod scratch_rows;
mod scratch_tables;
mod spec_document;
pub mod sqlite;
mod tables;
mod words;

pub use claims::Claims;
pub use contract::{
    CommitError, Committed, DocumentVersion, Note, NoteKind, PageQuery, RunKey, RunPage, RunParts,
    RunQuery, ScratchTurn, Store, StoreError, StoreFuture, TaskPage, TokenRow,
};
pub use memory::MemoryStore;
pub use page::{PAGE_BYTES_MAX, ROWS_PER_LIST_MAX};
pub use rows::Contradiction;
pub use sqlite::SqliteStore;
pub use tables::Tables;
