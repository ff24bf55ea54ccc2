//! Payloads: JSON that is opaque from here on, so it is checked here once.
//!
//! The parser says at which line and column it stopped; people think in fields, so a position
//! becomes a path like `tasks[3].retry.backoff_ms`. This is only asked after an error, so it may
//! take its time.

use std::fmt::Write;

use bytes::Bytes;
use model::is_deeper_than;
use protocol::error_code::ErrorCode;
use serde_json::value::RawValue;

use super::problem::ApiError;

/// Limit: how deep parameters and results may nest, so that a recursive parser reads them safely.
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

/// One level of nesting.
enum Level {
    Object { key: String, expects_key: bool },
    Array { index: usize },
}

/// Whether a text is an object, as far as its first letter tells. A parser of ours takes a list of
/// values for an object with its fields in order, which nobody means.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{')
}

/// What a parser found wrong, with the field where it stopped.
pub(crate) fn describe(text: &[u8], error: &serde_json::Error) -> String {
    let path = path_at(text, offset_of(text, error.line(), error.column()));
    let mut message = error.to_string();
    if let Some(at) = message.rfind(" at line ") {
        message.truncate(at);
    }
    if message.contains("untagged enum") {
        // The name of a type of ours means nothing outside.
        "has another form than it should".clone_into(&mut message);
    }
    if path.is_empty() { message } else { format!("{path}: {message}") }
}

/// The byte that a parser's line and column (both from 1, columns in bytes) stand for.
pub(crate) fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(line.saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    (before + column).min(text.len())
}

/// The path to the value that was last begun before `offset`; empty at the top.
pub(crate) fn path_at(text: &[u8], offset: usize) -> String {
    let mut levels: Vec<Level> = Vec::new();
    let mut bytes = text[..offset.min(text.len())].iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' => levels.push(Level::Object { key: String::new(), expects_key: true }),
            b'[' => levels.push(Level::Array { index: 0 }),
            b'}' | b']' => {
                levels.pop();
            }
            b',' => levels.last_mut().map_or((), step),
            b'"' => {
                let string = rest_of_string(&mut bytes);
                if let Some(Level::Object { key, expects_key: expects_key @ true }) =
                    levels.last_mut()
                {
                    *key = string;
                    *expects_key = false;
                }
            }
            _ => {}
        }
    }
    write_path(&levels)
}

fn step(level: &mut Level) {
    match level {
        Level::Object { key, expects_key } => {
            key.clear();
            *expects_key = true;
        }
        Level::Array { index } => *index += 1,
    }
}

/// Escapes stay as they are: the path is for people, and our own fields have none.
fn rest_of_string(bytes: &mut impl Iterator<Item = u8>) -> String {
    let mut string = Vec::new();
    let mut escaped = false;
    for byte in bytes {
        if byte == b'"' && !escaped {
            break;
        }
        escaped = byte == b'\\' && !escaped;
        string.push(byte);
    }
    String::from_utf8_lossy(&string).into_owned()
}

fn write_path(levels: &[Level]) -> String {
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object { key, .. } if key.is_empty() => {}
            Level::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Level::Array { index } => {
                write!(path, "[{index}]").expect("a String takes everything");
            }
        }
    }
    path
}

/// Limit: tasks in one submit.
pub(crate) const TASKS_PER_SUBMIT_MAX: usize = 10_000;
/// Limit: the parameters of one task.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;
/// Limit: tools or tags that a task may demand, of each.
pub(crate) const DEMAND_ENTRIES_MAX: usize = 64;
/// Limit: the result of one attempt.
pub(crate) const RESULT_BYTES_MAX: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod payload_tests {
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

#[cfg(test)]
mod json_path_tests {
    use super::*;

    #[test]
    fn a_position_becomes_a_path() {
        check(
            r#"{"tasks":[{"type":"x"},{"retry":{"backoff_ms":"soon"#,
            "tasks[1].retry.backoff_ms",
        );
        check(r#"{"tasks":[{"type":"x"}"#, "tasks[0]");
        check(r#"{"tasks":[{"type":"x","a\"]}":1"#, r#"tasks[0].a\"]}"#);
        check(r#"{"worker_id":"w","max":-"#, "max");
        check("[1,2,", "[2]");
        check("nonsense", "");
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(path_at(text.as_bytes(), text.len()), expected);
    }

    #[test]
    fn lines_and_columns_become_offsets() {
        let text = b"{\n  \"a\": 1\n}";
        assert_eq!(offset_of(text, 1, 1), 1);
        assert_eq!(offset_of(text, 2, 3), 5);
        assert_eq!(offset_of(text, 9, 9), text.len());
    }
}
