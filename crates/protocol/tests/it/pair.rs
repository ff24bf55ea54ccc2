//! Both ends over a wire with loss, duplicates, reordering, delays, cuts and restarts.
//!
//! The judge in `world` knows what each end was given: in order, once, nothing left out without a
//! reset, nothing confirmed that is not durable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::world::{Blow, Counts, Faults, World};

/// How many schedules are tried; `SESSION_SCHEDULES` says otherwise.
const SCHEDULES: u64 = 100_000;

fn check(seed: u64, faults: Faults, limit: Duration) -> Counts {
    let mut world = World::new(seed, faults);
    world.run(limit);
    world.counts
}

#[test]
fn frames_pass_in_both_directions() {
    let counts = check(1, Faults::none(), Duration::from_secs(5));
    assert_eq!((counts.sessions, counts.resets, counts.gave_up), (1, 0, 0));
}

#[test]
fn every_pair_of_cuts_is_survived_without_a_reset() {
    let frames = check(1, Faults::none(), Duration::from_secs(5)).frames;
    let mut runs = 0;
    for first in 1..=frames {
        for second in first + 1..=2 * frames + 10 {
            for (one, two) in blows() {
                let blows = BTreeMap::from([(first, one), (second, two)]);
                let faults = Faults { blows, ..Faults::none() };
                let counts = check(first * 1000 + second, faults, Duration::from_mins(5));
                // Before the first accept there is no session to resume.
                assert!(counts.gave_up == 0, "{first} {second} {one:?} {two:?}");
                assert!(counts.sessions <= 3, "{first} {second} {one:?} {two:?}");
                runs += 1;
            }
        }
    }
    println!("{runs} schedules of two cuts, {frames} frames without cuts");
}

fn blows() -> Vec<(Blow, Blow)> {
    let all = [Blow::Cut, Blow::HalfOpen, Blow::Restart];
    all.iter().flat_map(|one| all.iter().map(|two| (*one, *two))).collect()
}

#[test]
fn random_schedules_keep_the_promise() {
    let schedules = std::env::var("SESSION_SCHEDULES");
    let schedules = schedules.ok().and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES);
    let halves: Vec<_> = (0..2)
        .map(|half| std::thread::spawn(move || run_schedules(half * schedules / 2, schedules / 2)))
        .collect();
    let mut sum = Counts::default();
    for half in halves {
        let counts = half.join().unwrap();
        sum.frames += counts.frames;
        sum.resumes += counts.resumes;
        sum.sessions += counts.sessions;
        sum.gave_up += counts.gave_up;
        sum.resets += counts.resets;
    }
    println!("{schedules} schedules: {sum:?}");
    assert!(sum.resumes > schedules / 10, "resumes are exercised");
}

fn run_schedules(from: u64, n_schedules: u64) -> Counts {
    let mut sum = Counts::default();
    for seed in from..from + n_schedules {
        let faults = random_faults(seed);
        let told = faults.clone();
        let run = std::panic::catch_unwind(|| check(seed, faults, Duration::from_mins(20)));
        let Ok(counts) = run else { panic!("seed {seed}: {told:?}") };
        sum.frames += counts.frames;
        sum.resumes += counts.resumes;
        sum.sessions += counts.sessions;
        sum.gave_up += counts.gave_up;
        sum.resets += counts.resets;
    }
    sum
}

fn random_faults(seed: u64) -> Faults {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xfau64;
    let mut roll = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let frames = 1 + roll(10);
    let all = [Blow::Cut, Blow::HalfOpen, Blow::Restart];
    let n_blows = roll(4);
    let blows = (0..n_blows)
        .map(|_| (1 + roll(60), all[usize::try_from(roll(3)).unwrap()]))
        .collect::<BTreeMap<_, _>>();
    let n_voids = roll(3);
    let voids =
        (0..n_voids).map(|_| usize::try_from(roll(frames)).unwrap()).collect::<BTreeSet<_>>();
    Faults {
        loss_percent: roll(31),
        duplicate_percent: roll(31),
        delay_ms_max: [1, 5, 100, 1000][usize::try_from(roll(4)).unwrap()],
        blows,
        voids,
        commit_delay_ms_max: [1, 50, 2000][usize::try_from(roll(3)).unwrap()],
        heals_at_ms: 60_000,
        window: [1, 2, 4, 64][usize::try_from(roll(4)).unwrap()],
        frames: usize::try_from(frames).unwrap(),
    }
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
