//! Old and new connections of one worker, raced at every step of handshake, resume and hand-over,
//! with grants, drains and reports under way.

use std::time::Duration;

use shard::sessions::LinkId;

use crate::world::World;

#[test]
fn a_session_opens_and_work_goes_through_it() {
    let mut world = World::new(1);
    let link = world.connect();
    world.quiesce();
    assert!(world.grant(link));
    world.heal();
    world.check();
    assert_eq!((world.fates.len(), world.n_superseded), (1, 0));
    assert_eq!(world.n_rows, 1, "one row was written, for the session");
}

/// The worker opens a second connection after every number of steps of the first, and loses the
/// first or the second after every number of steps from there: nothing is lost, and nothing is
/// delivered twice.
#[test]
fn a_second_connection_at_every_step_takes_the_session_over() {
    let (mut n_runs, mut n_superseded, mut n_resumed) = (0_u32, 0, 0);
    for before in 0..40 {
        for between in 0..24 {
            for cut in 0..3 {
                let mut world = World::new(1_000 * before + 10 * between + cut);
                let first = world.connect();
                steps(&mut world, before);
                let second = world.connect();
                steps(&mut world, between);
                match cut {
                    0 => {}
                    1 => world.cut(first),
                    _ => world.cut(second),
                }
                world.heal();
                world.check();
                n_runs += 1;
                n_superseded += world.n_superseded;
                n_resumed += world.n_resumed;
            }
        }
    }
    println!("{n_runs} runs, {n_superseded} hand-overs, {n_resumed} resumes");
    assert!(n_superseded > 200 && n_resumed > 200, "{n_superseded} {n_resumed}");
}

/// A lease is granted and the session closes around it: before the grant, between the grant and
/// its dispatch, between the dispatch and its arrival, and after it.
#[test]
fn a_session_that_closes_around_a_grant_loses_no_lease() {
    for (granted, crossed, dispatched) in
        [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
    {
        let mut world = World::new(7);
        let link = world.connect();
        world.quiesce();
        if granted {
            assert!(world.grant(link));
        }
        if crossed {
            assert!(world.answer(link), "the grant reaches the connection");
        }
        if dispatched {
            assert!(world.deliver_down(link), "the dispatch reaches the worker");
        }
        world.cut(link);
        world.heal();
        world.check();
        let fate = world.fates.values().next().copied().unwrap_or_default();
        assert_eq!(fate.returned, u32::from(granted && !crossed), "an asker that left: {fate:?}");
        assert_eq!(fate.reported, fate.delivered, "{fate:?}");
    }
}

#[test]
fn a_worker_that_is_drained_with_a_dispatch_in_flight_finishes_it() {
    for drained_after in 0..6 {
        let mut world = World::new(9);
        let link = world.connect();
        world.quiesce();
        assert!(world.grant(link));
        assert!(world.answer(link));
        steps(&mut world, drained_after);
        assert!(world.drain());
        world.heal();
        world.check();
        assert_eq!(world.n_drains, 1);
        let fate = world.fates.values().next().copied().expect("granted");
        assert_eq!((fate.delivered, fate.reported), (1, 1), "{drained_after}: {fate:?}");
    }
}

/// Everything at once, in random order: connections open and break, frames, answers and notices
/// arrive in any order between connections, time passes.
#[test]
fn random_schedules_lose_no_lease_and_leave_one_connection() {
    let seeds = std::env::var("LINK_SEED").ok().and_then(|seed| seed.parse().ok());
    let (from, to) = seeds.map_or((0, 4_000), |seed: u64| (seed, seed + 1));
    let (mut n_granted, mut n_returned, mut n_superseded, mut n_lossless) = (0, 0, 0, 0);
    for seed in from..to {
        let told = std::panic::catch_unwind(|| {
            let mut world = World::new(seed.wrapping_mul(0x9e37_79b9));
            world.connect();
            for _ in 0..120 {
                step(&mut world);
            }
            world.heal();
            world.check();
            let returned = world.fates.values().filter(|fate| fate.returned > 0).count();
            let is_lossless = world.n_windows_lost == 0;
            (world.fates.len(), returned, world.n_superseded, is_lossless)
        });
        let Ok((granted, returned, superseded, is_lossless)) = told else {
            panic!("LINK_SEED={seed}")
        };
        n_lossless += u32::from(is_lossless);
        n_granted += granted;
        n_returned += returned;
        n_superseded += superseded;
    }
    println!(
        "{n_granted} leases, {n_returned} returned, {n_superseded} hand-overs, \
         {n_lossless} schedules kept all windows"
    );
    if seeds.is_none() {
        assert!(n_granted > 1_000 && n_returned > 100 && n_superseded > 300 && n_lossless > 400);
    }
}

fn steps(world: &mut World, n_steps: u64) {
    for _ in 0..n_steps {
        step_of_wire(world);
    }
}

/// One thing that happens by itself, on any connection.
fn step_of_wire(world: &mut World) -> bool {
    let links = world.links();
    if links.is_empty() {
        return false;
    }
    let link = links[world.roll(links.len())];
    for shift in 0..6 {
        let choice = (world.roll(6) + shift) % 6;
        if act(world, link, choice) {
            return true;
        }
    }
    false
}

fn act(world: &mut World, link: LinkId, choice: usize) -> bool {
    match choice {
        0 => world.deliver_up(link),
        1 => world.deliver_down(link),
        2 => world.perform(link),
        3 => world.answer(link),
        4 => world.notice(link),
        _ => world.grant(link),
    }
}

fn step(world: &mut World) {
    match world.roll(40) {
        0 => {
            world.connect();
        }
        1 => {
            let links = world.links();
            if !links.is_empty() {
                let link = links[world.roll(links.len())];
                if world.roll(2) == 0 {
                    world.cut(link);
                } else {
                    world.leave(link);
                }
            }
        }
        2 => world.pass(Duration::from_millis(300)),
        3 => {
            world.drain();
        }
        _ => {
            step_of_wire(world);
        }
    }
}
