//! Both ends over a wire that is cut, and processes that die, at every moment there is.
//!
//! The judge in `world` knows what each end was given: in order, once, nothing left out without a
//! reset, nothing confirmed that is not durable.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::world::{Blow, Counts, Faults, World};

pub(crate) fn check(seed: u64, faults: Faults, limit: Duration) -> Counts {
    let mut world = World::new(seed, faults);
    world.run(limit);
    world.counts
}

#[test]
fn frames_pass_in_both_directions() {
    let counts = check(1, Faults::none(), Duration::from_secs(5));
    assert_eq!((counts.sessions, counts.resets, counts.gave_up), (1, 0, 0));
}

/// Six frames each way, a window of four, two blows of every kind at every boundary of frames.
#[test]
fn every_pair_of_blows_is_survived() {
    let frames = check(1, Faults::none(), Duration::from_secs(5)).frames;
    let mut n_runs = 0;
    let mut n_resumes = 0;
    for (one, two) in pairs_of_blows() {
        for first in 1..=frames {
            for second in first + 1..=2 * frames + 10 {
                let blows = BTreeMap::from([(first, one), (second, two)]);
                let faults = Faults { blows, ..Faults::none() };
                let counts = check(first * 1000 + second, faults, Duration::from_mins(5));
                let told = format!("{one:?} after {first}, {two:?} after {second}");
                assert_eq!(counts.gave_up, 0, "{told}");
                assert!(counts.sessions <= 3, "{told}");
                check_resets(counts, one, two, &told);
                n_runs += 1;
                n_resumes += counts.resumes;
            }
        }
    }
    println!("{n_runs} runs, {n_resumes} resumes, {frames} frames without blows");
    assert!(n_resumes > n_runs / 2, "resumes are exercised");
}

/// A connection may be lost at any time without the session being lost.
fn check_resets(counts: Counts, one: Blow, two: Blow, told: &str) {
    let may_forget = [one, two].contains(&Blow::WorkerRestart);
    // A session whose accept the worker never heard is begun anew.
    assert!(may_forget || counts.resets == 0, "{told}: {counts:?}");
}

fn pairs_of_blows() -> Vec<(Blow, Blow)> {
    Blow::ALL.iter().flat_map(|one| Blow::ALL.iter().map(|two| (*one, *two))).collect()
}

#[test]
fn a_wire_that_loses_a_third_of_all_frames_still_makes_progress() {
    for seed in 0..200 {
        let faults = Faults {
            loss_percent: 30,
            duplicate_percent: 10,
            delay_ms_max: 50,
            frames: 100,
            ..Faults::none()
        };
        check(seed, faults, Duration::from_mins(30));
    }
}

#[test]
fn a_slow_store_does_not_end_the_session() {
    let faults = Faults { commit_delay_ms_max: 40_000, ..Faults::none() };
    for seed in 0..50 {
        let counts = check(seed, faults.clone(), Duration::from_mins(10));
        assert_eq!((counts.sessions, counts.gave_up), (1, 0));
    }
}
