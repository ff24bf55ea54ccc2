//! How numbers are written, for those which the standard library does not read.

use crate::natural::Natural;

/// Exponents beyond this are as good as infinite, in either direction.
const EXPONENT_LIMIT: i64 = 100_000;

/// What stands in a text, besides its sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Infinite,
    NotANumber,
    Finite(Exact),
}

/// A number as it was written: `digits * 10^decimal_exponent * 2^binary_exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    digits: Natural,
    decimal_exponent: i64,
    binary_exponent: i64,
}

/// `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounded {
    pub(crate) mantissa: u64,
    pub(crate) exponent: i64,
}

/// Whether it is negative, and what is written there; nothing if it is no number.
pub(crate) fn read(text: &[u8]) -> Option<(bool, Literal)> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    let literal = if is("inf") || is("infinity") {
        Literal::Infinite
    } else if is("nan") {
        Literal::NotANumber
    } else if is_hexadecimal(text) {
        Literal::Finite(number(&text[2..], 16, b'p')?)
    } else {
        Literal::Finite(number(text, 10, b'e')?)
    };
    Some((is_negative, literal))
}

/// Whether an unsigned number is written in hexadecimal digits.
pub(crate) fn is_hexadecimal(text: &[u8]) -> bool {
    matches!(text, [b'0', b'x' | b'X', ..])
}

/// Digits, perhaps a point among them, perhaps an exponent behind this letter.
fn number(text: &[u8], base: u32, letter: u8) -> Option<Exact> {
    let letter_at = text.iter().position(|byte| byte.to_ascii_lowercase() == letter);
    let (mantissa, exponent) = match letter_at {
        Some(at) => (&text[..at], read_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (mut digits, mut n_digits, mut n_behind) = (Natural::default(), 0, None);
    for byte in mantissa {
        if *byte == b'.' && n_behind.is_none() {
            n_behind = Some(0);
            continue;
        }
        digits.multiply_add(base, char::from(*byte).to_digit(base)?);
        n_digits += 1;
        n_behind = n_behind.map(|n| n + 1);
    }
    let n_behind = n_behind.unwrap_or(0);
    let (decimal_exponent, binary_exponent) =
        if base == 16 { (0, exponent - 4 * n_behind) } else { (exponent - n_behind, 0) };
    (n_digits > 0).then_some(Exact { digits, decimal_exponent, binary_exponent })
}

fn read_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0_i64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(10)?;
        exponent = (exponent * 10 + i64::from(digit)).min(EXPONENT_LIMIT);
    }
    Some(if is_negative { -exponent } else { exponent })
}

impl Exact {
    /// The nearest number of so many bits, at most 64; nothing if it is beyond all bounds.
    pub(crate) fn rounded(mut self, precision: usize) -> Option<Rounded> {
        if self.digits.is_zero() {
            return Some(Rounded { mantissa: 0, exponent: 0 });
        }
        if self.decimal_exponent.abs() >= EXPONENT_LIMIT / 2 {
            return None;
        }
        let power = u32::try_from(self.decimal_exponent.unsigned_abs()).expect("below the limit");
        if self.decimal_exponent >= 0 {
            self.digits.multiply_by_ten_to(power);
            return round(self.digits, false, self.binary_exponent, precision);
        }
        // Ten to a power takes less than four bits for each; two more bits tell how to round.
        let shift = power as usize * 4 + precision + 2;
        self.digits.shift_left(shift);
        let is_inexact = self.digits.divide_by_ten_to(power);
        let shift = i64::try_from(shift).expect("below the limit");
        round(self.digits, is_inexact, self.binary_exponent - shift, precision)
    }
}

/// `number * 2^exponent`, to so many bits; halves go to the even neighbour. `is_inexact` says that
/// the number is a little more than it says.
pub(crate) fn round(
    mut number: Natural,
    is_inexact: bool,
    exponent: i64,
    precision: usize,
) -> Option<Rounded> {
    let surplus = number.bits().saturating_sub(precision);
    if surplus == 0 {
        return Some(Rounded { mantissa: number.to_u64()?, exponent });
    }
    let is_beyond_half = number.shift_right(surplus - 1) | is_inexact;
    let reaches_half = number.is_odd();
    number.shift_right(1);
    if reaches_half && (is_beyond_half || number.is_odd()) {
        number.add(&Natural::from(1));
    }
    let mut exponent = exponent.checked_add(i64::try_from(surplus).ok()?)?;
    if number.bits() > precision {
        number.shift_right(1);
        exponent += 1;
    }
    Some(Rounded { mantissa: number.to_u64()?, exponent })
}
