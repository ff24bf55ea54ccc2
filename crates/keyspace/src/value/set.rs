//! Members. They can be walked by position, as in [`super::hash`].

use crate::hash_state::HashState;
use bytes::Bytes;
use indexmap::IndexSet;

use super::edit::{Edit, collection, spare};

/// What a member costs besides its bytes.
pub(crate) const MEMBER_BYTES: usize = 130;

/// The members of a set.
#[derive(Debug, Default)]
pub(crate) struct Set {
    members: IndexSet<Bytes, HashState>,
    bytes: usize,
}

collection!(Set);

impl Set {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Bytes> {
        self.members.get_index(index)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.members.iter()
    }

    pub(crate) fn items(&self) -> Vec<(Bytes, Bytes)> {
        self.members.iter().map(|member| (member.clone(), Bytes::new())).collect()
    }

    /// Whether the member is new.
    pub(crate) fn restore(&mut self, member: Bytes) -> bool {
        let bytes = MEMBER_BYTES + member.len();
        let is_new = self.members.insert(member);
        if is_new {
            self.bytes += bytes;
        }
        is_new
    }
}

impl Edit<'_, Set> {
    /// Whether the member is new.
    pub(crate) fn add(&mut self, member: &Bytes) -> bool {
        if self.collection.members.contains(member) {
            return false;
        }
        let member = crate::call::own(member);
        self.grow(MEMBER_BYTES + member.len());
        self.ledger.put_item(self.key, member.clone(), Bytes::new());
        self.collection.members.insert(member)
    }

    /// Whether it was a member.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(index) = self.collection.members.get_index_of(member) else {
            return false;
        };
        self.take(index).is_some()
    }

    /// Removes the member at a position; the last one takes its place.
    pub(crate) fn take(&mut self, index: usize) -> Option<Bytes> {
        let member = self.collection.members.swap_remove_index(index)?;
        let members = &mut self.collection.members;
        if let Some(capacity) = spare(members.len(), members.capacity()) {
            members.shrink_to(capacity);
        }
        self.shrink(MEMBER_BYTES + member.len());
        self.ledger.delete_item(self.key, member.clone());
        Some(member)
    }
}
