//! The demo: a story with real processes, real kills and a count at the end.
//!
//! Reading order: `story` (what happens when), `stage` (what is seen), `tally` (what is counted),
//! `workflow` (a small one at the end).

mod stage;
mod story;
mod tally;
mod workflow;

pub(crate) use story::{Played, play};
pub(crate) use tally::{Tally, doubles};
