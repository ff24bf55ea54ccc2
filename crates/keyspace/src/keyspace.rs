//! The table of keys: finding, making and removing them, what it may hold, and what the store has
//! to be told.

use std::collections::BTreeSet;

use bytes::Bytes;
use indexmap::IndexMap;
use model::Timestamp;

use crate::call::{Answer, Call, Failure, Operation, Outcome, WRONG_TYPE, own};
use crate::row::{self, DamagedRow, Row, Write};
use crate::value::{Collection, Entry, HashState, Value};

/// Limit: keys and values of one tenant, with what it costs to keep them.
pub const KEYSPACE_BYTES_MAX: usize = 256 << 20;
/// Limit: keys of one tenant.
pub const KEYS_MAX: usize = 1_000_000;
/// Limit: a string, or the name of a key, in bytes.
pub const STRING_BYTES_MAX: usize = 1 << 20;
/// Limit: a list, a hash or a sorted set: its row, in bytes.
pub const COLLECTION_BYTES_MAX: usize = 256 << 10;
/// Limit: elements of a list, fields of a hash or members of a sorted set.
pub const COLLECTION_ELEMENTS_MAX: usize = 10_000;
/// Limit: the values and names that one reply carries, in bytes.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// The memory of one argument at most, once it is kept, besides its bytes.
const ARGUMENT_BYTES: usize = 256;
/// The memory of a row on its way to the store, besides its bytes.
const WRITE_BYTES: usize = 128;
/// Keys that have ended are removed up to this number before a command is refused for want of room.
const SWEEP_WHEN_FULL: usize = 10_000;

/// What a keyspace may hold. Over a limit a command is refused, and nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// [`KEYSPACE_BYTES_MAX`].
    pub keyspace_bytes_max: usize,
    /// [`KEYS_MAX`].
    pub keys_max: usize,
    /// [`STRING_BYTES_MAX`].
    pub string_bytes_max: usize,
    /// [`COLLECTION_BYTES_MAX`].
    pub collection_bytes_max: usize,
    /// [`COLLECTION_ELEMENTS_MAX`].
    pub collection_elements_max: usize,
    /// [`REPLY_BYTES_MAX`].
    pub reply_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            keyspace_bytes_max: KEYSPACE_BYTES_MAX,
            keys_max: KEYS_MAX,
            string_bytes_max: STRING_BYTES_MAX,
            collection_bytes_max: COLLECTION_BYTES_MAX,
            collection_elements_max: COLLECTION_ELEMENTS_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
        }
    }
}

impl Limits {
    pub(crate) fn refuse_string(&self) -> Failure {
        let max = self.string_bytes_max;
        Failure::with(format!("ERR a string or a name has at most {max} bytes"))
    }

    /// Refuses a collection of this size.
    pub(crate) fn check_collection(&self, elements: usize, bytes: usize) -> Result<(), Failure> {
        let (bytes_max, elements_max) = (self.collection_bytes_max, self.collection_elements_max);
        if elements <= elements_max && bytes <= bytes_max {
            return Ok(());
        }
        Err(Failure::with(format!(
            "ERR a list, hash or sorted set has at most {bytes_max} bytes and {elements_max} elements"
        )))
    }

    /// Refuses a value that is larger than a value may be.
    fn check_value(&self, value: &Value) -> Result<(), Failure> {
        match value {
            Value::String(value) if value.len() > self.string_bytes_max => {
                Err(self.refuse_string())
            }
            Value::String(_) => Ok(()),
            Value::List(_) | Value::Hash(_) | Value::SortedSet(_) => {
                self.check_collection(value.len(), value.row_bytes())
            }
        }
    }

    /// Refuses a reply that carries so many bytes.
    pub(crate) fn check_reply(&self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.reply_bytes_max {
            return Ok(());
        }
        let max = self.reply_bytes_max;
        Err(Failure::with(format!("ERR the reply would have more than {max} bytes")))
    }

    /// All of these, unless they are too much for one reply.
    pub(crate) fn collect<'a>(
        &self,
        values: impl Iterator<Item = Option<&'a Bytes>>,
    ) -> Result<Vec<Answer>, Failure> {
        let mut n_bytes = 0;
        let collected = values.map(|value| {
            n_bytes += value.map_or(0, Bytes::len);
            self.check_reply(n_bytes).map(|()| Answer::bulk_or_null(value))
        });
        collected.collect()
    }
}

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Keys and their values.
///
/// Commands change it through [`Keyspace::execute`]. The keys that they changed are remembered
/// until [`Keyspace::take_writes`] makes rows of them.
#[derive(Debug)]
pub struct Keyspace {
    pub(crate) limits: Limits,
    /// Walked by position for scans. A removal moves the last key into the gap.
    pub(crate) keys: IndexMap<Bytes, Entry, HashState>,
    /// Every key that ends, the next one first.
    expiries: BTreeSet<(Timestamp, Bytes)>,
    /// Keys whose rows have changed, with the bytes that each adds to `unsaved_bytes`.
    touched: IndexMap<Bytes, usize, HashState>,
    /// Lists that gained elements.
    grown: Vec<Bytes>,
    used_bytes: usize,
    unsaved_bytes: usize,
}

impl Keyspace {
    /// A keyspace without keys.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            keys: IndexMap::default(),
            expiries: BTreeSet::new(),
            touched: IndexMap::default(),
            grown: Vec::new(),
            used_bytes: 0,
            unsaved_bytes: 0,
        }
    }

    /// The keyspace that these rows are of. A value over the limits stays as it is.
    pub fn restore(
        limits: Limits,
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<Self, DamagedRow> {
        let mut space = Self::new(limits);
        for Row { key, kind, expires_at, value } in rows {
            let damaged = |problem| DamagedRow { key: key.clone(), problem };
            if space.keys.contains_key(&key) {
                return Err(damaged("the key has two rows"));
            }
            let value = row::decode(kind, value).map_err(damaged)?;
            let is_oversized = limits.check_value(&value).is_err();
            space.place(key, Entry { value, expires_at, is_oversized });
        }
        Ok(space)
    }

    /// Carries out one command; `arguments` begin with its name.
    ///
    /// An error changes nothing. Whatever the answer is, keys that are found expired are removed.
    pub fn execute(&mut self, now: Timestamp, operation: Operation, arguments: &[Bytes]) -> Answer {
        operation(self, &Call { now, arguments }).unwrap_or_else(Answer::from)
    }

    /// The rows of the keys that changed since the last call, each once. Only now are they encoded.
    pub fn take_writes(&mut self) -> Vec<Write> {
        self.unsaved_bytes = 0;
        let touched = std::mem::take(&mut self.touched);
        let write = |key: Bytes| match self.keys.get(&key) {
            Some(entry) => Write::Put(row_of(&key, entry)),
            None => Write::Delete(key),
        };
        touched.into_keys().map(write).collect()
    }

    /// Whether a row has changed since [`Keyspace::take_writes`].
    pub fn has_writes(&self) -> bool {
        !self.touched.is_empty()
    }

    /// About how much memory [`Keyspace::take_writes`] would take.
    pub fn unsaved_bytes(&self) -> usize {
        self.unsaved_bytes
    }

    /// Lists that gained elements since the last call: pops that wait for one of them ask again.
    pub fn take_grown(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.grown)
    }

    /// Removes keys that have ended, the earliest first, and says how many they were.
    pub fn sweep(&mut self, now: Timestamp, at_most: usize) -> usize {
        for n_removed in 0..at_most {
            match self.expiries.first() {
                Some((end, key)) if *end <= now => {
                    let index = self.keys.get_index_of(key).expect("a key that ends is a key");
                    self.remove_at(index);
                }
                Some(_) | None => return n_removed,
            }
        }
        at_most
    }

    /// When the next key ends.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(end, _)| *end)
    }

    /// About how much memory keys and values take.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// How many keys there are, those included that have ended and are not swept yet.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The rows of all keys, in no special order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.keys.iter().map(|(key, entry)| row_of(key, entry))
    }

    /// Refuses a command that would not fit, before it changes anything. `key` is the one that it
    /// may add.
    pub(crate) fn admit(&mut self, call: &Call<'_>, key: &Bytes) -> Result<(), Failure> {
        let Limits { keyspace_bytes_max, keys_max, string_bytes_max, .. } = self.limits;
        if key.len() > string_bytes_max {
            return Err(self.limits.refuse_string());
        }
        let wanted: usize = call.from(1).iter().map(|one| ARGUMENT_BYTES + one.len()).sum();
        let has_room = |space: &Self| space.used_bytes.saturating_add(wanted) <= keyspace_bytes_max;
        let has_place = |space: &Self| space.keys.len() < keys_max || space.keys.contains_key(key);
        if has_room(self) && has_place(self) {
            return Ok(());
        }
        self.sweep(call.now, SWEEP_WHEN_FULL);
        let limit = match (has_room(self), has_place(self)) {
            (true, true) => return Ok(()),
            (false, _) => format!("{keyspace_bytes_max} bytes of keys and values"),
            (true, false) => format!("{keys_max} keys"),
        };
        Err(Failure::with(format!("{OUT_OF_MEMORY} The limit is {limit}")))
    }

    /// Where a key is. One that has ended is removed first.
    pub(crate) fn find(&mut self, call: &Call<'_>, key: &[u8]) -> Option<usize> {
        let index = self.keys.get_index_of(key)?;
        if self.keys[index].is_expired_at(call.now) {
            self.remove_at(index);
            return None;
        }
        Some(index)
    }

    pub(crate) fn entry(&mut self, call: &Call<'_>, key: &[u8]) -> Option<&Entry> {
        self.find(call, key).map(|index| &self.keys[index])
    }

    /// The string at a key.
    pub(crate) fn string(
        &mut self,
        call: &Call<'_>,
        key: &[u8],
    ) -> Result<Option<&Bytes>, Failure> {
        match self.entry(call, key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(Value::List(_) | Value::Hash(_) | Value::SortedSet(_)) => Err(WRONG_TYPE),
        }
    }

    /// The collection at a key, to read.
    pub(crate) fn look<C: Collection>(
        &mut self,
        call: &Call<'_>,
        key: &[u8],
    ) -> Result<Option<&C>, Failure> {
        match self.entry(call, key) {
            None => Ok(None),
            Some(entry) => C::of(&entry.value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Where the collection of a key is, if it may be changed.
    pub(crate) fn find_collection<C: Collection>(
        &mut self,
        call: &Call<'_>,
        key: &[u8],
    ) -> Result<Option<usize>, Failure> {
        let Some(index) = self.find(call, key) else { return Ok(None) };
        C::of(&self.keys[index].value).ok_or(WRONG_TYPE)?;
        self.check_changeable(index)?;
        Ok(Some(index))
    }

    /// Refuses to change a value that was restored larger than a value may be.
    pub(crate) fn check_changeable(&self, index: usize) -> Result<(), Failure> {
        let entry = &self.keys[index];
        if entry.is_oversized { self.limits.check_value(&entry.value) } else { Ok(()) }
    }

    /// The collection that [`Keyspace::find_collection`] found.
    pub(crate) fn collection<C: Collection>(&self, index: usize) -> &C {
        C::of(&self.keys[index].value).expect("its kind was checked")
    }

    /// Changes the collection at a position, or a new one of this name, and everything that depends
    /// on it. One that has lost its last element is removed.
    pub(crate) fn change<C: Collection, T>(
        &mut self,
        found: Option<usize>,
        key: &Bytes,
        change: impl FnOnce(&mut C) -> T,
    ) -> T {
        let Some(index) = found else {
            let mut collection = C::default();
            let changed = change(&mut collection);
            self.insert(own(key), Entry::new(collection.into_value(), None));
            return changed;
        };
        let (key, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        let before = entry.bytes(key);
        let collection = C::of_mut(&mut entry.value).expect("its kind was checked");
        let changed = change(collection);
        self.used_bytes = self.used_bytes + entry.bytes(key) - before;
        if entry.value.len() == 0 {
            self.remove_at(index);
        } else {
            self.touch(index);
        }
        changed
    }

    /// Removes the named elements of a collection, and counts those that were there. Where there
    /// is none of them, nothing has changed.
    pub(crate) fn remove_each<C: Collection>(
        &mut self,
        call: &Call<'_>,
        has: impl Fn(&C, &[u8]) -> bool,
        remove: impl Fn(&mut C, &[u8]) -> bool,
    ) -> Outcome {
        let (key, names) = (call.argument(1), call.from(2));
        let found = self.find_collection::<C>(call, key)?;
        let found =
            found.filter(|index| names.iter().any(|name| has(self.collection(*index), name)));
        let Some(index) = found else { return Ok(Answer::Integer(0)) };
        Ok(Answer::count(self.change(Some(index), key, |collection: &mut C| {
            names.iter().filter(|name| remove(collection, name)).count()
        })))
    }

    /// Remembers that a list gained elements.
    pub(crate) fn note_growth(&mut self, key: &Bytes) {
        if self.grown.last() != Some(key) {
            self.grown.push(key.clone());
        }
    }

    /// Puts a string, whatever the key at the position holds.
    pub(crate) fn put_string(
        &mut self,
        found: Option<usize>,
        key: &Bytes,
        value: Bytes,
        expires_at: Option<Timestamp>,
    ) {
        let Some(index) = found else {
            self.insert(own(key), Entry::new(Value::String(value), expires_at));
            return;
        };
        let (key, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        let before = entry.bytes(key);
        entry.value = Value::String(value);
        self.used_bytes = self.used_bytes + entry.bytes(key) - before;
        self.set_expiry(index, expires_at);
    }

    /// Sets when a key ends, and remembers that its row has changed.
    pub(crate) fn set_expiry(&mut self, index: usize, expires_at: Option<Timestamp>) {
        let (key, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        if entry.expires_at != expires_at {
            let bytes_before = entry.bytes(key);
            let before = std::mem::replace(&mut entry.expires_at, expires_at);
            self.used_bytes = self.used_bytes + entry.bytes(key) - bytes_before;
            if let Some(end) = before {
                self.expiries.remove(&(end, key.clone()));
            }
            if let Some(end) = expires_at {
                self.expiries.insert((end, key.clone()));
            }
        }
        self.touch(index);
    }

    fn insert(&mut self, key: Bytes, entry: Entry) {
        let index = self.place(key, entry);
        self.touch(index);
    }

    /// Adds a key as the store has it.
    fn place(&mut self, key: Bytes, entry: Entry) -> usize {
        self.used_bytes += entry.bytes(&key);
        if let Some(end) = entry.expires_at {
            self.expiries.insert((end, key.clone()));
        }
        let (index, before) = self.keys.insert_full(key, entry);
        assert!(before.is_none(), "a key is inserted where there is none");
        index
    }

    pub(crate) fn remove_at(&mut self, index: usize) {
        let (key, entry) = self.keys.swap_remove_index(index).expect("a position of a key");
        self.used_bytes -= entry.bytes(&key);
        if let Some(end) = entry.expires_at {
            self.expiries.remove(&(end, key.clone()));
        }
        self.count_unsaved(&key, WRITE_BYTES + key.len());
    }

    fn touch(&mut self, index: usize) {
        let (key, entry) = self.keys.get_index(index).expect("a position of a key");
        let bytes = WRITE_BYTES + key.len() + entry.value.row_bytes();
        let key = key.clone();
        self.count_unsaved(&key, bytes);
    }

    /// A key's row has changed, and has this size.
    fn count_unsaved(&mut self, key: &Bytes, bytes: usize) {
        let before = if let Some(counted) = self.touched.get_mut(key) {
            std::mem::replace(counted, bytes)
        } else {
            self.touched.insert(key.clone(), bytes);
            0
        };
        self.unsaved_bytes = self.unsaved_bytes + bytes - before;
    }

    /// How many keys have not ended.
    pub fn count_live(&self, now: Timestamp) -> usize {
        self.len() - self.expiries.iter().take_while(|(end, _)| *end <= now).count()
    }
}

fn row_of(key: &Bytes, entry: &Entry) -> Row {
    Row {
        key: key.clone(),
        kind: entry.value.kind(),
        expires_at: entry.expires_at,
        value: row::encode(&entry.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{
        COLLECTION_BYTES, ELEMENT_BYTES, EXPIRY_BYTES, FIELD_BYTES, KEY_BYTES, MEMBER_BYTES,
    };

    #[test]
    fn arguments_pay_for_all_that_they_can_add() {
        let collection = KEY_BYTES + COLLECTION_BYTES;
        // As in `SET key value`, `LPUSH key element`, `HSET key field value`, `ZADD key 1 member`.
        for (n_arguments, bytes) in [
            (2, KEY_BYTES + EXPIRY_BYTES),
            (2, collection + ELEMENT_BYTES + row::LENGTH_BYTES),
            (3, collection + FIELD_BYTES + 2 * row::LENGTH_BYTES),
            (3, collection + MEMBER_BYTES + row::LENGTH_BYTES + row::SCORE_BYTES),
            (1, ELEMENT_BYTES + row::LENGTH_BYTES),
            (2, FIELD_BYTES + 2 * row::LENGTH_BYTES),
            (2, MEMBER_BYTES + row::LENGTH_BYTES + row::SCORE_BYTES),
        ] {
            assert!(bytes <= n_arguments * ARGUMENT_BYTES, "{n_arguments} arguments, {bytes}");
        }
    }
}
