//! When a schedule is due.

use croner::Cron;
use jiff::Zoned;
use jiff::tz::TimeZone;
use model::Timestamp;

use crate::clock::wall_now;

/// The text of a rule, in characters.
pub(crate) const CRON_CHARS_MAX: usize = 256;
/// The zone of whoever names none.
pub(crate) const ZONE_DEFAULT: &str = "UTC";

/// A rule that gives moments.
#[derive(Clone)]
pub(crate) struct Times {
    cron: Cron,
    zone: TimeZone,
}

/// Why a rule gives no moments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimesError {
    /// The rule makes no sense.
    #[error("cron `{0}` is no rule: {1}")]
    Rule(String, String),
    /// The rule is fine, and no moment fits it.
    #[error("cron `{0}` never comes true")]
    Never(String),
    /// There is no such zone.
    #[error("timezone `{0}` is not known")]
    Zone(String),
}

impl Times {
    /// Reads a rule, and looks whether it ever comes true.
    pub(crate) fn read(cron: &str, zone: &str) -> Result<Self, TimesError> {
        if cron.chars().count() > CRON_CHARS_MAX {
            let rule = format!("it is longer than {CRON_CHARS_MAX} characters");
            return Err(TimesError::Rule(cron.chars().take(20).collect(), rule));
        }
        let zone = TimeZone::get(zone).map_err(|_| TimesError::Zone(zone.to_owned()))?;
        let parsed: Result<Cron, _> = cron.parse();
        let parsed =
            parsed.map_err(|error| TimesError::Rule(cron.to_owned(), error.to_string()))?;
        let times = Self { cron: parsed, zone };
        match times.after(wall_now()) {
            Some(_) => Ok(times),
            None => Err(TimesError::Never(cron.to_owned())),
        }
    }

    /// The first moment after this one.
    pub(crate) fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        timestamp(&next)
    }

    /// The last moment up to this one, itself included.
    pub(crate) fn up_to(&self, moment: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.zoned(moment)?, true).ok()?;
        timestamp(&last)
    }

    /// The next moments after this one.
    pub(crate) fn next(&self, moment: Timestamp, count: usize) -> Vec<Timestamp> {
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
        let times = Times::read("0 3 * * *", "UTC").expect("a rule");
        let last = times.up_to(moment("2026-01-31T12:00:00Z"));
        assert_eq!(last, Some(moment("2026-01-31T03:00:00Z")));
        assert_eq!(times.up_to(moment("2026-01-31T03:00:00Z")), last, "itself included");
        assert_eq!(times.next(moment("2026-01-31T03:00:00Z"), 2).len(), 2);
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
            assert!(Times::read(cron, zone).is_err(), "{cron} {zone}");
        }
    }

    fn check(cron: &str, zone: &str, from: &str, expected: &str) {
        let times = Times::read(cron, zone).expect("a rule");
        let next = times.after(moment(from)).map(|next| next.to_string());
        assert_eq!(next.as_deref(), Some(expected), "{cron} {zone}");
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().expect("a moment")
    }
}
