//! Commands that wait, and what wakes them.

use std::time::Duration;

use bytes::Bytes;
use keyspace::{Answer, End, Keyspace, Limits, Popped};

use crate::support::run;

fn popped(element: &'static str) -> Answer {
    Answer::Popped(Popped { key: "b".into(), element: element.into(), end: End::Right })
}

fn names(keys: &[&'static str]) -> Vec<Bytes> {
    keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect()
}

#[test]
fn who_finds_nothing_waits_for_the_keys() {
    let mut space = Keyspace::new(Limits::default());
    for (command, keys, timeout) in [
        ("blpop a b 0", &["a", "b"][..], None),
        ("brpop a 1.5", &["a"], Some(1_500)),
        ("brpoplpush a b 0.0001", &["a"], Some(1)),
        ("brpoplpush a b 5", &["a"], Some(5_000)),
    ] {
        let timeout = timeout.map(Duration::from_millis);
        let block = Answer::Block { keys: names(keys), timeout };
        assert_eq!(run(&mut space, 0, command), block, "{command}");
        assert_eq!(space.take_writes(), [], "{command}");
    }
}

#[test]
fn lists_that_grow_are_told() {
    let mut space = Keyspace::new(Limits::default());
    for (command, grown) in [
        ("rpush a 1 2 3", &["a"][..]),
        ("rpop a", &[]),
        ("lpush a 0", &["a"]),
        ("lmove a b left left", &["b"]),
        ("rpoplpush a a", &["a"]),
        ("set d 1", &[]),
        ("brpoplpush b f 0", &["f"]),
    ] {
        run(&mut space, 0, command);
        assert_eq!(space.take_grown(), names(grown), "{command}");
    }
}

#[test]
fn who_asks_again_gets_what_came() {
    let mut space = Keyspace::new(Limits::default());
    let wait = "brpop a b 0";
    assert!(matches!(run(&mut space, 0, wait), Answer::Block { .. }));
    run(&mut space, 0, "lpush b 1 2");
    assert_eq!(run(&mut space, 0, wait), popped("1"));
    assert_eq!(run(&mut space, 0, wait), popped("2"));
    assert!(matches!(run(&mut space, 0, wait), Answer::Block { .. }));
    assert!(space.is_empty());
}
