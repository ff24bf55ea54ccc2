//! What was changed since the last look: rows for the store, grown lists, and bytes in use.

use bytes::Bytes;

use crate::row::Write;

/// What commands leave behind besides their answers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) writes: Vec<Write>,
    /// Lists that gained elements.
    pub(crate) grown: Vec<Bytes>,
    pub(crate) used_bytes: usize,
}

impl Ledger {
    pub(crate) fn put_item(&mut self, key: &Bytes, item: Bytes, value: Bytes) {
        self.writes.push(Write::PutItem { key: key.clone(), item, value });
    }

    pub(crate) fn delete_item(&mut self, key: &Bytes, item: Bytes) {
        self.writes.push(Write::DeleteItem { key: key.clone(), item });
    }

    pub(crate) fn note_growth(&mut self, key: &Bytes) {
        if self.grown.last() != Some(key) {
            self.grown.push(key.clone());
        }
    }
}
