//! Workflows that are started by the clock, and by calls from outside. When the clock starts one is
//! the coordinator's decision.
//!
//! Reading order: `prepare` (the run of a moment, and of moments that have passed); `hooks` are its
//! neighbours.

pub(crate) mod hooks;
pub(crate) mod prepare;
