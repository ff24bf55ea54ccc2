//! A schedule, as it is kept.

use bytes::Bytes;
use model::{RunId, Timestamp};
use protocol::rest::schedules::{Overlap, Schedule, ScheduledRun};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::cron::{Times, TimesError};
use crate::clock::wall_now;
use crate::runs::definition::Object;

/// Moments that a look at a schedule shows.
const NEXT_RUNS_SHOWN: usize = 5;
/// The input that tells a run the moment that it was due.
const DUE_INPUT: &str = "scheduledFor";

/// What is kept of a schedule: the JSON of its note.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptSchedule {
    pub(crate) name: Option<String>,
    pub(crate) workflow_id: String,
    pub(crate) version: Option<u64>,
    pub(crate) cron: String,
    pub(crate) timezone: String,
    pub(crate) inputs: Box<RawValue>,
    pub(crate) overlap: Overlap,
    pub(crate) paused: bool,
    pub(crate) created_ms: u64,
    pub(crate) created_by: String,
    /// Every moment up to this one is dealt with.
    pub(crate) handled_ms: u64,
    /// The moment whose run is being started. What came of it may be unknown: whoever comes after
    /// a crash, or a store that failed, deals with it before any other.
    #[serde(default)]
    pub(crate) starting_ms: Option<u64>,
    /// Moments whose runs wait for the run before to end, oldest first.
    #[serde(default)]
    pub(crate) waiting_ms: Vec<u64>,
    /// Moments of the past that people asked for, and whose runs wait for their turn.
    #[serde(default)]
    pub(crate) backfill_ms: Vec<u64>,
    /// The newest run that a moment of this schedule started.
    #[serde(default)]
    pub(crate) newest_run: Option<i64>,
    /// What came of the last moment.
    #[serde(default)]
    pub(crate) last: Option<KeptOutcome>,
}

/// What came of a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptOutcome {
    pub(crate) due_ms: u64,
    pub(crate) run: Option<i64>,
    pub(crate) problem: Option<String>,
}

impl KeptSchedule {
    /// Its rule.
    pub(crate) fn times(&self) -> Result<Times, TimesError> {
        Times::read(&self.cron, &self.timezone)
    }

    /// The moment that is to be dealt with next, whether it has come or not.
    pub(crate) fn next_due(&self, times: &Times, now: Timestamp) -> Option<Timestamp> {
        if self.paused {
            return None;
        }
        if let Some(starting_ms) = self.starting_ms {
            return Some(Timestamp::from_millis(starting_ms));
        }
        let handled = Timestamp::from_millis(self.handled_ms);
        let next = times.after(handled)?;
        if next > now {
            return Some(next);
        }
        // Of several moments that passed while nobody looked, the latest is enough.
        times.up_to(now).filter(|latest| *latest > handled).or(Some(next))
    }

    pub(crate) fn newest_run(&self) -> Option<RunId> {
        self.newest_run.and_then(RunId::from_integer)
    }

    /// The moment whose run starts next when the run before has ended. What the clock asked for
    /// comes before what people asked for afterwards.
    pub(crate) fn next_waiting(&self) -> Option<Timestamp> {
        let next = self.waiting_ms.first().or(self.backfill_ms.first());
        next.copied().map(Timestamp::from_millis)
    }

    /// A moment is dealt with.
    pub(crate) fn record(&mut self, outcome: KeptOutcome) {
        self.starting_ms = None;
        self.handled_ms = self.handled_ms.max(outcome.due_ms);
        self.waiting_ms.retain(|waiting| *waiting != outcome.due_ms);
        self.backfill_ms.retain(|waiting| *waiting != outcome.due_ms);
        // A moment of the past may have had its run long ago.
        self.newest_run = self.newest_run.max(outcome.run);
        self.last = Some(outcome);
    }

    /// Moments that have passed are none of its business from here on.
    pub(crate) fn begin_anew(&mut self) {
        self.starting_ms = None;
        self.handled_ms = wall_now().as_millis();
        self.waiting_ms.clear();
    }

    /// The rule is another one: what waits under the old one waits for nothing.
    pub(crate) fn begin_with_new_times(&mut self) {
        self.begin_anew();
        self.backfill_ms.clear();
    }

    /// What the run of a moment is given: the inputs, and the moment, unless they name one.
    pub(crate) fn inputs_for(&self, due: Timestamp) -> Bytes {
        let authored = self.inputs.get();
        let with_due = Object::read(authored).and_then(|mut inputs| {
            if inputs.get(DUE_INPUT).is_none() {
                let text = serde_json::value::to_raw_value(&due.to_string()).ok()?;
                inputs.set(DUE_INPUT, text);
            }
            inputs.text()
        });
        let text = with_due.map_or_else(|| authored.to_owned(), |raw| raw.get().to_owned());
        Bytes::from(text)
    }

    /// As the wire shows it.
    pub(crate) fn shown(&self, schedule_id: &str) -> Schedule {
        let next = match self.times() {
            Ok(times) if !self.paused => times.next(wall_now(), NEXT_RUNS_SHOWN),
            Ok(_) | Err(_) => Vec::new(),
        };
        Schedule {
            schedule_id: schedule_id.to_owned(),
            name: self.name.clone(),
            workflow_id: self.workflow_id.clone(),
            version: self.version,
            cron: self.cron.clone(),
            timezone: self.timezone.clone(),
            inputs: self.inputs.clone(),
            overlap: self.overlap,
            paused: self.paused,
            created_at: Timestamp::from_millis(self.created_ms).to_string(),
            created_by: self.created_by.clone(),
            next_runs: next.into_iter().map(|moment| moment.to_string()).collect(),
            last_run: self.last.as_ref().map(shown_outcome),
            waiting: self.waiting_ms.len() + self.backfill_ms.len(),
        }
    }
}

fn shown_outcome(outcome: &KeptOutcome) -> ScheduledRun {
    let run = outcome.run.and_then(RunId::from_integer);
    ScheduledRun {
        due_at: Timestamp::from_millis(outcome.due_ms).to_string(),
        run_id: run.map(|run| run.to_string()),
        number: run.map(RunId::number),
        problem: outcome.problem.clone(),
    }
}

#[cfg(test)]
pub(crate) fn sample(cron: &str) -> KeptSchedule {
    KeptSchedule {
        name: None,
        workflow_id: "00000000-0000-4000-8000-000000000001".to_owned(),
        version: None,
        cron: cron.to_owned(),
        timezone: "UTC".to_owned(),
        inputs: RawValue::from_string(r#"{"a": 1}"#.to_owned()).expect("JSON"),
        overlap: Overlap::Skip,
        paused: false,
        created_ms: 0,
        created_by: "ada".to_owned(),
        handled_ms: 0,
        starting_ms: None,
        waiting_ms: Vec::new(),
        backfill_ms: Vec::new(),
        newest_run: None,
        last: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_missed_moments_the_latest_is_due() {
        let mut kept = sample("0 * * * *");
        let times = kept.times().expect("a rule");
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        kept.handled_ms = moment("2026-01-31T03:00:00Z").as_millis();
        let due = |kept: &KeptSchedule, now: &str| {
            kept.next_due(&times, moment(now)).map(|due| due.to_string())
        };
        assert_eq!(due(&kept, "2026-01-31T03:30:00Z").as_deref(), Some("2026-01-31T04:00:00.000Z"));
        assert_eq!(due(&kept, "2026-01-31T09:30:00Z").as_deref(), Some("2026-01-31T09:00:00.000Z"));
        kept.starting_ms = Some(moment("2026-01-31T04:00:00Z").as_millis());
        let unfinished = due(&kept, "2026-01-31T09:30:00Z");
        assert_eq!(unfinished.as_deref(), Some("2026-01-31T04:00:00.000Z"));
        kept.paused = true;
        assert_eq!(due(&kept, "2026-01-31T09:30:00Z"), None);
    }

    #[test]
    fn a_run_is_told_its_moment() {
        let mut kept = sample("0 * * * *");
        let inputs = kept.inputs_for(Timestamp::from_millis(0));
        assert_eq!(inputs, br#"{"a":1,"scheduledFor":"1970-01-01T00:00:00.000Z"}"#[..]);
        kept.inputs = RawValue::from_string(r#"{"scheduledFor":7}"#.to_owned()).expect("JSON");
        assert_eq!(kept.inputs_for(Timestamp::from_millis(0)), br#"{"scheduledFor":7}"#[..]);
    }
}
