//! What a client gets.
//!
//! A [`Reply`] is a value to hand around. The `write_` functions write the same bytes at once, for
//! answers that are given often.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::{double, number};

/// More than a kind, a length and the ends of lines ever take.
const HEAD_BYTES: usize = 32;

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

impl Reply {
    /// `+OK`.
    pub const fn ok() -> Self {
        Self::Simple(Cow::Borrowed("OK"))
    }

    /// A short word without a line break.
    pub fn simple(word: impl Into<Cow<'static, str>>) -> Self {
        Self::Simple(word.into())
    }

    /// An error. Its text begins with a code in capitals, mostly `ERR`.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(text.into())
    }

    /// Bytes, or text that programs read.
    pub fn bulk(bytes: impl Into<Bytes>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// A list of anything that can be a reply.
    pub fn array<T: Into<Self>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }

    /// Writes it in the words of a version.
    pub fn encode(&self, version: Version, out: &mut BytesMut) {
        match self {
            Self::Simple(word) => write_simple(out, word),
            Self::Error(text) => write_error(out, text),
            Self::Integer(number) => write_integer(out, *number),
            Self::Bulk(bytes) => write_bulk(out, bytes),
            Self::Null => write_null(out, version),
            Self::NullArray => write_null_array(out, version),
            Self::Double(number) => write_double(out, *number, version),
            Self::Text(text) => write_text(out, text, version),
            Self::Map(pairs) => {
                write_map_head(out, pairs.len(), version);
                for (key, value) in pairs {
                    key.encode(version, out);
                    value.encode(version, out);
                }
            }
            Self::Array(items) => encode_list(b'*', items, version, out),
            Self::Set(items) => encode_list(b'~', items, version, out),
            Self::Push(items) => encode_list(b'>', items, version, out),
        }
    }
}

/// Version 2 has one kind of list.
fn encode_list(kind: u8, items: &[Reply], version: Version, out: &mut BytesMut) {
    write_head(out, if version == Version::Two { b'*' } else { kind }, signed(items.len()));
    for item in items {
        item.encode(version, out);
    }
}

/// What is a reply by itself.
macro_rules! replies {
    ($($type:ty: |$value:ident| $reply:expr;)*) => {
        $(impl From<$type> for Reply {
            fn from($value: $type) -> Self {
                $reply
            }
        })*
    };
}

replies! {
    i64: |number| Self::Integer(number);
    bool: |yes| Self::Integer(yes.into());
    usize: |count| Self::Integer(signed(count));
    f64: |number| Self::Double(number);
    Bytes: |bytes| Self::Bulk(bytes);
    String: |text| Self::Bulk(text.into());
    &'static str: |text| Self::Bulk(Bytes::from_static(text.as_bytes()));
}

impl<T: Into<Reply>> From<Option<T>> for Reply {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Writes `+OK`.
pub fn write_ok(out: &mut BytesMut) {
    out.put_slice(b"+OK\r\n");
}

/// Writes a short word.
pub fn write_simple(out: &mut BytesMut, word: &str) {
    write_line(out, b'+', word);
}

/// Writes an error, its code included.
pub fn write_error(out: &mut BytesMut, text: &str) {
    write_line(out, b'-', text);
}

/// Writes a number.
pub fn write_integer(out: &mut BytesMut, number: i64) {
    write_head(out, b':', number);
}

/// Writes bytes.
pub fn write_bulk(out: &mut BytesMut, bytes: &[u8]) {
    out.reserve(bytes.len() + HEAD_BYTES);
    write_head(out, b'$', signed(bytes.len()));
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Writes that there is no value.
pub fn write_null(out: &mut BytesMut, version: Version) {
    out.put_slice(match version {
        Version::Two => b"$-1\r\n",
        Version::Three => b"_\r\n",
    });
}

/// Writes that there is no list.
pub fn write_null_array(out: &mut BytesMut, version: Version) {
    out.put_slice(match version {
        Version::Two => b"*-1\r\n",
        Version::Three => b"_\r\n",
    });
}

/// Writes a double.
pub fn write_double(out: &mut BytesMut, number: f64, version: Version) {
    let text = double::text(number);
    match version {
        Version::Two => write_bulk(out, text.as_bytes()),
        Version::Three => write_line(out, b',', &text),
    }
}

/// Writes text for people.
pub fn write_text(out: &mut BytesMut, text: &str, version: Version) {
    /// What version 3 says of the text before it comes.
    const KIND: &[u8] = b"txt:";
    match version {
        Version::Two => write_bulk(out, text.as_bytes()),
        Version::Three => {
            write_head(out, b'=', signed(KIND.len() + text.len()));
            out.put_slice(KIND);
            out.put_slice(text.as_bytes());
            out.put_slice(b"\r\n");
        }
    }
}

/// Begins a list; so many items are to be written next.
pub fn write_array_head(out: &mut BytesMut, n_items: usize) {
    write_head(out, b'*', signed(n_items));
}

/// Begins a map; so many keys are to be written next, each before its value.
pub fn write_map_head(out: &mut BytesMut, n_pairs: usize, version: Version) {
    match version {
        Version::Two => write_array_head(out, n_pairs * 2),
        Version::Three => write_head(out, b'%', signed(n_pairs)),
    }
}

fn write_head(out: &mut BytesMut, kind: u8, number: i64) {
    out.reserve(HEAD_BYTES);
    out.put_u8(kind);
    number::write(out, number);
    out.put_slice(b"\r\n");
}

/// A line break inside would let the text of one client's data forge the next reply.
fn write_line(out: &mut BytesMut, kind: u8, text: &str) {
    out.reserve(text.len() + HEAD_BYTES);
    out.put_u8(kind);
    let start = out.len();
    out.put_slice(text.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    out.put_slice(b"\r\n");
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("memory holds fewer than 2^63 bytes")
}
