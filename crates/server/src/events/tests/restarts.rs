//! Ids and readers, when processes end, stores fail and coordinators begin anew.

use std::sync::Arc;
use std::time::Duration;

use store::{NoteKind, Store};

use super::super::reader::{Came, Said};
use super::facts::{AT, started, submitted};
use super::{World, begin, next};

fn tell(world: &World, number: u64) {
    world.events.publish_turn(world.make(&[], &[started(number, None)], AT));
}

#[tokio::test]
async fn ids_rise_across_restarts_and_what_is_gone_is_not_passed_over() {
    let mut world = World::new().await;
    let (mut newest, mut told) = (0, Vec::new());
    for round in 0..4 {
        let mut reader = world.reader(None).await;
        for old in &told {
            assert_eq!(world.reader(Some(*old)).await.came(), Came::TooLate);
        }
        for number in 0..3 {
            tell(&world, round * 10 + number);
            let seen = next(&mut reader).await;
            assert!(seen[0].id > newest, "{} after {newest}", seen[0].id);
            newest = seen[0].id;
            told.push(newest);
        }
        drop(reader);
        world = world.restart().await;
    }
}

#[tokio::test]
async fn the_store_knows_of_every_id_before_anyone_else() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    tell(&world, 1);
    let seen = next(&mut reader).await[0].id;
    let notes = world.store.notes(NoteKind::EventFloor).await.expect("notes");
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].tenant.as_str(), notes[0].key.as_str()), ("acme", "acme"));
    let floor: u64 = notes[0].json.as_deref().expect("a floor").parse().expect("a number");
    assert!(floor >= seen, "{floor} and {seen}");
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_a_store_in_trouble_and_keep_their_order() {
    let world = World::new().await;
    world.store.set_available(false);
    tell(&world, 1);
    world.events.publish_turn(world.make(&[submitted(1, Some(1))], &[], AT));
    let waiting = tokio::time::timeout(Duration::from_secs(10), world.events.has_ids()).await;
    assert!(waiting.is_err(), "no id is free");
    let before = world.events.last_id();
    world.store.set_available(true);
    world.events.has_ids().await;
    let mut back = world.reader(Some(before)).await;
    assert_eq!(back.came(), Came::Back);
    let kinds: Vec<_> = next(&mut back).await.into_iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, ["run.status", "node.status"]);
}

#[tokio::test]
async fn a_coordinator_that_begins_anew_sends_its_readers_for_a_snapshot() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    tell(&world, 1);
    let seen = next(&mut reader).await[0].id;
    assert!(Arc::ptr_eq(&begin(&world.hub).await, &world.events));
    assert_eq!(reader.next().await, Said::TooSlow);
    assert_eq!(world.reader(Some(seen)).await.came(), Came::TooLate);
    let mut fresh = world.reader(None).await;
    tell(&world, 2);
    assert!(next(&mut fresh).await[0].id > seen);
}
