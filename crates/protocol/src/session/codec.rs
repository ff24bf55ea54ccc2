//! The limits of frames, why one is refused or cannot be sent, and how payloads become JSON.

use std::fmt;

use serde::de::{Error as _, Unexpected};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error_code::ErrorCode;

/// Limit: the largest frame, in bytes. Workers of the older kind hang up above it.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Limit: the deepest nesting of a frame; the frame itself is the first level.
pub const DEPTH_MAX: usize = 64;

/// The longest id, type or tenant of an envelope, in characters.
pub const NAME_CHARS_MAX: usize = 256;

/// The largest integer that every JSON reader keeps exactly.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a frame was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Larger than any frame may be.
    #[error("frame must be at most {FRAME_BYTES_MAX} bytes, not {bytes}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// Nested deeper than any frame may be.
    #[error("frame must be nested at most {DEPTH_MAX} deep")]
    TooDeep,
    /// Not JSON at all.
    #[error("frame must be JSON: {why}")]
    Malformed {
        /// What is wrong, with the line and the column.
        why: String,
    },
    /// JSON, but not what this frame carries.
    #[error("{path} must be {rule}")]
    Invalid {
        /// The place, like `payload.resource_refs[0].type`.
        path: String,
        /// What it must be, in words.
        rule: String,
    },
}

impl DecodeError {
    /// The code that the peer is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::RequestTooLarge,
            Self::TooDeep | Self::Invalid { .. } => ErrorCode::RequestInvalid,
            Self::Malformed { .. } => ErrorCode::RequestMalformed,
        }
    }

    /// The same, seen from further outside.
    pub(super) fn at(self, step: fmt::Arguments<'_>) -> Self {
        match self {
            Self::Invalid { path, rule } => Self::Invalid { path: format!("{step}{path}"), rule },
            other @ (Self::TooLarge { .. } | Self::TooDeep | Self::Malformed { .. }) => other,
        }
    }
}

/// Whether brackets stand deeper within each other than `depth`. Text that is no JSON gets any
/// answer.
///
/// Values that are not looked into are only skipped, so no parser would notice.
pub(super) fn is_nested_deeper_than(text: &str, depth: usize) -> bool {
    // Most frames have fewer brackets than they could be deep, which is quick to see.
    if n_opening(text.as_bytes()) <= depth {
        return false;
    }
    let (mut level, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => level += 1,
            b'}' | b']' if !in_string => level = level.saturating_sub(1),
            _ => {}
        }
        if level > depth {
            return true;
        }
    }
    false
}

/// How many opening brackets there are, counted in chunks whose sum fits a byte: so the compiler
/// looks at many bytes at once.
fn n_opening(bytes: &[u8]) -> usize {
    // The two brackets differ in one bit.
    let count = |sum: u8, byte: &u8| sum.wrapping_add(u8::from(*byte | 0x20 == b'{'));
    let in_chunk = |chunk: &[u8]| usize::from(chunk.iter().fold(0, count));
    bytes.chunks(usize::from(u8::MAX)).map(in_chunk).sum()
}

/// Why a frame cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The peer would hang up on a frame of this size.
    #[error("frame {id} must be at most {FRAME_BYTES_MAX} bytes, not {bytes}")]
    TooLarge {
        /// Which frame.
        id: String,
        /// How large it is.
        bytes: usize,
    },
}

impl EncodeError {
    /// The code of this refusal.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } => ErrorCode::RequestTooLarge,
        }
    }
}

/// A payload as raw JSON.
pub(super) fn raw<T: Serialize>(payload: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(payload).expect("payloads have keys of text only")
}

/// A list of pairs, written as an object in their order.
pub(super) struct Object<'a, V>(pub(super) &'a [(&'a str, V)]);

impl<V: Serialize> Serialize for Object<'_, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A JSON object of anything, kept as the text that it came as.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct OpenObject(Box<RawValue>);

impl OpenObject {
    /// `None` for JSON that is no object.
    pub fn new(raw: Box<RawValue>) -> Option<Self> {
        raw.get().trim_start().starts_with('{').then_some(Self(raw))
    }

    /// `{}`.
    pub fn empty() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
    }

    /// Its text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The same as a raw value.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// The same as a raw value of one's own.
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }
}

impl<'de> Deserialize<'de> for OpenObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw)
            .ok_or_else(|| D::Error::invalid_type(Unexpected::Other("other JSON"), &"an object"))
    }
}

impl PartialEq for OpenObject {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Default for OpenObject {
    fn default() -> Self {
        Self::empty()
    }
}
