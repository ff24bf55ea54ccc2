//! A schedule: what its author wrote, and how far it has come.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use model::{RunId, Timestamp};
use uuid::Uuid;

use super::calendar::Calendar;
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

/// What happens when a moment is due and the run before still goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The moment passes without a run.
    #[default]
    Skip,
    /// The moment waits until the run before has ended.
    Queue,
    /// Both run.
    Allow,
    /// The run before is stopped.
    Cancel,
}

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
