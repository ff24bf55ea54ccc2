//! The demo: a story with real processes, real kills and a count at the end.
//!
//! Reading order: `story` (what happens when), `stage` (what is seen), `tally` (what is counted).

mod stage;
mod story;
mod tally;

pub(crate) use story::play;
pub(crate) use tally::{Tally, doubles};
