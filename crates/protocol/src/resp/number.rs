//! Whole numbers as they stand on the wire.

use bytes::{BufMut, BytesMut};

/// Reads what Redis takes for a number: no plus, no blanks, no leading zeros, no `-0`.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if text != b"0" && !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes a number without asking the heap.
pub(super) fn write(out: &mut BytesMut, number: i64) {
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strictly_as_redis_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("1000000", Some(1_000_000)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
            ("1\r", None),
        ] {
            assert_eq!(parse(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for number in [0, 7, -7, 10, -10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut out = BytesMut::new();
            write(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(parse(&out), Some(number));
        }
    }
}
