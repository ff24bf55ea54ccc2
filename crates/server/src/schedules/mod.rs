//! Workflows that are started by the clock, and by calls from outside. When the clock starts one is
//! the coordinator's decision.
//!
//! Reading order: `prepare` (the run of a moment), `backfill` (moments that have passed); `hooks`
//! are their neighbours.

pub(crate) mod backfill;
pub(crate) mod hooks;
pub(crate) mod prepare;
