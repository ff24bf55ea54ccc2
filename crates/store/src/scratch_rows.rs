//! Folds the turns of scratch keyspaces into row writes, for every store that speaks SQL.
//!
//! The last write to a row wins: a key that is set a hundred times within one transaction is one
//! write. Keys and elements are written in their order, so that each page is looked up once.

use std::collections::BTreeMap;

use keyspace::row::{Kind, Write};
use model::{ShardId, Timestamp};

use crate::contract::ScratchTurn;

/// What one transaction writes.
#[derive(Debug, Default)]
pub(crate) struct ScratchBatch<'a> {
    /// By shard and name.
    pub keys: BTreeMap<(ShardId, &'a [u8]), KeyWrites<'a>>,
}

/// What becomes of one key.
#[derive(Debug, Default)]
pub(crate) struct KeyWrites<'a> {
    /// Whatever was there before the transaction goes first, elements included.
    pub is_wiped: bool,
    /// Its last head; without one the row stays as it is, or is gone if it was wiped.
    pub head: Option<Head<'a>>,
    /// The last value of each element that was touched since; `None` is gone.
    pub items: BTreeMap<&'a [u8], Option<&'a [u8]>>,
}

/// The columns of a key's row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head<'a> {
    pub kind: Kind,
    pub expires_at: Option<Timestamp>,
    pub value: &'a [u8],
}

impl<'a> ScratchBatch<'a> {
    /// Folds turns, in order.
    pub(crate) fn fold(turns: impl Iterator<Item = &'a ScratchTurn>) -> Self {
        let mut batch = Self::default();
        for turn in turns {
            for write in &turn.writes {
                batch.add(turn.claim.shard, write);
            }
        }
        batch
    }

    fn add(&mut self, shard: ShardId, write: &'a Write) {
        let (Write::PutKey { key, .. }
        | Write::DeleteKey { key }
        | Write::PutItem { key, .. }
        | Write::DeleteItem { key, .. }) = write;
        let of_key = self.keys.entry((shard, key)).or_default();
        match write {
            Write::PutKey { kind, expires_at, value, .. } => {
                of_key.head = Some(Head { kind: *kind, expires_at: *expires_at, value });
            }
            Write::DeleteKey { .. } => {
                *of_key = KeyWrites { is_wiped: true, ..KeyWrites::default() };
            }
            Write::PutItem { item, value, .. } => {
                of_key.items.insert(item, Some(value));
            }
            Write::DeleteItem { item, .. } if of_key.is_wiped => {
                // No row can be there that the transaction itself does not write.
                of_key.items.remove(&**item);
            }
            Write::DeleteItem { item, .. } => {
                of_key.items.insert(item, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use shard::ClaimedShard;

    const KEY: Bytes = Bytes::from_static(b"k");

    fn put(value: &'static str) -> Write {
        let value = Bytes::from_static(value.as_bytes());
        Write::PutKey { key: KEY, kind: Kind::String, expires_at: None, value }
    }

    fn put_item(item: &'static str, value: &'static str) -> Write {
        Write::PutItem { key: KEY, item: item.into(), value: value.into() }
    }

    fn delete_item(item: &'static str) -> Write {
        Write::DeleteItem { key: KEY, item: item.into() }
    }

    /// What becomes of the one key: wiped or not, the value of its head, its elements.
    fn check(turns: &[&[Write]], is_wiped: bool, head: Option<&str>, items: &[(&str, &str)]) {
        let claim = ClaimedShard { shard: ShardId::new(1).expect("valid"), epoch: 1 };
        let turns: Vec<_> =
            turns.iter().map(|writes| ScratchTurn { claim, writes: writes.to_vec() }).collect();
        let batch = ScratchBatch::fold(turns.iter());
        assert_eq!(batch.keys.len(), 1);
        let (_, key) = batch.keys.first_key_value().expect("one key");
        assert_eq!(
            (key.is_wiped, key.head.map(|head| head.value)),
            (is_wiped, head.map(str::as_bytes))
        );
        let found: Vec<_> = key
            .items
            .iter()
            .map(|(item, value)| (item.escape_ascii().to_string(), value.unwrap_or(b"(gone)")))
            .collect();
        let expected: Vec<_> =
            items.iter().map(|(item, value)| ((*item).to_owned(), value.as_bytes())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_write_to_a_row_wins() {
        check(&[&[put("1"), put("2")], &[put("3")]], false, Some("3"), &[]);
        check(&[&[put_item("a", "1")], &[put_item("a", "2")]], false, None, &[("a", "2")]);
        check(&[&[put_item("a", "1"), delete_item("a")]], false, None, &[("a", "(gone)")]);
        check(&[&[delete_item("a"), put_item("a", "1")]], false, None, &[("a", "1")]);
    }

    #[test]
    fn what_follows_a_deleted_key_is_all_there_is() {
        use std::slice::from_ref;
        let gone = Write::DeleteKey { key: KEY };
        check(&[&[put("1"), put_item("a", "1")], from_ref(&gone)], true, None, &[]);
        check(&[&[gone.clone(), put("2"), put_item("b", "2")]], true, Some("2"), &[("b", "2")]);
        check(&[&[gone, put_item("b", "2"), delete_item("b"), delete_item("c")]], true, None, &[]);
    }
}
