//! What the coordinator promises, as short stories with times, and as properties of random ones.
//!
//! Reading order: `story` (how a story is told), `verdicts` (the worker contract), then one file
//! per subject, then `prop` (random histories against a simple model).

#![expect(clippy::needless_raw_string_hashes, reason = "`UPDATE_EXPECT=1` writes them")]

mod affinity;
mod after;
mod drain;
mod explain;
mod load;
mod pause;
mod peek;
mod pins;
mod placement;
mod prop;
mod restart;
mod retry;
mod runs;
mod schedule;
mod story;
mod submit;
mod verdicts;
mod workers;
