//! Who reads what, and what becomes of those who are slow.

use std::time::Duration;

use coordinator::{Change, RunWord};
use tokio::time::Instant;

use super::super::reader::{
    BEHIND_EVENTS, CHUNK_BYTES_MAX, Came, FLOOD_EVENTS, LOOK_EVERY, READERS_MAX, RING_BYTES_MAX,
    RING_EVENTS_MAX, Reader, SHARED_BYTES_MAX, Said,
};
use super::facts::{AT, completed, ended, granted, run, started, submitted};
use super::{World, next, next_n};
use crate::events::reader::Filter;

impl World {
    /// A turn of a coordinator.
    fn turn(&self, changes: &[Change]) {
        self.events.publish_turn(self.make(changes, &[], AT));
    }

    fn start(&self, number: u64, client: Option<&str>) {
        self.events.publish_turn(self.make(&[], &[started(number, client)], AT));
    }
}

#[tokio::test]
async fn who_comes_back_gets_everything_since_marked_as_past() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    assert_eq!(reader.came(), Came::Fresh);
    world.start(1, None);
    for number in 1..=5 {
        world.turn(&[submitted(number, Some(1))]);
    }
    let first = next_n(&mut reader, 6).await;
    drop(reader);
    for place in 0..first.len() {
        let mut back = world.reader(Some(first[place].id)).await;
        assert_eq!(back.came(), Came::Back);
        let missed = first.len() - place - 1;
        if missed > 0 {
            let seen = next(&mut back).await;
            assert!(seen.iter().all(super::Seen::is_replayed));
            let ids = |seen: &[super::Seen]| seen.iter().map(|seen| seen.id).collect::<Vec<_>>();
            assert_eq!(ids(&seen), ids(&first[place + 1..]));
            let mut unmarked = seen[0].envelope.clone();
            unmarked.as_object_mut().expect("an object").remove("replayed");
            assert_eq!(unmarked, first[place + 1].envelope);
        }
    }
    let mut back = world.reader(Some(first[4].id)).await;
    world.turn(&[granted(1, 1, false)]);
    let marks: Vec<_> = next(&mut back).await.iter().map(super::Seen::is_replayed).collect();
    assert_eq!(marks, [true, false, false], "what happens now is no past");
}

#[tokio::test]
async fn ids_of_others_are_not_taken_for_a_place() {
    let world = World::new().await;
    world.start(1, None);
    let last = world.reader(None).await.began_at();
    for seen in [0, 1, last - 1_000_000, last + 1, u64::MAX] {
        assert_eq!(world.reader(Some(seen)).await.came(), Came::TooLate, "{seen}");
    }
    assert_eq!(world.reader(Some(last)).await.came(), Came::Back);
}

#[tokio::test]
async fn a_reader_hears_only_what_it_asked_for() {
    let world = World::new().await;
    let of = |run, types, client: Option<&str>| {
        Filter::new(run, types, client.map(str::to_owned)).expect("a filter")
    };
    let mut of_run = world.reader_of(None, of(Some(run(2)), None, None)).await;
    let mut of_type = world.reader_of(None, of(None, Some("run.*"), None)).await;
    let mut of_client = world.reader_of(None, of(None, Some("run.*"), Some("me"))).await;
    world.start(1, Some("other"));
    world.start(2, Some("me"));
    world.start(3, None);
    world.turn(&[submitted(1, Some(1)), submitted(2, Some(2)), submitted(3, Some(3))]);
    let runs = |seen: Vec<super::Seen>| {
        let name = |seen: &super::Seen| seen.data()["runId"].as_str().expect("a run").to_owned();
        seen.iter().map(name).collect::<Vec<_>>()
    };
    let [one, two, three] = [1, 2, 3].map(|number| run(number).to_string());
    assert_eq!(runs(next(&mut of_run).await), [two.clone(), two.clone()]);
    assert_eq!(runs(next(&mut of_type).await), [one, two.clone(), three.clone()]);
    assert_eq!(runs(next(&mut of_client).await), [two, three]);
}

#[tokio::test]
async fn the_past_is_bounded_in_events() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    let began = reader.began_at();
    world.start(1, None);
    for number in 0..=RING_EVENTS_MAX as u64 {
        world.turn(&[submitted(number, Some(1))]);
    }
    assert_eq!(reader.next().await, Said::TooSlow, "what comes next for it is gone");
    assert_eq!(world.reader(Some(began)).await.came(), Came::TooLate);
    assert_eq!(world.reader(Some(began + 2)).await.came(), Came::Back);
    assert_eq!(world.reader(Some(began + 1)).await.came(), Came::TooLate);
}

#[tokio::test]
async fn the_past_is_bounded_in_bytes_with_the_json_that_was_made() {
    let world = World::new().await;
    let large = format!("\"{}\"", "x".repeat(60_000));
    world.events.has_ids().await;
    world.start(1, None);
    let n_held = || world.events.ring.lock().bytes();
    for number in 0..1_000 {
        world.turn(&[submitted(number, Some(1)), completed(number, &large, None)]);
        assert!(n_held() <= RING_BYTES_MAX);
    }
    let bare = n_held();
    assert!(bare > RING_BYTES_MAX - 200_000, "{bare}: the limit is used");
    // A reader makes JSON of everything, which takes as much again.
    let from = world.events.ring.lock().after_the_oldest();
    let mut reader = world.reader(Some(from)).await;
    while !next(&mut reader).await.is_empty() && reader.lag() > 0 {}
    assert!(n_held() > bare + RING_BYTES_MAX / 2, "what is made is counted");
    world.turn(&[submitted(5_000, Some(1))]);
    assert!(n_held() <= RING_BYTES_MAX, "{}", n_held());
    for number in 6_000..7_000 {
        world.turn(&[submitted(number, Some(1)), completed(number, &large, None)]);
    }
    drop(reader);
    assert!(n_held() <= RING_BYTES_MAX && n_held() > RING_BYTES_MAX - 200_000, "{}", n_held());
}

#[tokio::test]
async fn what_is_sent_at_once_is_bounded() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    world.start(1, None);
    let changes: Vec<_> = (0..BEHIND_EVENTS as u64).map(|n| submitted(n, Some(1))).collect();
    world.turn(&changes);
    let mut n_seen = 0;
    while n_seen < 1 + changes.len() {
        let Said::Bytes(bytes) = reader.next().await else { panic!("too slow") };
        assert!(bytes.len() < CHUNK_BYTES_MAX + 1_024, "{}", bytes.len());
        n_seen += super::parse(std::str::from_utf8(&bytes).expect("text")).len();
    }
    assert_eq!(n_seen, 1 + changes.len());
}

#[tokio::test]
async fn who_is_far_behind_hears_the_newest_status_of_each_node() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    world.start(1, None);
    let n = BEHIND_EVENTS as u64;
    for number in 0..n {
        world.turn(&[submitted(number, Some(1)), granted(number, 1, false)]);
        world.turn(&[completed(number, "1", None)]);
    }
    world.events.publish_turn(world.make(&[], &[ended(1, RunWord::Succeeded, None)], AT));
    let mut seen = Vec::new();
    while reader.lag() > 0 || seen.is_empty() {
        seen.extend(next(&mut reader).await);
    }
    let count = |kind: &str| seen.iter().filter(|seen| seen.kind == kind).count() as u64;
    let statuses = seen.iter().filter(|seen| seen.kind == "node.status");
    assert!(statuses.clone().all(|seen| seen.data()["status"] == "completed"));
    assert_eq!(statuses.count() as u64, n, "each node once, as it stands");
    assert_eq!(count("node.result.snapshot"), n, "everything else is told");
    assert_eq!(count("run.status"), 3);
    assert!(seen.windows(2).all(|pair| pair[0].id < pair[1].id), "in order");
}

#[tokio::test(start_paused = true)]
async fn a_few_turns_are_told_at_once_and_a_flood_a_hundred_times_a_second() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    world.start(1, None);
    let started = Instant::now();
    assert_eq!(next(&mut reader).await.len(), 1);
    world.turn(&[submitted(0, Some(1))]);
    assert_eq!(next(&mut reader).await.len(), 1);
    assert_eq!(started.elapsed(), Duration::ZERO, "at once");
    let flood = FLOOD_EVENTS as u64 + 1;
    for number in 1..=flood {
        world.turn(&[submitted(number, Some(1))]);
    }
    assert_eq!(next(&mut reader).await.len(), FLOOD_EVENTS + 1, "all in one piece");
    for number in flood + 1..=flood + 10 {
        world.turn(&[submitted(number, Some(1))]);
    }
    assert_eq!(next(&mut reader).await.len(), 10, "what came meanwhile in one piece");
    assert_eq!(started.elapsed(), LOOK_EVERY);
}

#[tokio::test]
async fn readers_that_want_the_same_are_sent_the_same_bytes() {
    let world = World::new().await;
    let mut readers = [world.reader(None).await, world.reader(None).await];
    let filter = Filter::new(None, Some("run.*"), None).expect("a filter");
    let mut other = world.reader_of(None, filter).await;
    world.start(1, None);
    let bytes_of = async |reader: &mut Reader| match reader.next().await {
        Said::Bytes(bytes) => bytes,
        Said::TooSlow | Said::Lost => panic!("too slow"),
    };
    let mut number = 0;
    for _ in 0..3 {
        let [one, two] = &mut readers;
        let first = bytes_of(one).await;
        // What happens in between does not part them.
        number += 1;
        world.turn(&[submitted(number, Some(1))]);
        let second = bytes_of(two).await;
        assert_eq!(first, second);
        assert_eq!(first.as_ptr(), second.as_ptr(), "not even a copy");
    }
    assert_eq!(next(&mut other).await.len(), 1, "who wants something else gets that");
    let n_shared = || world.events.shared_bytes();
    assert!(n_shared() > 0);
    drop((readers, other));
    assert_eq!(n_shared(), 0, "nothing is held for nobody");
}

#[tokio::test(start_paused = true)]
async fn what_is_shared_is_bounded() {
    let world = World::new().await;
    let large = format!("\"{}\"", "x".repeat(50_000));
    let mut readers = Vec::new();
    for _ in 0..40 {
        readers.push(world.reader(None).await);
    }
    world.start(1, None);
    for number in 0..100 {
        world.turn(&[submitted(number, Some(1)), completed(number, &large, None)]);
        // Each of them stops at another place.
        readers.rotate_left(1);
        next(&mut readers[0]).await;
        assert!(world.events.shared_bytes() <= SHARED_BYTES_MAX);
    }
    assert!(world.events.shared_bytes() > SHARED_BYTES_MAX / 2, "the limit is used");
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_every_15_s_and_carries_the_newest_id() {
    let world = World::new().await;
    let filter = Filter::new(Some(run(9)), None, None).expect("a filter");
    let mut reader = world.reader_of(None, filter).await;
    let started = Instant::now();
    let comment = |said| match said {
        Said::Bytes(bytes) => String::from_utf8(bytes.to_vec()).expect("text"),
        Said::TooSlow | Said::Lost => panic!("too slow"),
    };
    assert_eq!(comment(reader.next().await), ": heartbeat\n\n");
    assert_eq!(started.elapsed(), Duration::from_secs(15));
    world.start(1, None);
    let last = world.events.last_id();
    assert_eq!(comment(reader.next().await), format!(": heartbeat\nid: {last}\n\n"));
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    assert_eq!(comment(reader.next().await), ": heartbeat\n\n");
}

#[tokio::test]
async fn readers_are_counted_and_let_go() {
    let world = World::new().await;
    let mut readers = Vec::new();
    for _ in 0..READERS_MAX {
        readers.push(world.reader(None).await);
    }
    let filter = Filter::new(None, None, None).expect("a filter");
    assert!(world.events.reader(filter.clone(), None).is_none());
    readers.pop();
    assert!(world.events.reader(filter, None).is_some());
}
