//! A keyspace from the rows that a store kept of it, and back.

use bytes::Bytes;

use crate::keyspace::Keyspace;
use crate::limits::Limits;
use crate::row::{KeyRow, Kind};
use crate::value::entry::{Entry, Value};
use crate::value::hash::Hash;
use crate::value::list::{List, place_of};
use crate::value::score::Score;
use crate::value::set::Set;
use crate::value::sorted_set::SortedSet;

/// A row that no keyspace has written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row of key {key:?} is damaged: {problem}")]
pub struct DamagedRow {
    /// The key.
    pub key: Bytes,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Keyspace {
    /// The keyspace that these rows are of. Keys over the limits stay; nothing is added to them.
    pub fn restore(
        limits: Limits,
        rows: impl IntoIterator<Item = KeyRow>,
    ) -> Result<Self, DamagedRow> {
        let mut space = Self::new(limits);
        for row in rows {
            let KeyRow { key, kind, expires_at, value, items } = row;
            let damaged = |problem| DamagedRow { key: key.clone(), problem };
            if space.keys.contains_key(&key) {
                return Err(damaged("the key has two rows"));
            }
            let value = restored(kind, value, items).map_err(damaged)?;
            space.place(key, Entry { value, expires_at });
        }
        Ok(space)
    }

    /// All keys with all their elements, in no special order.
    pub fn rows(&self) -> impl Iterator<Item = KeyRow> {
        self.keys.iter().map(|(key, entry)| {
            let mut items = entry.value.items();
            items.sort();
            KeyRow {
                key: key.clone(),
                kind: entry.value.kind(),
                expires_at: entry.expires_at,
                value: entry.value.head(),
                items,
            }
        })
    }
}

fn restored(kind: Kind, value: Bytes, items: Vec<(Bytes, Bytes)>) -> Result<Value, &'static str> {
    let is_string = kind == Kind::String;
    if is_string != items.is_empty() {
        return Err(if is_string { "a string has elements" } else { "it has no elements" });
    }
    if !is_string && !value.is_empty() {
        return Err("a collection has a value of its own");
    }
    match kind {
        Kind::String => Ok(Value::String(value)),
        Kind::List => list(items),
        Kind::Hash => hash(items),
        Kind::Set => set(items),
        Kind::SortedSet => sorted_set(items),
    }
}

fn list(items: Vec<(Bytes, Bytes)>) -> Result<Value, &'static str> {
    let mut list = List::default();
    for (item, value) in items {
        let place = place_of(&item).ok_or("a place in a list has not 8 bytes")?;
        if !list.restore(place, value) {
            return Err("the elements of a list are not in order");
        }
    }
    Ok(Value::List(Box::new(list)))
}

fn hash(items: Vec<(Bytes, Bytes)>) -> Result<Value, &'static str> {
    let mut hash = Hash::default();
    for (field, value) in items {
        if !hash.restore(field, value) {
            return Err("a field has two rows");
        }
    }
    Ok(Value::Hash(Box::new(hash)))
}

fn set(items: Vec<(Bytes, Bytes)>) -> Result<Value, &'static str> {
    let mut set = Set::default();
    for (member, _) in items {
        if !set.restore(member) {
            return Err("a member has two rows");
        }
    }
    Ok(Value::Set(Box::new(set)))
}

fn sorted_set(items: Vec<(Bytes, Bytes)>) -> Result<Value, &'static str> {
    let mut sorted = SortedSet::default();
    for (member, score) in items {
        let score = Score::from_bytes(&score).ok_or("a score is no number of 8 bytes")?;
        if !sorted.restore(member, score) {
            return Err("a member has two rows");
        }
    }
    Ok(Value::SortedSet(Box::new(sorted)))
}
