//! Rows that no keyspace has written are told from those that one has, and values that are larger
//! than a value may be are kept.

use bytes::Bytes;
use keyspace::{Answer, DamagedRow, Keyspace, Kind, Limits, Row, Write};

use crate::support::{rows_of, run};

#[test]
fn damaged_rows_are_named() {
    let score = |number: f64| [b"\0\0\0\x01a", &number.to_be_bytes()[..]].concat();
    check(Kind::List, b"\0\0\0\0\0\0\0\x01a", None);
    check(Kind::Hash, b"\0\0\0\x01a\0\0\0\0", None);
    check(Kind::SortedSet, &score(1.5), None);
    check(Kind::List, b"", Some("no elements"));
    check(Kind::Hash, b"", Some("no elements"));
    check(Kind::SortedSet, b"", Some("no elements"));
    check(Kind::List, b"\0\0\0", Some("within a length"));
    check(Kind::List, b"\0\0\0\x02a", Some("within an element"));
    check(Kind::List, b"\xff\xff\xff\xffa", Some("within an element"));
    check(Kind::Hash, b"\0\0\0\x01a", Some("within a length"));
    check(Kind::Hash, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", Some("a field stands twice"));
    check(Kind::SortedSet, &score(f64::NAN), Some("no number"));
    check(Kind::SortedSet, b"\0\0\0\x01a\0\0", Some("within a score"));
    check(Kind::SortedSet, &[score(1.0), score(2.0)].concat(), Some("a member stands twice"));
}

#[test]
fn a_key_has_one_row() {
    let row = row(Kind::String, b"");
    let result = Keyspace::restore(Limits::default(), [row.clone(), row]);
    assert_eq!(result.unwrap_err().problem, "the key has two rows");
}

#[test]
fn rows_have_the_form_that_is_written_down() {
    let mut space = Keyspace::new(Limits::default());
    for command in ["rpush list a bc", "hset hash f v", "zadd sorted 1 m"] {
        run(&mut space, 0, command);
    }
    let rows = rows_of(&space);
    let values: Vec<_> = rows.iter().map(|row| (row.kind, &row.value[..])).collect();
    assert_eq!(
        values,
        [
            (Kind::Hash, &b"\0\0\0\x01f\0\0\0\x01v"[..]),
            (Kind::List, b"\0\0\0\x01a\0\0\0\x02bc"),
            (Kind::SortedSet, b"\0\0\0\x01m\x3f\xf0\0\0\0\0\0\0"),
        ]
    );
}

#[test]
fn a_value_over_the_limits_can_be_read_and_deleted_and_not_changed() {
    let limits = Limits {
        string_bytes_max: 3,
        collection_bytes_max: 30,
        collection_elements_max: 2,
        ..Limits::default()
    };
    let refused = [
        "set s 1",
        "incr s",
        "rpush l 1",
        "lpop l",
        "lrem l 1 a",
        "rpoplpush l o",
        "lmove o l left left",
        "blpop l 0",
        "hset h a 1",
        "hdel h a",
        "hincrby h n 1",
        "zadd z 1 a",
        "zrem z a",
    ];
    for (make, key, read) in [
        ("set s long", "s", "get s"),
        ("rpush l a b c", "l", "lrange l 0 -1"),
        ("hset h a 1234567890123456789012", "h", "hgetall h"),
        ("zadd z 1 a 2 b 3 c", "z", "zrange z 0 -1"),
    ] {
        let mut roomy = Keyspace::new(Limits::default());
        run(&mut roomy, 0, make);
        let mut space = Keyspace::restore(limits, roomy.rows()).expect("restores");
        run(&mut space, 0, "rpush o 1");
        space.take_writes();
        assert_eq!(run(&mut space, 0, read), run(&mut roomy, 0, read));
        for command in refused.iter().filter(|command| command.split(' ').any(|one| one == key)) {
            let Answer::Error(why) = run(&mut space, 0, command) else { panic!("{command}") };
            let max =
                if key == "s" { "at most 3 bytes" } else { "at most 30 bytes and 2 elements" };
            assert!(why.contains(max), "{command}: {why}");
        }
        assert_eq!(space.take_writes(), []);
        assert_eq!(run(&mut space, 0, &format!("expire {key} 5")), Answer::Integer(1));
        assert_eq!(run(&mut space, 5_000, &format!("exists {key}")), Answer::Integer(0));
        assert_eq!(space.take_writes(), [Write::Delete(key.into())]);
        let mut space = Keyspace::restore(limits, roomy.rows()).expect("restores");
        assert_eq!(run(&mut space, 0, &format!("del {key}")), Answer::Integer(1));
        assert_eq!((space.len(), space.used_bytes()), (0, 0));
    }
}

fn row(kind: Kind, value: &[u8]) -> Row {
    let (key, value) = (Bytes::from_static(b"key"), Bytes::copy_from_slice(value));
    Row { key, kind, expires_at: None, value }
}

fn check(kind: Kind, value: &[u8], problem: Option<&str>) {
    let result = Keyspace::restore(Limits::default(), [row(kind, value)]);
    match (result, problem) {
        (Ok(space), None) => assert_eq!(rows_of(&space), [row(kind, value)]),
        (Err(DamagedRow { key, problem }), Some(part)) => {
            assert_eq!(&key[..], b"key");
            assert!(problem.contains(part), "{problem}");
        }
        (result, problem) => panic!("{problem:?} is expected of {kind:?} {value:?}: {result:?}"),
    }
}
