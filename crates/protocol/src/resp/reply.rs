//! What a client gets.

use std::borrow::Cow;

use bytes::Bytes;

/// Which version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The one that every client knows.
    #[default]
    Two,
    /// With nulls, maps, sets, doubles and pushes of their own.
    Three,
}

/// One reply. Version 2 gets maps flat, sets and pushes as arrays, doubles and verbatim text as
/// bulks, nulls as `$-1`.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`, or another short word without a line break.
    Simple(Cow<'static, str>),
    /// `-ERR ...`; line breaks become spaces.
    Error(Cow<'static, str>),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No value.
    Null,
    /// No list; `*-1` in version 2.
    NullArray,
    /// A double.
    Double(f64),
    /// Text for people (`=txt:` in version 3).
    Text(String),
    /// A list.
    Array(Vec<Reply>),
    /// A map.
    Map(Vec<(Reply, Reply)>),
    /// A set.
    Set(Vec<Reply>),
    /// Something that was not asked for, like a message of a channel.
    Push(Vec<Reply>),
}
