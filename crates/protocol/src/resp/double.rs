//! Doubles as text.
//!
//! The digits are the fewest that read back as the same number, as Redis prints them from 7.2 on;
//! older ones print 17 of them. Their shape is that of `%.17g` in all versions: an exponent only
//! below 1e-4 and from 1e17 on, with a sign and two digits.

/// From this exponent on a number is written with it.
const EXPONENT_MAX: i32 = 17;
/// Below this exponent a number is written with it.
const EXPONENT_MIN: i32 = -4;

/// The text of a number: `3`, `1.5`, `1e+20`, `inf`, `-inf` or `nan`.
pub(super) fn text(number: f64) -> String {
    if number.is_nan() {
        // Rust writes it in capitals.
        return "nan".to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().expect("it was written as a number");
    if (EXPONENT_MIN..EXPONENT_MAX).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_look_as_redis_prints_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (3.3, "3.3"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2e-05"),
            (1e-300, "1e-300"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (12_345_678_901_234_567.0, "12345678901234568"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (-2.5e20, "-2.5e+20"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(number), expected);
        }
    }
}
