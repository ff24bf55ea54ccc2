//! A schedule: what its author wrote, and how far it has come.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use croner::Cron;
use jiff::Zoned;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use model::{Overlap, RunId, Timestamp};
use uuid::Uuid;

use crate::command::NewRun;

/// Names a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduleId(pub Uuid);

impl fmt::Display for ScheduleId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Names one preparation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrepareTicket(pub u64);

/// What the author of a schedule wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// A name for people.
    pub name: Option<String>,
    /// The id of the saved workflow that it starts.
    pub workflow_id: String,
    /// Which version; `None` is the newest.
    pub version: Option<u64>,
    /// When, as a cron rule.
    pub cron: String,
    /// In which time zone the rule is read.
    pub timezone: String,
    /// What its runs are given: a JSON object, checked at the door.
    pub inputs: Bytes,
    /// What happens when the run before still goes on.
    pub overlap: Overlap,
    /// Whether the clock starts nothing.
    pub paused: bool,
    /// When it was made, by the wall clock.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
}

/// What its author changes about a schedule; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleEdit {
    /// Another name.
    pub name: Option<String>,
    /// Another workflow.
    pub workflow_id: Option<String>,
    /// Another version, or the newest.
    pub version: Option<Option<u64>>,
    /// Another rule.
    pub cron: Option<String>,
    /// Another time zone.
    pub timezone: Option<String>,
    /// Other inputs.
    pub inputs: Option<Bytes>,
    /// Another way to deal with a run that still goes on.
    pub overlap: Option<Overlap>,
    /// Whether the clock starts nothing.
    pub paused: Option<bool>,
}

impl ScheduleEdit {
    /// What the author has written after this edit.
    #[must_use]
    pub fn applied_to(self, spec: &ScheduleSpec) -> ScheduleSpec {
        ScheduleSpec {
            name: self.name.or_else(|| spec.name.clone()),
            workflow_id: self.workflow_id.unwrap_or_else(|| spec.workflow_id.clone()),
            version: self.version.unwrap_or(spec.version),
            cron: self.cron.unwrap_or_else(|| spec.cron.clone()),
            timezone: self.timezone.unwrap_or_else(|| spec.timezone.clone()),
            inputs: self.inputs.unwrap_or_else(|| spec.inputs.clone()),
            overlap: self.overlap.unwrap_or(spec.overlap),
            paused: self.paused.unwrap_or(spec.paused),
            created_at: spec.created_at,
            created_by: spec.created_by.clone(),
        }
    }
}

/// How far a schedule has come. Moments are those of the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleProgress {
    /// Every moment up to this one is dealt with.
    pub handled: Timestamp,
    /// Moments whose runs wait for the run before to end, oldest first.
    pub waiting: Vec<Timestamp>,
    /// Moments of the past that people asked for and that have no run yet, oldest first.
    pub backfill: Vec<Timestamp>,
    /// The newest run that a moment of this schedule started.
    pub newest_run: Option<RunId>,
    /// The moment that was dealt with last.
    pub last: Option<FiredMoment>,
}

/// A moment that was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiredMoment {
    /// The moment, by the wall clock.
    pub due: Timestamp,
    /// Its run, or why there is none.
    pub outcome: Result<RunId, String>,
}

/// A schedule, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// Which schedule.
    pub id: ScheduleId,
    /// What its author wrote.
    pub spec: Arc<ScheduleSpec>,
    /// How far it has come.
    pub progress: Arc<ScheduleProgress>,
}

/// What the shell made of a moment whose run was to be prepared.
#[derive(Clone, Debug, PartialEq)]
pub enum Preparation {
    /// The run can start.
    Run(Box<NewRun>),
    /// The moment has its run already.
    Existing(RunId),
    /// There can be no run, for this reason.
    Impossible(String),
    /// It could not be prepared for now.
    Later,
}

impl ScheduleProgress {
    /// The moment whose run starts next when the run before has ended. What the clock asked for
    /// comes before what people asked for afterwards.
    pub(crate) fn next_waiting(&self) -> Option<Timestamp> {
        self.waiting.first().or(self.backfill.first()).copied()
    }

    /// The moment that the clock has to deal with next, whether it has come or not.
    pub(crate) fn next_due(&self, calendar: &Calendar, wall: Timestamp) -> Option<Timestamp> {
        let next = calendar.after(self.handled)?;
        if next > wall {
            return Some(next);
        }
        // Of several moments that passed while nobody looked, the latest is enough.
        calendar.up_to(wall).filter(|latest| *latest > self.handled).or(Some(next))
    }

    /// The moment is dealt with.
    pub(crate) fn fired(&self, due: Timestamp, outcome: Result<RunId, String>) -> Self {
        let others = |moments: &[Timestamp]| {
            moments.iter().copied().filter(|moment| *moment != due).collect()
        };
        Self {
            handled: self.handled.max(due),
            waiting: others(&self.waiting),
            backfill: others(&self.backfill),
            // A moment of the past may have had its run long ago.
            newest_run: self.newest_run.max(outcome.as_ref().ok().copied()),
            last: Some(FiredMoment { due, outcome }),
        }
    }
}

/// Limit: the text of a rule, in characters.
const CRON_CHARS_MAX: usize = 256;

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    /// The rule cannot be parsed: its text, and why.
    #[error("cron `{0}` is no rule: {1}")]
    Rule(String, String),
    /// The rule can be parsed, and never matches.
    #[error("cron `{0}` never matches")]
    Never(String),
    /// The time zone is unknown.
    #[error("timezone `{0}` is not known")]
    Zone(String),
}

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
    fn of_many_missed_moments_the_latest_is_due() {
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        let handled = moment("2026-01-31T03:00:00Z");
        let calendar = Calendar::read("0 * * * *", "UTC", handled).expect("a rule");
        let progress = ScheduleProgress { handled, ..ScheduleProgress::default() };
        let due =
            |wall: &str| progress.next_due(&calendar, moment(wall)).map(|due| due.to_string());
        assert_eq!(due("2026-01-31T03:30:00Z").as_deref(), Some("2026-01-31T04:00:00.000Z"));
        assert_eq!(due("2026-01-31T09:30:00Z").as_deref(), Some("2026-01-31T09:00:00.000Z"));
        assert_eq!(due("2026-01-31T02:00:00Z").as_deref(), Some("2026-01-31T04:00:00.000Z"));
    }
}

#[cfg(test)]
mod calendar_tests {
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
