//! A scratch keyspace in plain memory: what every store's rows are compared with.

use std::collections::BTreeMap;

use bytes::Bytes;
use keyspace::row::{KeyRow, Kind, Write};
use model::Timestamp;

use crate::contract::StoreError;

/// The keys of one shard and their elements.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScratchTables {
    keys: BTreeMap<Bytes, Head>,
    items: BTreeMap<(Bytes, Bytes), Bytes>,
}

#[derive(Clone, Debug, PartialEq)]
struct Head {
    kind: Kind,
    expires_at: Option<Timestamp>,
    value: Bytes,
}

impl ScratchTables {
    pub(crate) fn apply(&mut self, write: &Write) {
        match write {
            Write::PutKey { key, kind, expires_at, value } => {
                let head = Head { kind: *kind, expires_at: *expires_at, value: value.clone() };
                self.keys.insert(key.clone(), head);
            }
            Write::DeleteKey { key } => {
                self.keys.remove(key);
                self.items.retain(|(owner, _), _| owner != key);
            }
            Write::PutItem { key, item, value } => {
                self.items.insert((key.clone(), item.clone()), value.clone());
            }
            Write::DeleteItem { key, item } => {
                self.items.remove(&(key.clone(), item.clone()));
            }
        }
    }

    pub(crate) fn restore(&self) -> Result<Vec<KeyRow>, StoreError> {
        let mut restoring = Restoring::default();
        for (key, Head { kind, expires_at, value }) in &self.keys {
            restoring.add_key(KeyRow {
                key: key.clone(),
                kind: *kind,
                expires_at: *expires_at,
                value: value.clone(),
                items: Vec::new(),
            });
        }
        for ((key, item), value) in &self.items {
            restoring.add_item(key, item.clone(), value.clone())?;
        }
        Ok(restoring.rows)
    }
}

/// Brings keys and their elements together; both come in order.
#[derive(Debug, Default)]
pub(crate) struct Restoring {
    pub(crate) rows: Vec<KeyRow>,
    /// Whose elements come now.
    at: usize,
}

impl Restoring {
    pub(crate) fn add_key(&mut self, row: KeyRow) {
        self.rows.push(row);
    }

    /// After all keys.
    pub(crate) fn add_item(
        &mut self,
        key: &[u8],
        item: Bytes,
        value: Bytes,
    ) -> Result<(), StoreError> {
        while self.rows.get(self.at).is_some_and(|row| &*row.key < key) {
            self.at += 1;
        }
        match self.rows.get_mut(self.at) {
            Some(row) if &*row.key == key => row.items.push((item, value)),
            Some(_) | None => {
                let key = key.escape_ascii();
                return Err(StoreError::Damaged(format!("an element of {key} has no key")));
            }
        }
        Ok(())
    }
}
