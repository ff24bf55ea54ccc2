//! What does not fit is refused, with the name of the limit.

use bytes::Bytes;
use keyspace::keyspace::{COLLECTION_BYTES_MAX, COLLECTION_ELEMENTS_MAX, STRING_BYTES_MAX};
use keyspace::{Answer, Keyspace, Limits, Popped};
use model::Timestamp;

use crate::support::{execute, run};

#[test]
fn a_limit_is_named_and_nothing_changes() {
    let roomy = Limits::default();
    check(Limits { keys_max: 2, ..roomy }, &["set a 1", "set b 1"], "set c 1", "2 keys");
    check(Limits { keys_max: 2, ..roomy }, &["set a 1", "set b 1"], "hset c 1 2", "2 keys");
    check(Limits { keys_max: 1, ..roomy }, &["rpush a 1"], "rpoplpush a b", "1 keys");
    let few = Limits { collection_elements_max: 2, ..roomy };
    check(few, &["rpush a 1 2"], "lpush a 3", "2 elements");
    check(few, &["rpush a 1 2", "rpush b 1"], "lmove b a left left", "2 elements");
    check(few, &["hset a 1 2 2 3"], "hset a 2 1 3 1", "2 elements");
    check(few, &["hset a 1 2 2 3"], "hincrby a 3 1", "2 elements");
    check(few, &["zadd a 1 x 2 y"], "zadd a 3 x 3 z", "2 elements");
    let small = Limits { collection_bytes_max: 24, ..roomy };
    check(small, &["rpush a 12345678"], "rpush a 123456789", "24 bytes");
    check(small, &["hset a 1 12345678"], "hset a 2 1", "24 bytes");
    check(small, &["zadd a 1 1"], "zadd a 1 2", "24 bytes");
    let full = Limits { keyspace_bytes_max: 2_000, ..roomy };
    check(full, &["set a 1"], &format!("set a {}", "x".repeat(2_000)), "2000 bytes");
    let short = Limits { string_bytes_max: 3, ..roomy };
    check(short, &["set a 12"], "set b 1234", "3 bytes");
    check(short, &["set a 12"], "set name 1", "3 bytes");
    check(short, &["set a 12"], "rpush name 1", "3 bytes");
    let terse = Limits { reply_bytes_max: 5, ..roomy };
    for (before, command) in [
        ("rpush a 123 456", "lrange a 0 -1"),
        ("hset a 123 456", "hgetall a"),
        ("zadd a 1 123 2 456", "zrange a 0 -1"),
        ("zadd a 1 123 2 456", "zrangebyscore a 1 2 withscores"),
        ("set abc 1", "keys *"),
        ("set a 123", "mget a a"),
    ] {
        let mut space = Keyspace::new(terse);
        run(&mut space, 0, before);
        run(&mut space, 0, "set def 1");
        let Answer::Error(why) = run(&mut space, 0, command) else { panic!("{command}") };
        assert!(why.contains("more than 5 bytes"), "{command}: {why}");
    }
}

#[test]
fn the_limits_of_values_are_those_that_are_promised() {
    let mut space = Keyspace::new(Limits::default());
    let mut ask = |name: &'static str, arguments: Vec<Bytes>| {
        let words = [vec![Bytes::from_static(name.as_bytes())], arguments].concat();
        execute(&mut space, Timestamp::default(), &words)
    };
    let text = |length: usize| Bytes::from(vec![b'x'; length]);
    let refuses = |answer: Answer, part: &str| {
        assert!(matches!(&answer, Answer::Error(why) if why.contains(part)), "{answer:?}");
    };
    assert_eq!(ask("set", vec!["s".into(), text(STRING_BYTES_MAX)]), Answer::Ok);
    refuses(ask("set", vec!["s".into(), text(STRING_BYTES_MAX + 1)]), "1048576 bytes");
    let element = text(COLLECTION_BYTES_MAX - 4);
    assert_eq!(ask("rpush", vec!["l".into(), element]), Answer::Integer(1));
    refuses(ask("rpush", vec!["l".into(), text(0)]), "262144 bytes and 10000 elements");
    let many = (0..COLLECTION_ELEMENTS_MAX).map(|_| text(1));
    let many = [Bytes::from_static(b"many")].into_iter().chain(many).collect();
    assert_eq!(ask("lpush", many), Answer::Integer(10_000));
    refuses(ask("lpush", vec!["many".into(), text(1)]), "10000 elements");
}

#[test]
fn a_new_collection_that_is_too_large_leaves_no_key() {
    let limits = Limits { collection_elements_max: 2, ..Limits::default() };
    for command in ["rpush a 1 2 3", "hset a 1 2 3 4 5 6", "zadd a 1 2 3 4 5 6"] {
        check(limits, &[], command, "2 elements");
    }
}

#[test]
fn what_is_full_can_still_change_and_shrink() {
    let limits = Limits { keys_max: 2, collection_elements_max: 2, ..Limits::default() };
    let mut space = Keyspace::new(limits);
    for (command, answer) in [
        ("zadd a 1 x 2 y", Answer::Integer(2)),
        ("zadd a 3 x 4 y 5 x", Answer::Integer(0)),
        ("set b 1", Answer::Ok),
        ("set b 2", Answer::Ok),
        ("incr b", Answer::Integer(3)),
        ("lpop c", Answer::Null),
        ("del b", Answer::Integer(1)),
        ("rpush b 1 2", Answer::Integer(2)),
        ("lpop b", Answer::Bulk("1".into())),
        ("rpush b 3", Answer::Integer(2)),
        ("rpoplpush b b", Answer::Bulk("3".into())),
        ("del b", Answer::Integer(1)),
        ("hset b f 1 g 2", Answer::Integer(2)),
        ("hset b f 3 g 4 f 5", Answer::Integer(0)),
        ("hincrby b f 1", Answer::Integer(6)),
    ] {
        assert_eq!(run(&mut space, 0, command), answer, "{command}");
    }
}

#[test]
fn an_element_that_nobody_took_goes_back_into_a_full_list() {
    let limits = Limits { collection_elements_max: 2, ..Limits::default() };
    let mut space = Keyspace::new(limits);
    run(&mut space, 0, "rpush q 1 2");
    let Answer::Popped(popped) = run(&mut space, 0, "blpop q 0") else { panic!("popped") };
    assert_eq!(popped.element, "1");
    run(&mut space, 0, "rpush q 3");
    let now = Timestamp::default();
    assert_eq!(space.put_back(now, &popped), Ok(()));
    assert_eq!(run(&mut space, 0, "llen q"), Answer::Integer(3));
    assert_eq!(run(&mut space, 0, "lpop q"), Answer::Bulk("1".into()));
    run(&mut space, 0, "set text 1");
    let wrong = Popped { key: "text".into(), ..popped };
    assert!(space.put_back(now, &wrong).is_err());
}

#[test]
fn keys_that_have_ended_make_room() {
    let mut space = Keyspace::new(Limits { keys_max: 1, ..Limits::default() });
    run(&mut space, 0, "set a 1 px 10");
    assert!(matches!(run(&mut space, 9, "set b 1"), Answer::Error(_)));
    assert_eq!(run(&mut space, 10, "set b 1"), Answer::Ok);
}

#[test]
fn what_waits_for_the_store_is_counted_once_per_key() {
    let mut space = Keyspace::new(Limits::default());
    for n in 0..1_000 {
        run(&mut space, 0, &format!("set a {n}"));
        run(&mut space, 0, "rpush q element");
        run(&mut space, 0, "lpop q");
    }
    assert!(space.unsaved_bytes() < 300, "{}", space.unsaved_bytes());
    assert_eq!(space.take_writes().len(), 2);
    assert!(!space.has_writes() && space.unsaved_bytes() == 0);
}

fn check(limits: Limits, before: &[&str], command: &str, part: &str) {
    let mut space = Keyspace::new(limits);
    for one in before {
        let answer = run(&mut space, 0, one);
        assert!(!matches!(answer, Answer::Error(_)), "{one}: {answer:?}");
    }
    space.take_writes();
    let rows: Vec<_> = space.rows().collect();
    let answer = run(&mut space, 0, command);
    let Answer::Error(sentence) = answer else {
        panic!("{command}: {answer:?}");
    };
    assert!(sentence.contains(part), "{command}: {sentence}");
    assert_eq!(space.take_writes(), [], "{command}");
    assert_eq!(space.rows().collect::<Vec<_>>(), rows, "{command}");
}
