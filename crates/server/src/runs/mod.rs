//! Runs, as everyone but the coordinator sees them.
//!
//! Reading order: `start` (how a run comes into being), `programs` (definitions made ready to
//! run), then what is shown of a run: `run_snapshot` (its parts, sorted to their nodes), `view` and
//! `node_view` (in words), `definition` (the workflow with states in it). `retry` takes an ended run
//! up again, `explain` says why a node does not run.

pub(crate) mod definition;
pub(crate) mod explain;
pub(crate) mod node_view;
pub(crate) mod programs;
pub(crate) mod retry;
pub(crate) mod run_snapshot;
pub(crate) mod start;
pub(crate) mod view;
