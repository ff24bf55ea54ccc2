//! Payloads: JSON that is opaque from here on, so it is checked here once.

use bytes::Bytes;
use protocol::error_code::ErrorCode;
use serde_json::value::RawValue;

use super::problem::ApiError;

/// How deep a payload may nest. Whoever reads it with a recursive parser is safe.
pub(crate) const PAYLOAD_DEPTH_MAX: usize = 64;

/// The bytes as they were sent. The box that the parser filled becomes the bytes: no second copy.
pub(crate) fn payload(
    name: &str,
    given: Box<RawValue>,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let bytes = Box::<str>::from(given).into_boxed_bytes();
    if bytes.len() > bytes_max {
        let message = format!("{name} has {} bytes, at most {bytes_max} are taken", bytes.len());
        return Err(ApiError::new(ErrorCode::RequestTooLarge, message)
            .with_hint("put the data where others can fetch it, and its address here"));
    }
    if is_deeper_than(&bytes, PAYLOAD_DEPTH_MAX) {
        let rule = format!("nests more than {PAYLOAD_DEPTH_MAX} levels deep");
        return Err(ApiError::invalid(name, rule).with_hint("send deeply nested data as a string"));
    }
    Ok(bytes.into())
}

/// Whether valid JSON nests deeper than this; brackets inside strings do not count.
pub(crate) fn is_deeper_than(text: &[u8], depth_max: usize) -> bool {
    // Each level takes two brackets, so most payloads are too short to be deep.
    if text.len() < 2 * (depth_max + 1) {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_brackets_nest() {
        assert!(is_deeper_than(b"[[[]]]", 2));
        assert!(!is_deeper_than(b"[[[]]]", 3));
        assert!(!is_deeper_than(br#"["[[[[\"[[", "\\"]"#, 1));
        assert!(is_deeper_than(br#"["[[[[\"[[", "\\", [1]]"#, 1));
        assert!(is_deeper_than(br#"{"a":{"b":[1,2,{}]}}"#, 3));
    }

    #[test]
    fn payloads_have_two_limits() {
        let refused = |text: &str, bytes_max| {
            let raw = RawValue::from_string(text.to_owned()).expect("JSON");
            payload("parameters", raw, bytes_max).map(drop).map_err(|error| error.message)
        };
        assert_eq!(refused("[1,2]", 5), Ok(()));
        assert_eq!(
            refused("[1,2]", 4),
            Err("parameters has 5 bytes, at most 4 are taken".to_owned())
        );
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(refused(&nested(PAYLOAD_DEPTH_MAX), 1_000), Ok(()));
        assert_eq!(
            refused(&nested(PAYLOAD_DEPTH_MAX + 1), 1_000),
            Err("parameters nests more than 64 levels deep".to_owned())
        );
    }
}
