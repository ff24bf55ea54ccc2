//! One command with its arguments, and the moment at which it is carried out.

use bytes::Bytes;
use model::Timestamp;

use crate::failure::{Failure, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_POSITIVE};
use crate::number;

/// When a command is carried out, and the chance that it may use.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// Fresh random bits.
    pub entropy: u64,
}

/// Arguments below this size are copied, so that a small value does not hold on to the large
/// buffer in which it came from the network.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// The bytes, in memory of their own.
pub(crate) fn own(bytes: &Bytes) -> Bytes {
    if bytes.len() < SHARED_BYTES_MIN { Bytes::copy_from_slice(bytes) } else { bytes.clone() }
}

/// One command with its arguments; the name is at position 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) at: Moment,
    /// In lower case, as Redis names it in errors.
    pub(crate) name: &'static str,
    pub(crate) arguments: &'a [Bytes],
}

impl<'a> Call<'a> {
    pub(crate) fn now(&self) -> Timestamp {
        self.at.now
    }

    /// With the name.
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The argument at a position that the arity promises.
    pub(crate) fn argument(&self, position: usize) -> &'a Bytes {
        &self.arguments[position]
    }

    /// All arguments from a position on.
    pub(crate) fn from(&self, position: usize) -> &'a [Bytes] {
        &self.arguments[position..]
    }

    /// The argument as the value to keep.
    pub(crate) fn value(&self, position: usize) -> Bytes {
        own(self.argument(position))
    }

    /// Whether the argument is this word, in any case.
    pub(crate) fn is(&self, position: usize, word: &str) -> bool {
        self.argument(position).eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn integer(&self, position: usize) -> Result<i64, Failure> {
        number::integer(self.argument(position)).ok_or(NOT_AN_INTEGER)
    }

    /// A count; Redis says the same sentence of negative ones and of what is no number.
    pub(crate) fn count(&self, position: usize) -> Result<usize, Failure> {
        let count = number::integer(self.argument(position)).ok_or(NOT_POSITIVE)?;
        usize::try_from(count).map_err(|_| NOT_POSITIVE)
    }

    pub(crate) fn float(&self, position: usize) -> Result<f64, Failure> {
        number::float(self.argument(position)).ok_or(NOT_A_FLOAT)
    }

    pub(crate) fn wrong_arity(&self) -> Failure {
        Failure::wrong_arity(self.name)
    }
}
