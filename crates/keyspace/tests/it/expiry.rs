//! When keys end.

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Kind, Limits, Write};
use model::Timestamp;

use crate::support::run;

fn bulk(text: &'static str) -> Answer {
    Answer::Bulk(Bytes::from_static(text.as_bytes()))
}

fn deleted(key: &'static str) -> Write {
    Write::Delete(Bytes::from_static(key.as_bytes()))
}

#[test]
fn a_key_is_invisible_from_its_very_millisecond() {
    let mut space = Keyspace::new(Limits::default());
    for set in ["set a 1 px 100", "set b 1 px 100", "set c 1 pxat 1100"] {
        assert_eq!(run(&mut space, 1_000, set), Answer::Ok);
    }
    for key in ["a", "b", "c"] {
        assert_eq!(run(&mut space, 1_099, &format!("get {key}")), bulk("1"));
        assert_eq!(run(&mut space, 1_099, &format!("ttl {key}")), Answer::Integer(0));
    }
    for looks in ["keys *", "scan 0"] {
        let before = run(&mut space, 1_099, looks);
        assert_ne!(before, run(&mut space, 1_100, looks), "{looks}");
    }
    space.take_writes();
    assert_eq!(run(&mut space, 1_100, "get a"), Answer::Null);
    assert_eq!(run(&mut space, 1_100, "exists b c"), Answer::Integer(0));
    assert_eq!(space.take_writes(), [deleted("a"), deleted("b"), deleted("c")]);
}

#[test]
fn what_ended_is_gone_before_something_new_is_put() {
    let mut space = Keyspace::new(Limits::default());
    run(&mut space, 0, "rpush a 1");
    run(&mut space, 0, "expire a 1");
    space.take_writes();
    assert_eq!(run(&mut space, 1_000, "incr a"), Answer::Integer(1));
    let writes = space.take_writes();
    let [Write::Put(row)] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!((row.kind, row.expires_at, &row.value[..]), (Kind::String, None, &b"1"[..]));
}

#[test]
fn an_end_in_the_past_removes_at_once() {
    let mut space = Keyspace::new(Limits::default());
    for end in ["expire a -1", "expire a 0", "set a 2 pxat 5", "set a 2 exat 1"] {
        run(&mut space, 5_000, "set a 1");
        space.take_writes();
        run(&mut space, 5_000, end);
        assert_eq!(space.take_writes(), [deleted("a")], "{end}");
        assert_eq!((space.len(), space.used_bytes()), (0, 0), "{end}");
    }
}

#[test]
fn a_sweep_removes_the_earliest_first() {
    let mut space = Keyspace::new(Limits::default());
    for set in ["set a 1 px 30", "set b 1 px 10", "set c 1 px 20", "set d 1"] {
        run(&mut space, 0, set);
    }
    space.take_writes();
    let at = Timestamp::from_millis;
    assert_eq!(space.next_expiry(), Some(at(10)));
    assert_eq!(space.sweep(at(9), 10), 0);
    assert_eq!(space.sweep(at(30), 2), 2);
    assert_eq!(space.take_writes(), [deleted("b"), deleted("c")]);
    assert_eq!(space.sweep(at(30), 2), 1);
    assert_eq!(space.next_expiry(), None);
    assert_eq!(space.len(), 1);
}

#[test]
fn an_end_after_the_year_9999_is_that_year() {
    let mut space = Keyspace::new(Limits::default());
    run(&mut space, 0, "set a 1");
    assert_eq!(run(&mut space, 0, "expire a 9223372036854775"), Answer::Integer(1));
    assert_eq!(space.next_expiry(), Some(Timestamp::MAX));
}
