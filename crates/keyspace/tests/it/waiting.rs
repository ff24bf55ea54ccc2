//! Commands that wait, and what wakes them.

use std::time::Duration;

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Limits};

use crate::support::run;

fn bulk(text: &'static str) -> Answer {
    Answer::Bulk(Bytes::from_static(text.as_bytes()))
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
        ("blmove a b left right 0.0001", &["a"], Some(1)),
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
        ("lpushx a 0", &["a"]),
        ("lmove a b left left", &["b"]),
        ("rpoplpush a a", &["a"]),
        ("rename b c", &["c"]),
        ("set d 1", &[]),
        ("rename d e", &[]),
        ("brpoplpush c f 0", &["f"]),
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
    assert_eq!(run(&mut space, 0, wait), Answer::Array(vec![bulk("b"), bulk("1")]));
    assert_eq!(run(&mut space, 0, wait), Answer::Array(vec![bulk("b"), bulk("2")]));
    assert!(matches!(run(&mut space, 0, wait), Answer::Block { .. }));
    assert!(space.is_empty());
}
