//! When a schedule is due: a cron rule in a time zone. Computed from the text and the bundled zones
//! alone, so it gives the same moments everywhere.

use std::fmt;

use croner::Cron;
use jiff::Zoned;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use model::Timestamp;

/// The text of a rule, in characters.
pub const CRON_CHARS_MAX: usize = 256;

/// A rule that gives moments of the wall clock.
#[derive(Clone)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

impl fmt::Debug for Calendar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Calendar").field("zone", &self.zone).finish_non_exhaustive()
    }
}

/// Why a rule gives no moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalendarError {
    /// The rule cannot be parsed: its text, and why.
    Rule(String, String),
    /// The rule can be parsed, and never matches.
    Never(String),
    /// The time zone is unknown.
    Zone(String),
}

impl fmt::Display for CalendarError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(cron, why) => write!(formatter, "cron `{cron}` is no rule: {why}"),
            Self::Never(cron) => write!(formatter, "cron `{cron}` never matches"),
            Self::Zone(zone) => write!(formatter, "timezone `{zone}` is not known"),
        }
    }
}

impl std::error::Error for CalendarError {}

impl Calendar {
    /// Reads a rule, and looks whether it matches any moment after `wall`.
    pub fn read(cron: &str, zone: &str, wall: Timestamp) -> Result<Self, CalendarError> {
        if cron.chars().count() > CRON_CHARS_MAX {
            let why = format!("it is longer than {CRON_CHARS_MAX} characters");
            return Err(CalendarError::Rule(cron.chars().take(20).collect(), why));
        }
        let found = TimeZoneDatabase::bundled().get(zone);
        let zone = found.map_err(|_| CalendarError::Zone(zone.to_owned()))?;
        let parsed: Result<Cron, _> = cron.parse();
        let parsed =
            parsed.map_err(|error| CalendarError::Rule(cron.to_owned(), error.to_string()))?;
        let calendar = Self { cron: parsed, zone };
        match calendar.after(wall) {
            Some(_) => Ok(calendar),
            None => Err(CalendarError::Never(cron.to_owned())),
        }
    }

    /// The first moment after this one.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        timestamp(&next)
    }

    /// The last moment up to this one, itself included.
    pub fn up_to(&self, moment: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.zoned(moment)?, true).ok()?;
        timestamp(&last)
    }

    /// The next moments after this one.
    pub fn next(&self, moment: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.after(moment), |last| self.after(*last)).take(count).collect()
    }

    fn zoned(&self, moment: Timestamp) -> Option<Zoned> {
        let moment = jiff::Timestamp::from_millisecond(moment.to_integer()).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

fn timestamp(moment: &Zoned) -> Option<Timestamp> {
    u64::try_from(moment.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_follow_the_rule_and_the_zone() {
        check("0 3 * * *", "UTC", "2026-01-31T12:00:00Z", "2026-02-01T03:00:00.000Z");
        check("0 3 * * *", "Europe/Berlin", "2026-01-31T12:00:00Z", "2026-02-01T02:00:00.000Z");
        check("0 3 * * MON-FRI", "UTC", "2026-01-31T12:00:00Z", "2026-02-02T03:00:00.000Z");
        check("*/10 * * * * *", "UTC", "2026-01-31T12:00:00Z", "2026-01-31T12:00:10.000Z");
        // The clocks of Berlin go from 02:00 to 03:00: what was due in between is due then.
        check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00.000Z");
        // And from 03:00 back to 02:00: once is enough.
        check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00.000Z");
    }

    #[test]
    fn the_last_moment_is_found_as_well() {
        let calendar = read("0 3 * * *", "UTC").expect("a rule");
        let last = calendar.up_to(moment("2026-01-31T12:00:00Z"));
        assert_eq!(last, Some(moment("2026-01-31T03:00:00Z")));
        assert_eq!(calendar.up_to(moment("2026-01-31T03:00:00Z")), last, "itself included");
        assert_eq!(calendar.next(moment("2026-01-31T03:00:00Z"), 2).len(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (cron, zone) in [
            ("", "UTC"),
            ("hourly", "UTC"),
            ("61 * * * *", "UTC"),
            ("* * * *", "UTC"),
            ("0 3 * * *", "Mars/Olympus"),
            ("0 0 30 2 *", "UTC"),
            (&"*".repeat(300), "UTC"),
        ] {
            assert!(read(cron, zone).is_err(), "{cron} {zone}");
        }
    }

    fn check(cron: &str, zone: &str, from: &str, expected: &str) {
        let calendar = read(cron, zone).expect("a rule");
        let next = calendar.after(moment(from)).map(|next| next.to_string());
        assert_eq!(next.as_deref(), Some(expected), "{cron} {zone}");
    }

    fn read(cron: &str, zone: &str) -> Result<Calendar, CalendarError> {
        Calendar::read(cron, zone, moment("2026-01-01T00:00:00Z"))
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().expect("a moment")
    }
}
