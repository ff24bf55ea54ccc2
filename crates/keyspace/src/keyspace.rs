//! The table of keys: finding, making and removing them, each with its rows.

use std::collections::BTreeSet;

use crate::hash_state::HashState;
use bytes::Bytes;
use indexmap::IndexMap;
use model::Timestamp;

use crate::answer::Answer;
use crate::call::{Call, Moment, own};
use crate::command::{self, Command};
use crate::failure::{Failure, WRONG_TYPE};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::row::Write;
use crate::value::edit::{Collection, Edit};
use crate::value::entry::{Entry, Value};

/// Keys and what they hold.
///
/// Commands change it through [`Keyspace::execute`] alone. What they change is also kept as rows
/// until [`Keyspace::take_writes`] takes them.
#[derive(Debug)]
pub struct Keyspace {
    pub(crate) limits: Limits,
    /// Walked by position for scans. A removal moves the last key into the gap.
    pub(crate) keys: IndexMap<Bytes, Entry, HashState>,
    /// Every key that ends, the next one first.
    pub(crate) expiries: BTreeSet<(Timestamp, Bytes)>,
    pub(crate) ledger: Ledger,
}

/// When a string that is put ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expiry {
    /// When it ended before.
    Keep,
    /// Never.
    Never,
    /// At this moment.
    At(Timestamp),
}

impl Keyspace {
    /// Without keys.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            keys: IndexMap::default(),
            expiries: BTreeSet::new(),
            ledger: Ledger::default(),
        }
    }

    /// Whether there is a command of this name, in any case.
    pub fn knows(name: &[u8]) -> bool {
        command::find(name).is_some()
    }

    /// Carries out one command; `arguments` begin with its name.
    ///
    /// An error changes nothing. Whatever the answer is, keys that are found expired are removed.
    pub fn execute(&mut self, at: Moment, arguments: &[Bytes]) -> Answer {
        let Some(name) = arguments.first() else {
            return Answer::Error("ERR empty command".into());
        };
        let Some(command) = command::find(name) else {
            return command::unknown(arguments).into();
        };
        let call = Call { at, name: command.name, arguments };
        self.run(command, &call).unwrap_or_else(Answer::from)
    }

    fn run(&mut self, command: &Command, call: &Call<'_>) -> Result<Answer, Failure> {
        command.check_arity(call)?;
        self.check_growth(command.growth, call)?;
        (command.run)(self, call)
    }

    /// Rows that changed since the last call, in order.
    pub fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.ledger.writes)
    }

    /// Lists that gained elements since the last call: who waits for one of them asks again.
    pub fn take_grown(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.ledger.grown)
    }

    /// Removes keys that have ended, the earliest first, and says how many they were.
    pub fn sweep(&mut self, now: Timestamp, at_most: usize) -> usize {
        for n_removed in 0..at_most {
            match self.expiries.first() {
                Some((end, key)) if *end <= now => {
                    let index = self.keys.get_index_of(key).expect("a key that ends is a key");
                    self.remove_at(index);
                }
                _ => return n_removed, // None has ended.
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
        self.ledger.used_bytes
    }

    /// How many keys there are, those included that have ended and are not swept yet.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Where a key is. One that has ended is removed first.
    pub(crate) fn find(&mut self, call: &Call<'_>, key: &[u8]) -> Option<usize> {
        let index = self.keys.get_index_of(key)?;
        if self.keys[index].is_expired_at(call.now()) {
            self.remove_at(index);
            return None;
        }
        Some(index)
    }

    /// What a key holds.
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
            Some(Value::List(_) | Value::Hash(_) | Value::Set(_) | Value::SortedSet(_)) => {
                Err(WRONG_TYPE)
            }
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

    /// The collection at a key, to change.
    pub(crate) fn edit<C: Collection>(
        &mut self,
        call: &Call<'_>,
        key: &[u8],
    ) -> Result<Option<Edit<'_, C>>, Failure> {
        match self.find(call, key) {
            None => Ok(None),
            Some(index) => self.edit_at(index).map(Some),
        }
    }

    /// The collection at a key, to change; a new one if there is none.
    pub(crate) fn open<C: Collection>(
        &mut self,
        call: &Call<'_>,
        key: &Bytes,
    ) -> Result<Edit<'_, C>, Failure> {
        let index = match self.find(call, key) {
            Some(index) => index,
            None => self.insert(own(key), Entry { value: C::new_value(), expires_at: None }),
        };
        self.edit_at(index)
    }

    fn edit_at<C: Collection>(&mut self, index: usize) -> Result<Edit<'_, C>, Failure> {
        let (key, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        let collection = C::of_mut(&mut entry.value).ok_or(WRONG_TYPE)?;
        Ok(Edit { index, key, collection, ledger: &mut self.ledger })
    }

    /// Adds a key that is not there, with all its rows.
    pub(crate) fn insert(&mut self, key: Bytes, entry: Entry) -> usize {
        self.ledger.writes.push(entry.write(&key));
        for (item, value) in entry.value.items() {
            self.ledger.put_item(&key, item, value);
        }
        self.place(key, entry)
    }

    /// Adds a key whose rows are kept already.
    pub(crate) fn place(&mut self, key: Bytes, entry: Entry) -> usize {
        self.ledger.used_bytes += entry.bytes(&key);
        if let Some(end) = entry.expires_at {
            self.expiries.insert((end, key.clone()));
        }
        let (index, before) = self.keys.insert_full(key, entry);
        assert!(before.is_none(), "a key is inserted where there is none");
        index
    }

    /// Puts a string, whatever was there before.
    pub(crate) fn put_string(
        &mut self,
        call: &Call<'_>,
        key: &Bytes,
        value: Bytes,
        expiry: Expiry,
    ) {
        let found = self.find(call, key);
        let expires_at = match (expiry, found) {
            (Expiry::At(end), _) if end <= call.now() => return self.remove_found(found),
            (Expiry::At(end), _) => Some(end),
            (Expiry::Keep, Some(index)) => self.keys[index].expires_at,
            (Expiry::Keep, None) | (Expiry::Never, _) => None,
        };
        let Some(index) = found else {
            self.insert(own(key), Entry { value: Value::String(value), expires_at });
            return;
        };
        let (kept, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        let Value::String(before) = &mut entry.value else {
            self.remove_at(index);
            self.insert(own(key), Entry { value: Value::String(value), expires_at });
            return;
        };
        self.ledger.used_bytes += value.len();
        self.ledger.used_bytes -= before.len();
        *before = value;
        if entry.expires_at == expires_at {
            self.ledger.writes.push(entry.write(kept));
        } else {
            self.set_expiry(index, expires_at);
        }
    }

    /// Changes when a key ends.
    pub(crate) fn set_expiry(&mut self, index: usize, expires_at: Option<Timestamp>) {
        let (key, entry) = self.keys.get_index_mut(index).expect("a position of a key");
        self.ledger.used_bytes -= entry.bytes(key);
        let before = std::mem::replace(&mut entry.expires_at, expires_at);
        self.ledger.used_bytes += entry.bytes(key);
        self.ledger.writes.push(entry.write(key));
        if let Some(end) = before {
            self.expiries.remove(&(end, key.clone()));
        }
        if let Some(end) = expires_at {
            self.expiries.insert((end, key.clone()));
        }
    }

    /// Removes a key with its rows.
    pub(crate) fn remove_at(&mut self, index: usize) -> Entry {
        let (key, entry) = self.keys.swap_remove_index(index).expect("a position of a key");
        self.ledger.used_bytes -= entry.bytes(&key);
        if let Some(end) = entry.expires_at {
            self.expiries.remove(&(end, key.clone()));
        }
        self.ledger.writes.push(Write::DeleteKey { key });
        entry
    }

    pub(crate) fn remove_found(&mut self, found: Option<usize>) {
        if let Some(index) = found {
            self.remove_at(index);
        }
    }

    /// Removes a collection that has lost its last element.
    pub(crate) fn remove_if_empty(&mut self, index: usize) {
        if self.keys[index].value.is_empty() {
            self.remove_at(index);
        }
    }
}
