//! What a command may add, judged before it runs: so that none has to be undone half-way.

use bytes::Bytes;

use crate::call::Call;
use crate::failure::{Failure, TOO_LONG};
use crate::keyspace::Keyspace;

/// What one argument costs at most once it is kept, besides its bytes.
pub(crate) const ARGUMENT_BYTES: usize = 256;

/// Keys that have ended are removed up to this number before a command is refused for want of room.
const SWEEP_WHEN_FULL: usize = 10_000;

/// How a command can make a keyspace larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Not at all.
    Nothing,
    /// What is there grows by the arguments.
    Elements,
    /// As `Elements`; the key at position 1 may be new.
    Key,
    /// As `Elements`; the key at position 2 may be new.
    Destination,
    /// As `Elements`; every second argument may be a new key.
    Pairs,
}

impl Growth {
    /// The keys that may be new.
    fn keys<'a>(self, call: &Call<'a>) -> impl Iterator<Item = &'a Bytes> + use<'a> {
        let (first, n_keys) = match self {
            Self::Nothing | Self::Elements => (1, 0),
            Self::Key => (1, 1),
            Self::Destination => (2, 1),
            Self::Pairs => (1, call.len() / 2),
        };
        call.arguments.iter().skip(first).step_by(2).take(n_keys)
    }
}

impl Keyspace {
    /// Refuses what would not fit.
    pub(crate) fn check_growth(&mut self, growth: Growth, call: &Call<'_>) -> Result<(), Failure> {
        if growth == Growth::Nothing {
            return Ok(());
        }
        let arguments = call.from(1);
        if arguments.iter().any(|argument| argument.len() > self.limits.value_bytes_max) {
            return Err(TOO_LONG);
        }
        self.check_room(call, 0)?;
        self.check_keys(growth, call)
    }

    /// Refuses the arguments and so many more bytes, if they would not fit.
    pub(crate) fn check_room(&mut self, call: &Call<'_>, more: usize) -> Result<(), Failure> {
        let arguments = call.from(1).iter().map(|argument| ARGUMENT_BYTES + argument.len());
        let bytes = arguments.fold(more, usize::saturating_add);
        let bytes_max = self.limits.bytes_max;
        if self.used_bytes().saturating_add(bytes) <= bytes_max {
            return Ok(());
        }
        self.sweep(call.now(), SWEEP_WHEN_FULL);
        if self.used_bytes().saturating_add(bytes) <= bytes_max {
            return Ok(());
        }
        Err(Failure::too_many_bytes(bytes_max))
    }

    /// Refuses a value that came out longer than the arguments.
    pub(crate) fn check_value(&mut self, call: &Call<'_>, value: &Bytes) -> Result<(), Failure> {
        if value.len() > self.limits.value_bytes_max {
            return Err(TOO_LONG);
        }
        self.check_room(call, value.len())
    }

    fn check_keys(&mut self, growth: Growth, call: &Call<'_>) -> Result<(), Failure> {
        let keys_max = self.limits.keys_max;
        if self.len() + call.len() <= keys_max {
            return Ok(());
        }
        self.sweep(call.now(), SWEEP_WHEN_FULL);
        let n_new = growth.keys(call).filter(|key| !self.keys.contains_key(*key)).count();
        if self.len() + n_new > keys_max && n_new > 0 {
            return Err(Failure::too_many_keys(keys_max));
        }
        Ok(())
    }

    /// Refuses a collection of this size.
    pub(crate) fn check_elements(&self, n_elements: usize) -> Result<(), Failure> {
        let elements_max = self.limits.elements_max;
        if n_elements > elements_max {
            return Err(Failure::too_many_elements(elements_max));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::entry::{COLLECTION_BYTES, EXPIRY_BYTES, KEY_BYTES};
    use crate::value::{hash, list, set, sorted_set};

    #[test]
    fn arguments_pay_for_all_that_they_can_add() {
        let collection = KEY_BYTES + COLLECTION_BYTES;
        // As in `SET key value`, `LPUSH key element`, `HSET key field value`, `ZADD key 1 member`.
        for (n_arguments, bytes) in [
            (2, KEY_BYTES + EXPIRY_BYTES),
            (2, collection + list::ELEMENT_BYTES),
            (2, collection + set::MEMBER_BYTES),
            (3, collection + hash::FIELD_BYTES),
            (3, collection + sorted_set::MEMBER_BYTES),
            (1, list::ELEMENT_BYTES),
            (1, set::MEMBER_BYTES),
            (2, hash::FIELD_BYTES),
            (2, sorted_set::MEMBER_BYTES),
        ] {
            assert!(bytes <= n_arguments * ARGUMENT_BYTES, "{n_arguments} arguments, {bytes}");
        }
    }
}
