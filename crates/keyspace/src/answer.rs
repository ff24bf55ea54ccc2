//! What a command gives; how it looks on the wire is the door's business.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It is done.
    Ok,
    /// There is no such thing.
    Null,
    /// Nothing came in time, where a list of things was asked for.
    NullArray,
    /// A number.
    Integer(i64),
    /// A score.
    Double(f64),
    /// A value.
    Bulk(Bytes),
    /// A word.
    Word(&'static str),
    /// Several answers.
    Array(Vec<Answer>),
    /// Fields with values.
    Map(Vec<(Bytes, Bytes)>),
    /// Members.
    Set(Vec<Bytes>),
    /// Fields with values, of which some may come twice: flat in version 2 of the protocol, an array
    /// of pairs in version 3.
    Pairs(Vec<(Bytes, Bytes)>),
    /// Members with scores.
    Scored(Vec<(Bytes, f64)>),
    /// Nothing to give yet: whoever asked waits until one of these keys gains an element, then
    /// asks the same again. Changes nothing.
    Block {
        /// The keys.
        keys: Vec<Bytes>,
        /// How long; `None` is for ever.
        timeout: Option<Duration>,
    },
    /// The command cannot be carried out; nothing changed. Redis' own words, its prefix included,
    /// like `WRONGTYPE Operation against a key holding the wrong kind of value`.
    Error(Cow<'static, str>),
}
