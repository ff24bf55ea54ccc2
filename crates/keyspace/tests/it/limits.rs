//! What does not fit is refused, with the name of the limit.

use keyspace::{Answer, Keyspace, Limits};

use crate::support::run;

#[test]
fn a_limit_is_named_and_nothing_changes() {
    let roomy = Limits::default();
    check(Limits { keys_max: 2, ..roomy }, &["set a 1", "set b 1"], "set c 1", "2 keys");
    check(Limits { keys_max: 2, ..roomy }, &["set a 1"], "mset b 1 c 1", "2 keys");
    check(Limits { keys_max: 1, ..roomy }, &["rpush a 1"], "rpoplpush a b", "1 keys");
    check(Limits { elements_max: 2, ..roomy }, &["rpush a 1 2"], "lpush a 3", "2 elements");
    check(Limits { elements_max: 2, ..roomy }, &["sadd a 1 2"], "sadd a 1 3", "2 elements");
    check(Limits { elements_max: 1, ..roomy }, &["hset a 1 2"], "hsetnx a 2 2", "1 elements");
    check(Limits { elements_max: 1, ..roomy }, &["zadd a 1 2"], "zincrby a 2 3", "1 elements");
    check(Limits { elements_max: 2, ..roomy }, &["rpush a 1 2"], "linsert a before 1 3", "2 elem");
    check(
        Limits { elements_max: 1, ..roomy },
        &["sadd a 1", "sadd b 2"],
        "sunionstore c a b",
        "1 el",
    );
    let small = Limits { bytes_max: 2_000, ..roomy };
    check(small, &["set a 1"], &format!("append a {}", "x".repeat(2_000)), "2000 bytes");
    check(small, &["set a 1"], "setrange a 3000 x", "2000 bytes");
    let short = Limits { value_bytes_max: 3, ..roomy };
    check(short, &["set a 12"], "append a 34", "proto-max-bulk-len");
    check(short, &["set a 12"], "setrange a 3 x", "proto-max-bulk-len");
    check(short, &["set a 12"], "set b 1234", "proto-max-bulk-len");
    let terse = Limits { reply_elements_max: 2, ..roomy };
    for (before, command) in [
        ("rpush a 1 2 3", "lrange a 0 -1"),
        ("rpush a 1 2 3", "lpop a 3"),
        ("sadd a 1 2 3", "smembers a"),
        ("sadd a 1 2 3", "spop a 3"),
        ("sadd a 1 2 3", "srandmember a -3"),
        ("hset a 1 2 3 4 5 6", "hgetall a"),
        ("zadd a 1 2 3 4 5 6", "zrange a 0 -1"),
        ("zadd a 1 2 3 4 5 6", "zpopmin a 3"),
        ("mset a 1 b 2 c 3", "keys *"),
        ("mset a 1 b 2 c 3", "mget a b c"),
    ] {
        check(terse, &[before], command, "more than 2 elements");
    }
    let terse = Limits { reply_bytes_max: 5, ..roomy };
    check(terse, &["rpush a 123 456"], "lpop a 2", "more than 5 bytes");
}

#[test]
fn a_new_collection_that_is_too_large_leaves_no_key() {
    let limits = Limits { elements_max: 2, ..Limits::default() };
    for command in ["rpush a 1 2 3", "sadd a 1 2 3", "hset a 1 2 3 4 5 6", "zadd a 1 2 3 4 5 6"] {
        check(limits, &[], command, "2 elements");
    }
}

#[test]
fn what_is_full_can_still_change_and_shrink() {
    let limits = Limits { keys_max: 2, elements_max: 2, ..Limits::default() };
    let mut space = Keyspace::new(limits);
    for (command, answer) in [
        ("zadd a 1 x 2 y", Answer::Integer(2)),
        ("zadd a ch 3 x 4 y", Answer::Integer(2)),
        ("set b 1", Answer::Ok),
        ("set b 2", Answer::Ok),
        ("incr b", Answer::Integer(3)),
        ("rename b c", Answer::Ok),
        ("rpushx b 1", Answer::Integer(0)),
        ("lpop b", Answer::Null),
        ("del c", Answer::Integer(1)),
        ("rpush b 1 2", Answer::Integer(2)),
        ("ltrim b 1 1", Answer::Ok),
        ("rpush b 3", Answer::Integer(2)),
    ] {
        assert_eq!(run(&mut space, 0, command), answer, "{command}");
    }
}

#[test]
fn keys_that_have_ended_make_room() {
    let mut space = Keyspace::new(Limits { keys_max: 1, ..Limits::default() });
    run(&mut space, 0, "set a 1 px 10");
    assert!(matches!(run(&mut space, 9, "set b 1"), Answer::Error(_)));
    assert_eq!(run(&mut space, 10, "set b 1"), Answer::Ok);
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
