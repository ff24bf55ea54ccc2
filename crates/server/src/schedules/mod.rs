//! Workflows that are started by the clock, and by calls from outside.
//!
//! Reading order: `cron` (when), `schedule` (what is kept), `registry` (all of them), `fire` (what
//! happens when a time has come), `clockwork` (the loop), `backfill` (times that have passed);
//! `hooks` are their neighbours.

pub(crate) mod backfill;
pub(crate) mod clockwork;
pub(crate) mod cron;
pub(crate) mod fire;
pub(crate) mod hooks;
pub(crate) mod registry;
pub(crate) mod schedule;
