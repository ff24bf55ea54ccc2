//! Both ends against chance: loss, duplicates, reordering, delays, cuts and restarts at once.
//!
//! `SESSION_SCHEDULES` says how many schedules are tried, `SESSION_SEED` tries one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pair::check;
use crate::world::{Blow, Counts, Faults};

/// How many schedules are tried.
const SCHEDULES: u64 = 100_000;

#[test]
fn random_schedules_keep_the_promise() {
    if let Some(seed) = number_of("SESSION_SEED") {
        println!("{:?}", random_faults(seed));
        println!("{:?}", check(seed, random_faults(seed), Duration::from_mins(20)));
        return;
    }
    let schedules = number_of("SESSION_SCHEDULES").unwrap_or(SCHEDULES);
    let halves: Vec<_> = (0..2)
        .map(|half| std::thread::spawn(move || run_schedules(half * schedules / 2, schedules / 2)))
        .collect();
    let mut sum = Counts::default();
    for half in halves {
        sum.add(half.join().unwrap_or_else(|_| panic!("a schedule broke the promise")));
    }
    println!("{schedules} schedules: {sum:?}");
    assert!(sum.resumes > schedules / 3, "resumes are exercised");
    assert!(sum.resets > schedules / 100, "resets are exercised");
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run_schedules(from: u64, n_schedules: u64) -> Counts {
    let mut sum = Counts::default();
    for seed in from..from + n_schedules {
        let faults = random_faults(seed);
        let run = std::panic::catch_unwind(|| check(seed, faults, Duration::from_mins(20)));
        let Ok(counts) = run else {
            panic!("SESSION_SEED={seed}: {:?}", random_faults(seed));
        };
        sum.add(counts);
    }
    sum
}

fn random_faults(seed: u64) -> Faults {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xfau64;
    let mut roll = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let frames = 1 + roll(10);
    let n_blows = roll(4);
    let blows = (0..n_blows)
        .map(|_| (1 + roll(60) as u64, Blow::ALL[roll(Blow::ALL.len())]))
        .collect::<BTreeMap<_, _>>();
    let n_voids = roll(3);
    let voids = (0..n_voids).map(|_| roll(frames)).collect::<BTreeSet<_>>();
    Faults {
        loss_percent: roll(31) as u64,
        duplicate_percent: roll(31) as u64,
        delay_ms_max: [1, 5, 100, 1000][roll(4)],
        blows,
        voids,
        commit_delay_ms_max: [1, 50, 2000][roll(3)],
        heals_at_ms: 60_000,
        window: [1, 2, 4, 64][roll(4)],
        frames,
    }
}
