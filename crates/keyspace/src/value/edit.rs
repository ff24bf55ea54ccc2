//! A collection that may be changed: every change goes to the ledger too.

use bytes::Bytes;

use super::entry::Value;
use crate::ledger::Ledger;

/// A kind of value that has elements.
pub(crate) trait Collection: Sized {
    /// A value without elements.
    fn new_value() -> Value;
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// What its elements take.
    fn bytes_mut(&mut self) -> &mut usize;
}

/// A collection together with what its changes must be told to.
pub(crate) struct Edit<'a, C> {
    /// Where the key is, until the next key is removed.
    pub(crate) index: usize,
    pub(crate) key: &'a Bytes,
    pub(crate) collection: &'a mut C,
    pub(crate) ledger: &'a mut Ledger,
}

impl<C: Collection> Edit<'_, C> {
    pub(crate) fn grow(&mut self, bytes: usize) {
        *self.collection.bytes_mut() += bytes;
        self.ledger.used_bytes += bytes;
    }

    pub(crate) fn shrink(&mut self, bytes: usize) {
        *self.collection.bytes_mut() -= bytes;
        self.ledger.used_bytes -= bytes;
    }
}

/// Tables of at most so many places are left as they are.
const SPARE_PLACES: usize = 64;

/// The capacity that a table should give its memory back down to, after a removal: a key that was
/// large once would otherwise hold on to what nobody counts.
pub(crate) fn spare(length: usize, capacity: usize) -> Option<usize> {
    (capacity > SPARE_PLACES && length < capacity / 4).then_some(length * 2)
}

/// The trait for a variant of [`Value`].
macro_rules! collection {
    ($kind:ident) => {
        impl $crate::value::edit::Collection for $kind {
            fn new_value() -> $crate::value::entry::Value {
                $crate::value::entry::Value::$kind(Box::default())
            }

            fn of(value: &$crate::value::entry::Value) -> Option<&Self> {
                match value {
                    $crate::value::entry::Value::$kind(collection) => Some(collection),
                    _ => None, // Any other kind is simply not this one.
                }
            }

            fn of_mut(value: &mut $crate::value::entry::Value) -> Option<&mut Self> {
                match value {
                    $crate::value::entry::Value::$kind(collection) => Some(collection),
                    _ => None, // Any other kind is simply not this one.
                }
            }

            fn bytes_mut(&mut self) -> &mut usize {
                &mut self.bytes
            }
        }
    };
}

pub(crate) use collection;
