//! Numbers with 64 bits of precision, in which Redis adds fractions: `0.1` ten times is `1`.
//!
//! They are what C calls `long double` on the machines where Redis usually runs.

use crate::literal::{self, Literal};
use crate::natural::Natural;

/// Bits of the part that is kept.
const PRECISION: usize = 64;

/// Numbers from two to this power on are too large.
const EXPONENT_MAX: i64 = 16_384;

/// Numbers below two to this power are too small.
const EXPONENT_MIN: i64 = -16_446;

/// Digits after the point, as Redis writes them.
const FRACTION_DIGITS: u32 = 17;

/// Redis reads no longer texts.
const TEXT_BYTES_MAX: usize = 5 * 1024;

/// `mantissa * 2^exponent`, or less than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongDouble {
    is_negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Finite(LongDouble),
    Infinite { is_negative: bool },
}

/// Reads a number as Redis does; nothing if it is none, or too large, or too small.
pub(crate) fn parse(text: &[u8]) -> Option<Parsed> {
    if text.is_empty() || text.len() >= TEXT_BYTES_MAX {
        return None;
    }
    let (is_negative, literal) = literal::read(text)?;
    let exact = match literal {
        Literal::Infinite => return Some(Parsed::Infinite { is_negative }),
        Literal::NotANumber => return None,
        Literal::Finite(exact) => exact,
    };
    let number = exact.rounded(PRECISION)?;
    let number = LongDouble { is_negative, mantissa: number.mantissa, exponent: number.exponent };
    let size = number.size()?;
    (size <= EXPONENT_MAX && size > EXPONENT_MIN || number.mantissa == 0)
        .then_some(Parsed::Finite(number))
}

impl Parsed {
    pub(crate) const ZERO: Self =
        Self::Finite(LongDouble { is_negative: false, mantissa: 0, exponent: 0 });

    /// The sum, if it is finite.
    pub(crate) fn plus(self, other: Self) -> Option<LongDouble> {
        match (self, other) {
            (Self::Finite(one), Self::Finite(two)) => one.plus(two),
            (Self::Infinite { .. }, _) | (_, Self::Infinite { .. }) => None,
        }
    }
}

impl LongDouble {
    /// The power of two that it is below.
    fn size(&self) -> Option<i64> {
        self.exponent.checked_add(i64::from(u64::BITS - self.mantissa.leading_zeros()))
    }

    /// The sum; nothing if it is too large.
    fn plus(self, other: Self) -> Option<Self> {
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let exponent = self.exponent.min(other.exponent);
        let (mut one, two) = (self.aligned(exponent), other.aligned(exponent));
        let mut is_negative = self.is_negative;
        if self.is_negative == other.is_negative {
            one.add(&two);
        } else if one >= two {
            one.subtract(&two);
        } else {
            let first = std::mem::replace(&mut one, two);
            one.subtract(&first);
            is_negative = other.is_negative;
        }
        let sum = literal::round(one, false, exponent, PRECISION)?;
        let sum = Self { is_negative, mantissa: sum.mantissa, exponent: sum.exponent };
        (sum.size()? <= EXPONENT_MAX).then_some(sum)
    }

    fn aligned(self, exponent: i64) -> Natural {
        let mut natural = Natural::from(self.mantissa);
        let distance = usize::try_from(self.exponent - exponent).expect("the lower exponent");
        natural.shift_left(distance);
        natural
    }

    /// A thousand times as much, rounded up to a whole number, as far as that fits.
    pub(crate) fn millis_rounded_up(self) -> i128 {
        let scaled = u128::from(self.mantissa) * 1_000;
        let shift = u32::try_from(self.exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let magnitude = if self.exponent >= 0 {
            let fits = self.mantissa == 0 || shift < scaled.leading_zeros();
            if fits { scaled.checked_shl(shift).unwrap_or(0) } else { i128::MAX.cast_unsigned() }
        } else {
            let whole = scaled.checked_shr(shift).unwrap_or(0);
            let has_rest = scaled != whole.checked_shl(shift).unwrap_or(0);
            whole + u128::from(has_rest && !self.is_negative)
        };
        let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
        if self.is_negative { -magnitude } else { magnitude }
    }

    /// As Redis writes it for people: no exponent, no zeros at the end.
    pub(crate) fn to_text(self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let digits = self.digits();
        if digits == "0" { digits } else { format!("{sign}{digits}") }
    }

    fn digits(self) -> String {
        if self.exponent >= 0 {
            return self.aligned(0).to_decimal();
        }
        let scaled = u128::from(self.mantissa) * 10_u128.pow(FRACTION_DIGITS);
        let shift = u32::try_from(-self.exponent).unwrap_or(u32::MAX);
        let rounded = shifted_to_even(scaled, shift);
        let base = 10_u128.pow(FRACTION_DIGITS);
        let text = format!("{}.{:017}", rounded / base, rounded % base);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Divided by a power of two; halves go to the even neighbour.
fn shifted_to_even(number: u128, shift: u32) -> u128 {
    let whole = number.checked_shr(shift).unwrap_or(0);
    let rest = number - whole.checked_shl(shift).unwrap_or(0);
    // The number has fewer than 127 bits, so that more than its half is never shifted out of it.
    let Some(half) = 1_u128.checked_shl(shift - 1) else {
        return 0;
    };
    if rest > half || rest == half && whole % 2 == 1 { whole + 1 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_add_up_as_people_expect() {
        check("0", "0.1", "0.1");
        check("0.1", "0.2", "0.3");
        check("3.0e3", "200", "3200");
        check("10.5", "-10.5", "0");
        check("5", "0.00000000000000001", "5.00000000000000001");
        check("1", "-1.1", "-0.1");
        check("1e19", "1", "10000000000000000001");
        check("1e-30", "0", "0");
        check("0x10", "0x.8", "16.5");
        check("-0x1p4", "0", "-16");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "a", "1a", " 1", "1 ", "1e", "0x", "nan", "1e5000", "1e-5000", "--1"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"-inf"), Some(Parsed::Infinite { is_negative: true }));
        let Some(Parsed::Finite(large)) = parse(b"1.1e4932") else {
            panic!("it is a number");
        };
        assert_eq!(large.plus(large), None);
    }

    fn check(one: &str, two: &str, sum: &str) {
        let number = |text: &str| match parse(text.as_bytes()) {
            Some(Parsed::Finite(number)) => number,
            other => panic!("{text} is {other:?}"),
        };
        assert_eq!(number(one).plus(number(two)).unwrap().to_text(), sum);
    }
}
