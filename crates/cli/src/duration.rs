//! Durations as people type them: `250ms`, `90s`, `2m`, `1h30m`, `2h 15m`, `1d`.

use std::str::FromStr;
use std::time::Duration;

/// A duration from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    /// For the wire.
    pub(crate) fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration like 250ms, 90s, 2m or 1h30m")]
pub(crate) struct InvalidSpan;

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let mut rest = text.trim();
        let mut total_ms: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(InvalidSpan)?;
            let amount: u64 = rest[..digits].parse().map_err(|_| InvalidSpan)?;
            let after = &rest[digits..];
            let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let ms = amount.checked_mul(unit_ms(&after[..unit])?).ok_or(InvalidSpan)?;
            total_ms = total_ms.checked_add(ms).ok_or(InvalidSpan)?;
            rest = after[unit..].trim_start();
        }
        if text.trim().is_empty() { Err(InvalidSpan) } else { Ok(Self(ms(total_ms))) }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn unit_ms(unit: &str) -> Result<u64, InvalidSpan> {
    match unit {
        "ms" => Ok(1),
        "s" => Ok(1_000),
        "m" => Ok(60_000),
        "h" => Ok(3_600_000),
        "d" => Ok(86_400_000),
        _ => Err(InvalidSpan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_one_unit_or_several() {
        for (text, ms) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("2h 15m", 8_100_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "1x", "-1s", "1.5s", "99999999999999999999s", "1s2"] {
            assert_eq!(text.parse::<Span>(), Err(InvalidSpan), "{text}");
        }
    }
}
