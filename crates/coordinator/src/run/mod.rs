//! Runs: which nodes of a workflow have ended, which are being executed, and what begins next.
//!
//! Reading order: `change` (every fact that can become true of a run), `run_state` (a live run),
//! `apply` (the only code that writes it), `dag` (nodes), `node_status` (what becomes of one), `subgraph` (and lists),
//! `middleware`, `signal`, `restore`, `invariants`.

pub(crate) mod apply;
pub(crate) mod change;
pub(crate) mod dag;
mod invariants;
pub(crate) mod middleware;
pub(crate) mod node_status;
mod restore;
mod restore_unnumbered;
pub(crate) mod run_state;
pub(crate) mod signal;
mod subgraph;
