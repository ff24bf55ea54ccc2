//! What a key holds: a string, a list, a hash or a sorted set, and when it ends.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use indexmap::IndexMap;
use model::Timestamp;

use crate::call::{End, own};
use crate::row::{Kind, LENGTH_BYTES, SCORE_BYTES};

/// The memory of a key besides its name and its value: its places in the tables, and allocations.
pub(crate) const KEY_BYTES: usize = 200;
/// The memory of a collection besides its elements.
pub(crate) const COLLECTION_BYTES: usize = 150;
/// The memory of a moment of expiry.
pub(crate) const EXPIRY_BYTES: usize = 80;
/// The memory of a list's element besides its row.
pub(crate) const ELEMENT_BYTES: usize = 96;
/// The memory of a hash's field besides its row.
pub(crate) const FIELD_BYTES: usize = 172;
/// The memory of a sorted set's member besides its row: it stands in the order and in the table.
pub(crate) const MEMBER_BYTES: usize = 208;

/// Tables of at most so many places keep their memory when they shrink.
const SPARE_PLACES: usize = 64;

/// Differs from process to process, so that nobody can choose keys that collide. A table that is
/// hashed with it keeps the order of insertion, so nothing that is decided depends on it.
#[expect(clippy::disallowed_types, reason = "the order of an index map does not depend on it")]
pub(crate) type HashState = foldhash::fast::RandomState;

/// A value, and when it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) expires_at: Option<Timestamp>,
    /// It was restored larger than a value may be: it can be read and deleted, and not changed.
    pub(crate) is_oversized: bool,
}

/// A value of one of the kinds.
#[derive(Debug)]
pub(crate) enum Value {
    String(Bytes),
    List(Box<List>),
    Hash(Box<Hash>),
    SortedSet(Box<SortedSet>),
}

impl Entry {
    pub(crate) fn new(value: Value, expires_at: Option<Timestamp>) -> Self {
        Self { value, expires_at, is_oversized: false }
    }

    pub(crate) fn is_expired_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// The memory that the key takes in all.
    pub(crate) fn bytes(&self, key: &Bytes) -> usize {
        let expiry = if self.expires_at.is_some() { EXPIRY_BYTES } else { 0 };
        let overhead = match &self.value {
            Value::String(_) => 0,
            Value::List(list) => COLLECTION_BYTES + list.len() * ELEMENT_BYTES,
            Value::Hash(hash) => COLLECTION_BYTES + hash.len() * FIELD_BYTES,
            Value::SortedSet(sorted) => COLLECTION_BYTES + sorted.len() * MEMBER_BYTES,
        };
        KEY_BYTES + key.len() + expiry + overhead + self.value.row_bytes()
    }
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::List(_) => Kind::List,
            Self::Hash(_) => Kind::Hash,
            Self::SortedSet(_) => Kind::SortedSet,
        }
    }

    /// The length of its row's value.
    pub(crate) fn row_bytes(&self) -> usize {
        match self {
            Self::String(value) => value.len(),
            Self::List(list) => list.row_bytes(),
            Self::Hash(hash) => hash.row_bytes(),
            Self::SortedSet(sorted) => sorted.row_bytes(),
        }
    }

    /// How many elements a collection has; a string counts as one.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::SortedSet(sorted) => sorted.len(),
        }
    }
}

/// A kind of value that has elements.
pub(crate) trait Collection: Default {
    fn into_value(self) -> Value;
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn len(&self) -> usize;
    /// The length of its row's value, which is counted with each change.
    fn row_bytes(&self) -> usize;
}

macro_rules! collection {
    ($kind:ident, $elements:ident) => {
        impl Collection for $kind {
            fn into_value(self) -> Value {
                Value::$kind(Box::new(self))
            }

            fn of(value: &Value) -> Option<&Self> {
                if let Value::$kind(collection) = value { Some(collection) } else { None }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$kind(collection) = value { Some(collection) } else { None }
            }

            fn len(&self) -> usize {
                self.$elements.len()
            }

            fn row_bytes(&self) -> usize {
                self.row_bytes
            }
        }
    };
}

collection!(List, elements);
collection!(Hash, fields);
collection!(SortedSet, scores);

/// The capacity that a table should give its memory back down to, after a removal: a key that was
/// large once would otherwise hold on to memory that nobody counts.
fn spare(length: usize, capacity: usize) -> Option<usize> {
    (capacity > SPARE_PLACES && length < capacity / 4).then_some(length * 2)
}

/// The elements of a list, in order.
#[derive(Debug, Default)]
pub(crate) struct List {
    elements: VecDeque<Bytes>,
    row_bytes: usize,
}

impl List {
    /// What an element adds to the list's row.
    pub(crate) fn element_bytes(element: &Bytes) -> usize {
        LENGTH_BYTES + element.len()
    }

    pub(crate) fn end(&self, end: End) -> Option<&Bytes> {
        match end {
            End::Left => self.elements.front(),
            End::Right => self.elements.back(),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Bytes> + ExactSizeIterator {
        self.elements.iter()
    }

    pub(crate) fn range(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &Bytes> {
        self.elements.range(range)
    }

    pub(crate) fn push(&mut self, end: End, element: Bytes) {
        self.row_bytes += Self::element_bytes(&element);
        match end {
            End::Left => self.elements.push_front(element),
            End::Right => self.elements.push_back(element),
        }
    }

    pub(crate) fn pop(&mut self, end: End) -> Option<Bytes> {
        let element = match end {
            End::Left => self.elements.pop_front(),
            End::Right => self.elements.pop_back(),
        }?;
        self.row_bytes -= Self::element_bytes(&element);
        self.give_memory_back();
        Some(element)
    }

    /// Removes the elements at these positions, which rise.
    pub(crate) fn remove(&mut self, positions: &[usize]) {
        let (mut at, mut doomed) = (0, positions.iter().peekable());
        let row_bytes = &mut self.row_bytes;
        self.elements.retain(|element| {
            let stays = doomed.next_if_eq(&&at).is_none();
            at += 1;
            if !stays {
                *row_bytes -= Self::element_bytes(element);
            }
            stays
        });
        self.give_memory_back();
    }

    fn give_memory_back(&mut self) {
        if let Some(capacity) = spare(self.elements.len(), self.elements.capacity()) {
            self.elements.shrink_to(capacity);
        }
    }
}

/// The fields of a hash with their values.
#[derive(Debug, Default)]
pub(crate) struct Hash {
    fields: IndexMap<Bytes, Bytes, HashState>,
    row_bytes: usize,
}

impl Hash {
    /// What a field and its value add to the hash's row.
    pub(crate) fn field_bytes(field: &Bytes, value: &Bytes) -> usize {
        LENGTH_BYTES + field.len() + LENGTH_BYTES + value.len()
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Bytes, &Bytes)> {
        self.fields.iter()
    }

    /// Puts a value; whether the field is new.
    pub(crate) fn put(&mut self, field: Bytes, value: Bytes) -> bool {
        let (name_bytes, value_bytes) = (2 * LENGTH_BYTES + field.len(), value.len());
        let before = self.fields.insert(field, value);
        self.row_bytes += value_bytes;
        match &before {
            Some(before) => self.row_bytes -= before.len(),
            None => self.row_bytes += name_bytes,
        }
        before.is_none()
    }

    /// Removes a field; whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, value)) = self.fields.swap_remove_entry(field) else { return false };
        self.row_bytes -= Self::field_bytes(&field, &value);
        if let Some(capacity) = spare(self.fields.len(), self.fields.capacity()) {
            self.fields.shrink_to(capacity);
        }
        true
    }
}

/// A score: a double that is no NaN. There is one zero, because Redis forgets the sign of the
/// other in small sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score(f64);

impl Score {
    /// `None` for NaN.
    pub(crate) fn new(number: f64) -> Option<Self> {
        (!number.is_nan()).then_some(Self(number + 0.0))
    }

    pub(crate) fn get(self) -> f64 {
        self.0
    }

    /// The least score above this one; infinity has none.
    fn next(self) -> Option<Self> {
        (self.0 < f64::INFINITY).then(|| Self(self.0.next_up()))
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).expect("a score is no NaN")
    }
}

/// A range of scores; an end that is excluded lies just outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreRange {
    pub(crate) min: Score,
    pub(crate) min_excluded: bool,
    pub(crate) max: Score,
    pub(crate) max_excluded: bool,
}

/// Members in the order of their scores, then of their bytes.
#[derive(Debug, Default)]
pub(crate) struct SortedSet {
    scores: IndexMap<Bytes, Score, HashState>,
    order: BTreeSet<(Score, Bytes)>,
    row_bytes: usize,
}

impl SortedSet {
    /// What a member and its score add to the set's row.
    pub(crate) fn member_bytes(member: &Bytes) -> usize {
        LENGTH_BYTES + member.len() + SCORE_BYTES
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<Score> {
        self.scores.get(member).copied()
    }

    /// All members, the lowest score first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, Score)> {
        self.order.iter().map(|(score, member)| (member, *score))
    }

    pub(crate) fn range(&self, range: ScoreRange) -> impl Iterator<Item = (&Bytes, Score)> {
        let found = bounds(range).map(|bounds| self.order.range(bounds));
        found.into_iter().flatten().map(|(score, member)| (member, *score))
    }

    /// Adds a member or moves it to this score; whether it is new.
    pub(crate) fn put(&mut self, member: &Bytes, score: Score) -> bool {
        if let Some((_, member, kept)) = self.scores.get_full_mut(member) {
            let place = (std::mem::replace(kept, score), member.clone());
            self.order.remove(&place);
            self.order.insert((score, place.1));
            return false;
        }
        let member = own(member);
        self.row_bytes += Self::member_bytes(&member);
        self.scores.insert(member.clone(), score);
        self.order.insert((score, member));
        true
    }

    /// Removes a member; whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.swap_remove_entry(member) else { return false };
        self.row_bytes -= Self::member_bytes(&member);
        self.order.remove(&(score, member));
        if let Some(capacity) = spare(self.scores.len(), self.scores.capacity()) {
            self.scores.shrink_to(capacity);
        }
        true
    }
}

type Bounds = (Bound<(Score, Bytes)>, Bound<(Score, Bytes)>);

/// A range of scores as a range of the order, where the empty member comes before all others.
fn bounds(range: ScoreRange) -> Option<Bounds> {
    let first = if range.min_excluded { range.min.next()? } else { range.min };
    let end = if range.max_excluded { Some(range.max) } else { range.max.next() };
    if end.is_some_and(|end| end < first) {
        return None; // The tree would panic.
    }
    let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded((end, Bytes::new())));
    Some((Bound::Included((first, Bytes::new())), end))
}
