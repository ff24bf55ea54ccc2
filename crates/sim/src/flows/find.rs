//! Planted bugs that only runs of workflows suffer from.

use super::world::run;
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
