//! What several tests need.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use keyspace::{Answer, KeyRow, Keyspace, Kind, Moment, Write};
use model::Timestamp;

pub(crate) fn moment(millis: u64) -> Moment {
    Moment { now: Timestamp::from_millis(millis), entropy: millis.wrapping_mul(0x9e37_79b9) }
}

pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("64 bits")
}

/// A number from the environment, if it is set.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number in the environment"))
}

/// Executes a command of words.
pub(crate) fn run(space: &mut Keyspace, millis: u64, words: &str) -> Answer {
    let arguments: Vec<Bytes> = words
        .split(' ')
        .map(|word| Bytes::copy_from_slice(if word == "''" { b"" } else { word.as_bytes() }))
        .collect();
    space.execute(moment(millis), &arguments)
}

pub(crate) fn shown(arguments: &[Bytes]) -> String {
    let words: Vec<_> = arguments.iter().map(|one| format!("{one:?}")).collect();
    words.join(" ")
}

struct Head {
    kind: Kind,
    expires_at: Option<Timestamp>,
    value: Bytes,
}

/// A plain table of rows, as a store would keep it.
#[derive(Default)]
pub(crate) struct RowTable {
    heads: BTreeMap<Bytes, Head>,
    items: BTreeMap<(Bytes, Bytes), Bytes>,
}

impl RowTable {
    pub(crate) fn apply(&mut self, write: Write) {
        match write {
            Write::PutKey { key, kind, expires_at, value } => {
                self.heads.insert(key, Head { kind, expires_at, value });
            }
            Write::DeleteKey { key } => {
                let removed = self.heads.remove(&key);
                assert!(removed.is_some(), "a key is deleted that has no row: {key:?}");
                let items = self.items.range((key.clone(), Bytes::new())..);
                let items = items.take_while(|((of, _), _)| *of == key);
                let items: Vec<_> = items.map(|(place, _)| place.clone()).collect();
                for place in items {
                    self.items.remove(&place);
                }
            }
            Write::PutItem { key, item, value } => {
                assert!(self.heads.contains_key(&key), "an element of a key without a row");
                self.items.insert((key, item), value);
            }
            Write::DeleteItem { key, item } => {
                let removed = self.items.remove(&(key, item));
                assert!(removed.is_some(), "an element is deleted that has no row");
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<KeyRow> {
        let row = |(key, head): (&Bytes, &Head)| {
            let items = self.items.range((key.clone(), Bytes::new())..);
            let items = items.take_while(|((of, _), _)| of == key);
            KeyRow {
                key: key.clone(),
                kind: head.kind,
                expires_at: head.expires_at,
                value: head.value.clone(),
                items: items.map(|((_, item), value)| (item.clone(), value.clone())).collect(),
            }
        };
        self.heads.iter().map(row).collect()
    }
}

/// The rows of a keyspace in the order of their keys.
pub(crate) fn rows_of(space: &Keyspace) -> Vec<KeyRow> {
    let mut rows: Vec<KeyRow> = space.rows().collect();
    rows.sort_by(|one, two| one.key.cmp(&two.key));
    rows
}
