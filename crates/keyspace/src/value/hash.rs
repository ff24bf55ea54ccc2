//! Fields with values. They can be walked by position: a removal moves the last field into the
//! gap, so whoever walks from back to front misses none that stays.

use crate::hash_state::HashState;
use bytes::Bytes;
use indexmap::IndexMap;

use super::edit::{Edit, collection, spare};

/// What a field costs besides its bytes.
pub(crate) const FIELD_BYTES: usize = 180;

/// The fields of a hash.
#[derive(Debug, Default)]
pub(crate) struct Hash {
    fields: IndexMap<Bytes, Bytes, HashState>,
    bytes: usize,
}

collection!(Hash);

impl Hash {
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field)
    }

    pub(crate) fn contains(&self, field: &[u8]) -> bool {
        self.fields.contains_key(field)
    }

    pub(crate) fn at(&self, index: usize) -> Option<(&Bytes, &Bytes)> {
        self.fields.get_index(index)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Bytes, &Bytes)> {
        self.fields.iter()
    }

    pub(crate) fn items(&self) -> Vec<(Bytes, Bytes)> {
        self.fields.iter().map(|(field, value)| (field.clone(), value.clone())).collect()
    }

    pub(crate) fn restore(&mut self, field: Bytes, value: Bytes) -> bool {
        self.bytes += FIELD_BYTES + field.len() + value.len();
        self.fields.insert(field, value).is_none()
    }
}

impl Edit<'_, Hash> {
    /// Whether the field is new.
    pub(crate) fn put(&mut self, field: Bytes, value: Bytes) -> bool {
        let length = value.len();
        self.ledger.put_item(self.key, field.clone(), value.clone());
        let name_length = field.len();
        let before = self.collection.fields.insert(field, value);
        match &before {
            Some(before) => {
                self.grow(length);
                self.shrink(before.len());
            }
            None => self.grow(FIELD_BYTES + name_length + length),
        }
        before.is_none()
    }

    /// Whether there was such a field.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, value)) = self.collection.fields.swap_remove_entry(field) else {
            return false;
        };
        let fields = &mut self.collection.fields;
        if let Some(capacity) = spare(fields.len(), fields.capacity()) {
            fields.shrink_to(capacity);
        }
        self.shrink(FIELD_BYTES + field.len() + value.len());
        self.ledger.delete_item(self.key, field);
        true
    }
}
