//! Writes JSON for others: exactly the keys that they know, and nothing that they cannot read.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::decode::FRAME_BYTES_MAX;
use crate::error_code::ErrorCode;

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
