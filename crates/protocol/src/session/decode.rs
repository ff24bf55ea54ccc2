//! The limits of frames, and why one is refused.

use crate::error_code::ErrorCode;

/// The largest frame, in bytes. Workers of the older kind hang up above it.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The deepest nesting of a frame; the frame itself is the first level.
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
        rule: &'static str,
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

    /// The same, about the value of a key that the peer chose.
    pub(super) fn at(self, key: &str) -> Self {
        match self {
            Self::Invalid { path, rule } => Self::Invalid { path: format!("{path}.{key}"), rule },
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
