//! Why a command is refused, in Redis' own words.

use std::borrow::Cow;

use crate::answer::Answer;

/// The sentence that a client gets. Whoever returns it has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, str>);

/// What a command comes to.
pub(crate) type Outcome = Result<Answer, Failure>;

pub(crate) const SYNTAX: Failure = Failure::new("ERR syntax error");
pub(crate) const WRONG_TYPE: Failure =
    Failure::new("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(crate) const NOT_AN_INTEGER: Failure =
    Failure::new("ERR value is not an integer or out of range");
pub(crate) const NOT_A_FLOAT: Failure = Failure::new("ERR value is not a valid float");
pub(crate) const NOT_POSITIVE: Failure =
    Failure::new("ERR value is out of range, must be positive");
pub(crate) const OUT_OF_RANGE: Failure = Failure::new("ERR value is out of range");
pub(crate) const NO_SUCH_KEY: Failure = Failure::new("ERR no such key");
pub(crate) const OVERFLOW: Failure = Failure::new("ERR increment or decrement would overflow");
pub(crate) const NOT_A_NUMBER: Failure =
    Failure::new("ERR increment would produce NaN or Infinity");
pub(crate) const TOO_LONG: Failure =
    Failure::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

impl Failure {
    /// A sentence that is always the same.
    pub(crate) const fn new(sentence: &'static str) -> Self {
        Self(Cow::Borrowed(sentence))
    }

    /// A sentence that names what it is about.
    pub(crate) fn with(sentence: String) -> Self {
        Self(Cow::Owned(sentence))
    }

    pub(crate) fn wrong_arity(command: &str) -> Self {
        Self::with(format!("ERR wrong number of arguments for '{command}' command"))
    }

    pub(crate) fn invalid_expiry(command: &str) -> Self {
        Self::with(format!("ERR invalid expire time in '{command}' command"))
    }

    pub(crate) fn too_many_bytes(bytes_max: usize) -> Self {
        Self::with(format!("{OUT_OF_MEMORY} The limit is {bytes_max} bytes of keys and values"))
    }

    pub(crate) fn too_many_keys(keys_max: usize) -> Self {
        Self::with(format!("{OUT_OF_MEMORY} The limit is {keys_max} keys"))
    }

    pub(crate) fn too_many_elements(elements_max: usize) -> Self {
        Self::with(format!("{OUT_OF_MEMORY} The limit is {elements_max} elements of one key"))
    }

    pub(crate) fn reply_too_large(limit: usize, unit: &str) -> Self {
        Self::with(format!(
            "ERR the reply would have more than {limit} {unit}; ask for less at a time"
        ))
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Error(failure.0)
    }
}
