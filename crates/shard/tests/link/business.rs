//! What a worker says through an open session, and what the server asks of it.

use std::time::Duration;

use shard::sessions::LinkId;
use shard::worker_link::{Leaving, LinkEvent, NONSENSE_MAX, read_number};

use crate::world::{Fate, World};

#[test]
fn every_heartbeat_of_a_worker_reaches_the_coordinator() {
    let (mut world, _) = opened();
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
        world.quiesce();
    }
    let is_beat = |event: &&LinkEvent| matches!(event, LinkEvent::Heartbeat(_));
    let n_said = world.told.iter().filter(is_beat).count();
    assert!(n_said >= 3, "{n_said} in a minute");
    assert_eq!(world.beats.len(), n_said);
}

#[test]
fn a_part_of_a_resource_is_handed_to_who_reads_it() {
    let (mut world, _) = opened();
    world.say(
        "biz.resource.read.chunk",
        r#"{"request_id":"read-7","offset":0,"data":"aGk=","eof":true}"#,
    );
    world.quiesce();
    let chunk = world.told.iter().find_map(|event| match event {
        LinkEvent::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    let chunk = chunk.expect("the driver is told");
    assert_eq!((read_number(&chunk.request_id), chunk.data.as_str()), (Some(7), "aGk="));
}

#[test]
fn what_became_of_a_package_is_told() {
    let (mut world, _) = opened();
    world.say("biz.pkg.event", r#"{"name":"media","version":"2","status":"installed"}"#);
    world.quiesce();
    let is_told = world.told.iter().any(|event| match event {
        LinkEvent::Package(event) => (&*event.name, &*event.version) == ("media", "2"),
        _ => false,
    });
    assert!(is_told);
}

#[test]
fn a_read_is_sent_while_there_is_room_and_refused_without() {
    let (mut world, link) = opened();
    let now = world.now;
    let mut read = || world.link(link).read(now, "r".to_owned(), (0, 10));
    assert_eq!((read(), read()), (Some(1), Some(2)), "each read has a number of its own");
    let is_refused = (0..100_000).any(|_| read().is_none());
    assert!(is_refused, "the worker takes nothing, and questions pile up");
}

#[test]
fn a_grant_that_finds_no_room_in_its_session_is_handed_back() {
    let (mut world, link) = opened();
    let now = world.now;
    while world.link(link).read(now, "r".to_owned(), (0, 10)).is_some() {}
    assert!(world.grant(link), "the worker asked before its session was full");
    while world.answer(link) || world.perform(link) {}
    let fates: Vec<_> = world.fates.values().copied().collect();
    assert_eq!(fates, [Fate { delivered: 0, returned: 1, reported: 0 }]);
}

#[test]
fn a_frame_that_only_a_server_says_is_answered_with_a_code() {
    let (mut world, _) = opened();
    world.say("biz.resource.release", r#"{"run_id":"r"}"#);
    world.quiesce();
    let answer = world.answered.iter().find(|(id, _)| id == "biz.resource.release");
    let info = answer.and_then(|(_, info)| info.clone()).expect("it is answered");
    assert_eq!(info, "E.CMD.UNKNOWN a worker does not say biz.resource.release");
}

#[test]
fn a_connection_ends_after_too_many_frames_that_cannot_be_read() {
    let mut world = World::new(3);
    let link = world.connect();
    world.quiesce();
    let now = world.now;
    let link = world.link(link);
    for n in 1..=NONSENSE_MAX + 1 {
        assert_eq!(link.is_leaving(), None, "{n}");
        link.on_unreadable(now, "no JSON");
    }
    assert!(matches!(link.is_leaving(), Some(Leaving::Overdue(_))), "{:?}", link.is_leaving());
}

fn opened() -> (World, LinkId) {
    let mut world = World::new(1);
    let link = world.connect();
    world.quiesce();
    (world, link)
}
