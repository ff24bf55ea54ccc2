//! Rows that no keyspace has written are told from those that one has.

use bytes::Bytes;
use keyspace::{DamagedRow, KeyRow, Keyspace, Kind, Limits};

#[test]
fn damaged_rows_are_named() {
    let place = |n: u8| vec![0x80, 0, 0, 0, 0, 0, 0, n];
    let score = 1.5_f64.to_be_bytes().to_vec();
    let nan = f64::NAN.to_be_bytes().to_vec();
    check(Kind::List, &[(place(1), vec![]), (place(2), vec![])], None);
    check(Kind::SortedSet, &[(b"a".to_vec(), score)], None);
    check(Kind::List, &[], Some("no elements"));
    check(Kind::String, &[(b"a".to_vec(), vec![])], Some("a string has elements"));
    check(Kind::List, &[(vec![1, 2], vec![])], Some("8 bytes"));
    check(Kind::List, &[(place(2), vec![]), (place(1), vec![])], Some("not in order"));
    check(Kind::List, &[(place(1), vec![]), (place(1), vec![])], Some("not in order"));
    check(Kind::SortedSet, &[(b"a".to_vec(), nan)], Some("no number"));
    check(Kind::SortedSet, &[(b"a".to_vec(), vec![1])], Some("no number"));
    check(Kind::Set, &[(b"a".to_vec(), vec![]), (b"a".to_vec(), vec![])], Some("two rows"));
    check(Kind::Hash, &[(b"a".to_vec(), vec![]), (b"a".to_vec(), vec![])], Some("two rows"));
}

#[test]
fn a_key_has_one_row() {
    let row = row(Kind::String, &[]);
    let result = Keyspace::restore(Limits::default(), [row.clone(), row]);
    assert_eq!(result.unwrap_err().problem, "the key has two rows");
}

fn row(kind: Kind, items: &[(Vec<u8>, Vec<u8>)]) -> KeyRow {
    let items = items.iter().map(|(item, value)| (item.clone().into(), value.clone().into()));
    KeyRow {
        key: Bytes::from_static(b"key"),
        kind,
        expires_at: None,
        value: Bytes::new(),
        items: items.collect(),
    }
}

fn check(kind: Kind, items: &[(Vec<u8>, Vec<u8>)], problem: Option<&str>) {
    let result = Keyspace::restore(Limits::default(), [row(kind, items)]);
    match (result, problem) {
        (Ok(space), None) => assert_eq!(space.len(), 1),
        (Err(DamagedRow { key, problem }), Some(part)) => {
            assert_eq!(&key[..], b"key");
            assert!(problem.contains(part), "{problem}");
        }
        (result, problem) => panic!("{problem:?} is expected of {kind:?} {items:?}: {result:?}"),
    }
}
