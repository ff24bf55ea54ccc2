//! Runs of random workflows under faults, compared with a simple interpreter.
//!
//! Reading order: `generate` (a workflow from a seed), `deeds` (what its steps do: always the same,
//! whoever executes them), `interpret` (what must come of it), `world` (workers, crashes, lost
//! leases, repeated words), `checks` (what must be true of every turn that is kept).

mod checks;
mod deeds;
mod generate;
mod interpret;
mod world;

pub use world::{FlowResult, run};

use crate::planted::Planted;
use crate::run::plant;

/// The first seed that a planted bug breaks, with what it breaks.
pub fn find(bug: Planted, seeds: std::ops::Range<u64>) -> Option<(u64, String)> {
    plant(Some(bug));
    let mut broken = seeds.filter_map(|seed| Some((seed, run(seed).err()?)));
    let found = broken.next();
    plant(None);
    found
}
