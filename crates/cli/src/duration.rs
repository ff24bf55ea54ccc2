//! Durations as people type them: `250ms`, `90s`, `2m`, `1h30m`, `2h 15m`, `1d`; and moments.

use std::str::FromStr;
use std::time::Duration;

use jiff::SpanRelativeTo;
use model::Timestamp;

use crate::format;

/// A duration from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    /// For the wire.
    pub(crate) fn millis(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Text that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a duration like 250ms, 90s, 2m or 1h30m")]
pub(crate) struct InvalidSpan;

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let span: jiff::Span = text.trim().parse().map_err(|_| InvalidSpan)?;
        let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
        let length = length.map_err(|_| InvalidSpan)?;
        length.try_into().map(Self).map_err(|_| InvalidSpan)
    }
}

/// A moment from the command line: RFC 3339, or how long from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

/// Text that is neither a moment nor a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither a moment like 2026-01-31T12:00:00Z nor a duration like 10m")]
pub(crate) struct InvalidMoment;

impl FromStr for Moment {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        let moment = match text.parse::<Span>() {
            Ok(span) => Ok(format::now().after(span.0)),
            Err(_) => text.parse().map_err(|_| InvalidMoment),
        };
        moment.map(Self)
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
            ("1.5s", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "5", "s", "1x", "-1s", "1mo", "99999999999999999999s", "1s2"] {
            assert_eq!(text.parse::<Span>(), Err(InvalidSpan), "{text}");
        }
    }

    #[test]
    fn moments_are_given_or_so_long_from_now() {
        let given: Moment = "2026-03-01T00:00:00Z".parse().expect("a moment");
        assert!(given.0.to_string().starts_with("2026-03-01T00:00:00"), "{}", given.0);
        let later: Moment = "2h".parse().expect("a duration");
        assert!((7_190..=7_200).contains(&later.0.since(format::now()).as_secs()));
        assert_eq!("soon".parse::<Moment>(), Err(InvalidMoment));
    }
}
