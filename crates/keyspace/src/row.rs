//! What a store keeps of a keyspace: one row per key, and one per element of a collection.

use bytes::Bytes;
use model::Timestamp;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One value.
    String,
    /// Elements in order.
    List,
    /// Fields with values.
    Hash,
    /// Members.
    Set,
    /// Members in the order of their scores.
    SortedSet,
}

/// A change to the rows; applied in order, the last one to a row wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The key exists, with this head; its elements stay as they are.
    PutKey {
        /// Its name.
        key: Bytes,
        /// What it holds.
        kind: Kind,
        /// When it ends.
        expires_at: Option<Timestamp>,
        /// The value of a string; empty for the rest.
        value: Bytes,
    },
    /// The key is gone, and every element with it.
    DeleteKey {
        /// Its name.
        key: Bytes,
    },
    /// A collection has this element.
    PutItem {
        /// The collection.
        key: Bytes,
        /// A field, a member, or the place in a list: 8 bytes, most significant first, the sign
        /// flipped, so that bytes sort as places do.
        item: Bytes,
        /// A field's value, a list's element, a score as 8 bytes; empty for members of sets.
        value: Bytes,
    },
    /// A collection has not this element.
    DeleteItem {
        /// The collection.
        key: Bytes,
        /// As in `PutItem`.
        item: Bytes,
    },
}

/// A key with all its elements, as a store gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Its name.
    pub key: Bytes,
    /// What it holds.
    pub kind: Kind,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// The value of a string; empty for the rest.
    pub value: Bytes,
    /// Elements, in the order of their item bytes.
    pub items: Vec<(Bytes, Bytes)>,
}
