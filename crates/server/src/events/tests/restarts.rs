//! Ids and readers, when processes end, stores fail and coordinators begin anew.

use std::sync::Arc;
use std::time::Duration;

use sim::MemoryStore;
use store::{Note, NoteKind, Store};

use super::super::reader::{Came, Said};
use super::super::tenant::TenantEvents;
use super::facts::{AT, started};
use super::{World, next, next_epoch};
use crate::clock::Clock;

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
async fn ids_go_on_beyond_those_of_an_earlier_version() {
    let store = Arc::new(MemoryStore::default());
    let floor = 1_790_000_000_000_123_u64;
    let (kind, tenant) = (NoteKind::EventFloor, "acme".to_owned());
    let note = Note { kind, key: tenant.clone(), tenant, json: Some(floor.to_string()) };
    store.put_note(note).await.expect("kept");
    let world = World::on(store).await;
    let mut reader = world.reader(None).await;
    tell(&world, 1);
    let seen = next(&mut reader).await[0].id;
    assert!(seen > floor && seen < 1 << 53, "{seen}");
    assert_eq!(world.reader(Some(floor)).await.came(), Came::TooLate);
}

#[tokio::test(start_paused = true)]
async fn nobody_reads_before_the_shard_has_begun() {
    let events = TenantEvents::new("acme".parse().expect("a name"), Clock::start(), 0);
    let waiting = tokio::time::timeout(Duration::from_secs(10), events.has_ids()).await;
    assert!(waiting.is_err(), "no id is free");
    events.begin(next_epoch(), (&[], &[]));
    events.has_ids().await;
}

#[tokio::test]
async fn a_shard_that_raises_its_epoch_sends_its_readers_for_a_snapshot() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    tell(&world, 1);
    let seen = next(&mut reader).await[0].id;
    world.events.begin_epoch(next_epoch());
    assert_eq!(reader.next().await, Said::TooSlow);
    assert_eq!(world.reader(Some(seen)).await.came(), Came::TooLate);
    let mut fresh = world.reader(None).await;
    tell(&world, 2);
    assert!(next(&mut fresh).await[0].id > seen);
}

#[tokio::test]
async fn a_lost_shard_ends_its_readers() {
    let world = World::new().await;
    let mut waiting = world.reader(None).await;
    let waiting = tokio::spawn(async move { waiting.next().await });
    tokio::task::yield_now().await;
    world.events.end();
    assert_eq!(waiting.await.expect("ends"), Said::Lost);
    assert_eq!(world.reader(None).await.next().await, Said::Lost, "one that comes too late");
}
