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
    let (mut n_resumes, mut n_drains) = (0, 0);
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
                n_drains += counts.drains;
            }
        }
    }
    println!("{n_runs} runs, {n_resumes} resumes, {frames} frames without blows");
    assert!(n_resumes > n_runs / 3, "resumes are exercised");
    assert!(n_drains > n_runs / 10, "drains are exercised, with frames on their way");
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

/// The judge of costs in `world` stops at a frame that its sender knew to be there; here acks by
/// bitmap are plenty.
#[test]
fn a_frame_that_the_bitmap_acked_is_not_sent_again() {
    let mut total = Counts::default();
    for seed in 0..300 {
        let faults = Faults {
            loss_percent: 20,
            duplicate_percent: 10,
            delay_ms_max: 30,
            frames: 60,
            window: 16,
            ..Faults::none()
        };
        total.add(check(seed, faults, Duration::from_mins(30)));
    }
    assert!(total.held > 10_000, "{total:?}");
}

#[test]
fn a_slow_store_does_not_end_the_session() {
    let faults = Faults { commit_delay_ms_max: 40_000, ..Faults::none() };
    for seed in 0..50 {
        let counts = check(seed, faults.clone(), Duration::from_mins(10));
        assert_eq!((counts.sessions, counts.gave_up), (1, 0));
    }
}
