//! Points in time, as the coordinator counts them.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// Milliseconds since 1970, from the coordinator's own clock. No worker's clock enters here.
///
/// Kept as the count plus one, so that an `Option` of it takes no more room: live tasks hold
/// several of them, by the million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

const MILLIS_MAX: u64 = 253_402_207_200_000;

impl Timestamp {
    /// About the last moment that RFC 3339 can write: the end of the year 9999.
    pub const MAX: Self = Self::from_millis(MILLIS_MAX);

    /// The moment so many milliseconds after 1970 began, at most [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        let millis = if millis > MILLIS_MAX { MILLIS_MAX } else { millis };
        Self(NonZeroU64::MIN.saturating_add(millis))
    }

    /// Milliseconds since 1970 began.
    pub const fn as_millis(self) -> u64 {
        self.0.get() - 1
    }

    /// The same as the integer that stores keep.
    pub fn to_integer(self) -> i64 {
        i64::try_from(self.as_millis()).expect("at most Timestamp::MAX")
    }

    /// A negative integer is the beginning of 1970.
    pub fn from_integer(integer: i64) -> Self {
        Self::from_millis(u64::try_from(integer).unwrap_or(0))
    }

    /// `duration` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.as_millis().saturating_add(millis))
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.as_millis().saturating_sub(earlier.as_millis()))
    }
}

impl Default for Timestamp {
    /// The beginning of 1970.
    fn default() -> Self {
        Self::from_millis(0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({})", self.as_millis())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment =
            jiff::Timestamp::from_millisecond(self.to_integer()).expect("at most Timestamp::MAX");
        write!(f, "{moment:.3}")
    }
}

/// Text that is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a moment in RFC 3339, like 2026-01-31T12:00:00Z")]
pub struct InvalidTimestamp;

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        u64::try_from(moment.as_millisecond()).map(Self::from_millis).map_err(|_| InvalidTimestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_comes_back_from_its_text() {
        for millis in [0, 1, 1_790_000_000_123, Timestamp::MAX.as_millis()] {
            let moment = Timestamp::from_millis(millis);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
        assert_eq!(Timestamp::from_millis(1_500).to_string(), "1970-01-01T00:00:01.500Z");
        assert!("1969-12-31T00:00:00Z".parse::<Timestamp>().is_err());
        assert!("tomorrow".parse::<Timestamp>().is_err());
    }

    #[test]
    fn time_stops_at_its_end() {
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        let early = Timestamp::from_millis(1);
        assert_eq!(early.since(Timestamp::MAX), Duration::ZERO);
    }
}
