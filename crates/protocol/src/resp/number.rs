//! Whole numbers as they stand on the wire.

use bytes::{BufMut, BytesMut};

/// As many digits as the longest number has, with its sign.
const DIGITS_MAX: usize = 20;

/// Reads what Redis takes for a number: no plus, no blanks, no leading zeros, no `-0`.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() >= DIGITS_MAX {
        return None;
    }
    // Downwards, because the smallest number has no positive twin.
    let below_zero = digits.iter().try_fold(0_i64, |sum, digit| {
        digit.is_ascii_digit().then_some(())?;
        sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))
    })?;
    if negative { Some(below_zero) } else { below_zero.checked_neg() }
}

/// Writes a number without asking the heap.
pub(super) fn write(out: &mut BytesMut, number: i64) {
    let mut digits = [0_u8; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    let mut rest = number.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(rest % 10).expect("a digit is below 10");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.put_slice(&digits[start..]);
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
