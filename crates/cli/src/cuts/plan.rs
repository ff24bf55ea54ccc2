//! Which fault happens to whom, all of it from the seed.

use crate::chaos::Dice;
use crate::proxy::{Direction, Fault, Kind};

/// Connections that end do so within this many bytes: in the handshake, in a frame, between two.
const AFTER_BYTES_MAX: u64 = 6_000;

/// A fault, and the worker whose connection it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) worker: usize,
    pub(super) fault: Fault,
}

/// `n_faults` faults of these kinds for so many workers; each kind is there as often as others.
pub(super) fn plan(
    n_faults: usize,
    kinds: &[Kind],
    n_workers: usize,
    dice: &mut Dice,
) -> Vec<Planned> {
    let mut faults: Vec<_> = (0..n_faults)
        .map(|number| {
            let kind = kinds[number % kinds.len()];
            Planned { worker: dice.index(n_workers), fault: fault(kind, dice) }
        })
        .collect();
    for last in (1..faults.len()).rev() {
        faults.swap(last, dice.index(last + 1));
    }
    faults
}

fn fault(kind: Kind, dice: &mut Dice) -> Fault {
    let direction = if dice.one_in(2) { Direction::Up } else { Direction::Down };
    // One in four ends at once: right after whatever was written last.
    let after_bytes = if dice.one_in(4) { 0 } else { dice.below(AFTER_BYTES_MAX) };
    let lasts = match kind {
        Kind::Delay => dice.millis(50, 800),
        Kind::Stall => dice.millis(100, 1_500),
        _ => dice.millis(200, 1_500),
    };
    Fault { kind, direction, after_bytes, lasts }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_seed_makes_one_plan_with_every_kind_in_it() {
        let of = |seed| plan(40, Kind::value_variants(), 3, &mut Dice::new(seed));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        for kind in Kind::value_variants() {
            assert_eq!(of(7).iter().filter(|planned| planned.fault.kind == *kind).count(), 5);
        }
        assert!((0..3).all(|worker| of(7).iter().any(|planned| planned.worker == worker)));
    }
}
