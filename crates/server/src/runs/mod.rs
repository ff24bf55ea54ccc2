//! Runs, as everyone but the coordinator sees them.
//!
//! Reading order: `start` (how a run comes into being), `programs` (definitions made ready to
//! run), `canonical` (the hash of a definition), then what is shown of a run: `find`, `board` (its
//! parts, sorted to their nodes), `standing` (where a node stands), `blockers` (what it waits for),
//! `view`, `node_view` and `binding_view` (in words), `promises` (results against their schemas),
//! `definition` (the workflow with states in it). `retry` takes an ended run up again, `explain` says
//! why a node does not run.

mod binding_view;
pub(crate) mod board;
pub(crate) mod canonical;
pub(crate) mod definition;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod node_view;
pub(crate) mod programs;
pub(crate) mod promises;
pub(crate) mod retry;
pub(crate) mod standing;
pub(crate) mod start;
pub(crate) mod view;
