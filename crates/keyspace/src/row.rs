//! What a store keeps of a keyspace: one row per key.
//!
//! The value of a string is its row's value. A collection is one text of bytes: its elements one
//! after the other, each with its length before it in four bytes, the most significant first.
//!
//! - A list: `length element`, from left to right.
//! - A hash: `length field length value`, in any order.
//! - A sorted set: `length member score`, by score; the score is a double in eight bytes.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use model::Timestamp;

use crate::call::End;
use crate::value::{Collection as _, Hash, List, Score, SortedSet, Value};

/// The length before an element.
pub(crate) const LENGTH_BYTES: usize = 4;
/// A score.
pub(crate) const SCORE_BYTES: usize = 8;

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One value.
    String,
    /// Elements in order.
    List,
    /// Fields with values.
    Hash,
    /// Members in the order of their scores.
    SortedSet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::String, Self::List, Self::Hash, Self::SortedSet];

    /// Its name in Redis, and in the store.
    pub const fn word(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::SortedSet => "zset",
        }
    }

    /// The kind of this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A key with its value, as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the key.
    pub key: Bytes,
    /// The type of the value.
    pub kind: Kind,
    /// The moment from which on the key is gone.
    pub expires_at: Option<Timestamp>,
    /// The string, or the elements of the collection.
    pub value: Bytes,
}

/// A change to the rows; the last one to a key counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The key has this row, whatever it had before.
    Put(Row),
    /// The key has no row.
    Delete(Bytes),
}

impl Write {
    /// The name of the key.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put(row) => &row.key,
            Self::Delete(key) => key,
        }
    }
}

/// A row that no keyspace has written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row of key {key:?} is damaged: {problem}")]
pub struct DamagedRow {
    /// The key.
    pub key: Bytes,
    /// What is wrong with its row.
    pub problem: &'static str,
}

/// The value of a row.
pub(crate) fn encode(value: &Value) -> Bytes {
    if let Value::String(value) = value {
        return value.clone();
    }
    let mut out = BytesMut::with_capacity(value.row_bytes());
    match value {
        Value::String(_) => {}
        Value::List(list) => list.iter().for_each(|element| put(&mut out, element)),
        Value::Hash(hash) => hash.iter().for_each(|(field, value)| {
            put(&mut out, field);
            put(&mut out, value);
        }),
        Value::SortedSet(sorted) => sorted.iter().for_each(|(member, score)| {
            put(&mut out, member);
            out.put_f64(score.get());
        }),
    }
    out.freeze()
}

fn put(out: &mut BytesMut, element: &[u8]) {
    // No argument of a request is nearly as long.
    out.put_u32(u32::try_from(element.len()).expect("an element is shorter than 4 GiB"));
    out.put_slice(element);
}

/// The value that a row was made of, or why it was made of none.
pub(crate) fn decode(kind: Kind, value: Bytes) -> Result<Value, &'static str> {
    let mut rest = &value[..];
    let decoded = match kind {
        Kind::String => return Ok(Value::String(value)),
        Kind::List => {
            let mut list = List::default();
            while !rest.is_empty() {
                list.push(End::Right, take(&mut rest)?);
            }
            list.into_value()
        }
        Kind::Hash => {
            let mut hash = Hash::default();
            while !rest.is_empty() {
                if !hash.put(take(&mut rest)?, take(&mut rest)?) {
                    return Err("a field stands twice");
                }
            }
            hash.into_value()
        }
        Kind::SortedSet => {
            let mut sorted = SortedSet::default();
            while !rest.is_empty() {
                let member = take(&mut rest)?;
                let score = rest.try_get_f64().map_err(|_| "it ends within a score")?;
                let score = Score::new(score).ok_or("a score is no number")?;
                if !sorted.put(&member, score) {
                    return Err("a member stands twice");
                }
            }
            sorted.into_value()
        }
    };
    if decoded.len() == 0 { Err("it has no elements") } else { Ok(decoded) }
}

/// The next element, in memory of its own: one that stays must not hold on to the whole row.
fn take(rest: &mut &[u8]) -> Result<Bytes, &'static str> {
    let length = rest.try_get_u32().map_err(|_| "it ends within a length")?;
    let element = rest.split_off(..length as usize).ok_or("it ends within an element")?;
    Ok(Bytes::copy_from_slice(element))
}
