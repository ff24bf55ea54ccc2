//! Numbers in texts, as Redis reads and writes them.

use std::fmt::Write as _;

use crate::literal::{self, Literal};

/// The longest text of an integer.
const INTEGER_BYTES_MAX: usize = 20;

/// Bits of a double's mantissa.
const DOUBLE_PRECISION: usize = 53;

/// Digits that tell every double from its neighbours.
const DOUBLE_DIGITS: i32 = 17;

/// An integer, written in the one way in which Redis would write it.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    if text == b"0" {
        return Some(0);
    }
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if text.len() > INTEGER_BYTES_MAX || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        // Downwards, because the least integer has no positive counterpart.
        let digit = char::from(*digit).to_digit(10)?;
        number = number.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if digits.len() < text.len() { Some(number) } else { number.checked_neg() }
}

/// A double that is no NaN; nothing if it is too large or too small to tell from infinity or zero.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let number = any_float(text)?;
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let says_infinity = !matches!(digits.first(), Some(b'0'..=b'9' | b'.'));
    let says_zero = || {
        let mantissa = digits.split(|byte| matches!(byte, b'e' | b'E' | b'p' | b'P')).next();
        let mantissa = mantissa.unwrap_or(digits);
        mantissa.iter().all(|byte| matches!(byte, b'0' | b'.' | b'x' | b'X'))
    };
    let is_out_of_range = number.is_infinite() && !says_infinity || number == 0.0 && !says_zero();
    (!is_out_of_range).then_some(number)
}

/// A text as C sees it.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

/// A double as C reads it where nobody asks whether it fitted: the end of a range of scores.
pub(crate) fn lenient_float(text: &[u8]) -> Option<f64> {
    let text = until_zero(text);
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let start = text.iter().position(|byte| !blank(byte));
    match start {
        None if text.is_empty() => Some(0.0),
        None => None,
        Some(start) => any_float(&text[start..]),
    }
}

fn any_float(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let number = if literal::is_hexadecimal(digits) {
        hexadecimal(text)?
    } else {
        std::str::from_utf8(text).ok()?.parse().ok()?
    };
    (!number.is_nan()).then_some(number)
}

fn hexadecimal(text: &[u8]) -> Option<f64> {
    let (is_negative, Literal::Finite(exact)) = literal::read(text)? else {
        return None;
    };
    let rounded = exact.rounded(DOUBLE_PRECISION)?;
    let exponent = i32::try_from(rounded.exponent.clamp(-5_000, 5_000)).expect("clamped");
    // In two steps: the power alone may be out of range where the product is not.
    let half = exponent / 2;
    #[expect(clippy::cast_precision_loss, reason = "it was rounded to what fits")]
    let number = rounded.mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    Some(if is_negative { -number } else { number })
}

/// A double as C's `%.17g` writes it.
pub(crate) fn float_text(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("digits");
    if !(-4..DOUBLE_DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mut text = without_zeros(mantissa).to_owned();
        write!(text, "e{sign}{:02}", exponent.abs()).expect("a string takes all");
        return text;
    }
    let decimals = usize::try_from(DOUBLE_DIGITS - 1 - exponent).expect("the exponent is smaller");
    without_zeros(&format!("{number:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_one_way() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0", "a"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(integer(b"-9223372036854775809"), None);
    }

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, number) in [("1.5", 1.5), ("0x10", 16.0), ("-0x.8p1", -1.0), ("1e-310", 1e-310)]
        {
            assert_eq!(float(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(float(b"-inf"), Some(f64::NEG_INFINITY));
        for text in ["1e400", "1e-400", "nan", " 1", "1 ", "0x", "e5", "."] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
        assert_eq!(lenient_float(b" 1e400"), Some(f64::INFINITY));
        assert_eq!(lenient_float(b""), Some(0.0));
    }

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (-1.5e300, "-1.5000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }
}
