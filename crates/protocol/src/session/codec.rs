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

/// The peer would hang up on a frame of this size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame {id} must be at most {FRAME_BYTES_MAX} bytes, not {bytes}")]
pub struct EncodeError {
    /// Which frame.
    pub id: String,
    /// How large it is.
    pub bytes: usize,
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
