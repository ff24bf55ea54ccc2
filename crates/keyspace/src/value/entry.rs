//! What stands behind a key: a value, and when it ends.

use bytes::Bytes;
use model::Timestamp;

use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use crate::row::{Kind, Write};

/// What a key costs besides its name and its value: its places in the tables, and allocations.
pub(crate) const KEY_BYTES: usize = 200;

/// What a collection costs besides its elements.
pub(crate) const COLLECTION_BYTES: usize = 150;

/// What a moment of expiry costs.
pub(crate) const EXPIRY_BYTES: usize = 80;

/// A value of one of the kinds.
#[derive(Debug)]
pub(crate) enum Value {
    String(Bytes),
    List(Box<List>),
    Hash(Box<Hash>),
    Set(Box<Set>),
    SortedSet(Box<SortedSet>),
}

/// A value, and when it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::List(_) => Kind::List,
            Self::Hash(_) => Kind::Hash,
            Self::Set(_) => Kind::Set,
            Self::SortedSet(_) => Kind::SortedSet,
        }
    }

    /// What its elements take, or the string itself.
    fn bytes(&self) -> usize {
        match self {
            Self::String(value) => value.len(),
            Self::List(list) => COLLECTION_BYTES + list.bytes(),
            Self::Hash(hash) => COLLECTION_BYTES + hash.bytes(),
            Self::Set(set) => COLLECTION_BYTES + set.bytes(),
            Self::SortedSet(sorted) => COLLECTION_BYTES + sorted.bytes(),
        }
    }

    /// The value of a string; empty for the rest.
    pub(crate) fn head(&self) -> Bytes {
        match self {
            Self::String(value) => value.clone(),
            Self::List(_) | Self::Hash(_) | Self::Set(_) | Self::SortedSet(_) => Bytes::new(),
        }
    }

    /// The elements as rows, in no special order.
    pub(crate) fn items(&self) -> Vec<(Bytes, Bytes)> {
        match self {
            Self::String(_) => Vec::new(),
            Self::List(list) => list.items(),
            Self::Hash(hash) => hash.items(),
            Self::Set(set) => set.items(),
            Self::SortedSet(sorted) => sorted.items(),
        }
    }

    /// A collection without elements, which must not stay.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::List(list) => list.len() == 0,
            Self::Hash(hash) => hash.len() == 0,
            Self::Set(set) => set.len() == 0,
            Self::SortedSet(sorted) => sorted.len() == 0,
        }
    }
}

impl Entry {
    pub(crate) fn is_expired_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// What the key takes in all.
    pub(crate) fn bytes(&self, key: &Bytes) -> usize {
        let expiry = if self.expires_at.is_some() { EXPIRY_BYTES } else { 0 };
        KEY_BYTES + key.len() + expiry + self.value.bytes()
    }

    /// The row of the key itself.
    pub(crate) fn write(&self, key: &Bytes) -> Write {
        Write::PutKey {
            key: key.clone(),
            kind: self.value.kind(),
            expires_at: self.expires_at,
            value: self.value.head(),
        }
    }
}
