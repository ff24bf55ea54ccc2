//! All schedules of a tenant, and which of them have to be looked at.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{RunId, Timestamp};

use super::record::Calendar;
use super::record::{PrepareTicket, ScheduleId, ScheduleProgress, ScheduleRecord};

/// The wall clock is read at least this often while a schedule waits for it: it may be set.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(30);

/// The schedules. `State::apply_tenant` writes the records and `by_run`; the rest is soft, and a
/// restart looks at every schedule once.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    kept: BTreeMap<ScheduleId, Kept>,
    /// The schedule whose newest run it is.
    by_run: BTreeMap<RunId, ScheduleId>,
    /// When the clock has something for a schedule, by the wall clock.
    due: BTreeSet<(Timestamp, ScheduleId)>,
    /// When a schedule is tried again, by the clock of everything else.
    resting: BTreeSet<(Timestamp, ScheduleId)>,
    /// Schedules that may have a run to start, in the order in which they are looked at.
    look: VecDeque<ScheduleId>,
    /// The moment whose run is being prepared: one at a time, so that a tenant with many schedules
    /// keeps one compiler busy and not all of them.
    pub(super) preparing: Option<Preparing>,
    last_ticket: u64,
    /// The wall clock at the last call.
    wall: Timestamp,
}

/// One schedule.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) record: ScheduleRecord,
    /// `None` for a rule that cannot be read: the clock never starts it.
    pub(super) calendar: Option<Calendar>,
    next_step: NextStep,
}

/// What happens to a schedule next. Each is in the index that belongs to it, and in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// It is looked at when its turn comes.
    Look,
    /// Its run is being prepared.
    Prepare,
    /// It is tried again at this moment of the clock of everything else.
    Rest(Timestamp),
    /// It is looked at when the wall clock shows this, when its run ends, or when someone asks.
    Wait(Option<Timestamp>),
}

/// A run that is being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preparing {
    pub(super) ticket: PrepareTicket,
    pub(super) schedule: ScheduleId,
    pub(super) due: Timestamp,
}

impl Schedules {
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn get(&self, id: ScheduleId) -> Option<&Kept> {
        self.kept.get(&id)
    }

    pub(super) fn record(&self, id: ScheduleId) -> Option<&ScheduleRecord> {
        self.kept.get(&id).map(|kept| &kept.record)
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &ScheduleRecord> {
        self.kept.values().map(|kept| &kept.record)
    }

    /// Takes a schedule in, or replaces it as a whole. What is being prepared for it is not wanted
    /// any more: its author may have changed what it starts.
    pub(crate) fn set(&mut self, record: ScheduleRecord) {
        let id = record.id;
        self.remove(id);
        let spec = &record.spec;
        // Whether the rule ever matches was checked when it was written.
        let calendar = Calendar::read(&spec.cron, &spec.timezone, Timestamp::default()).ok();
        self.by_run.extend(record.progress.newest_run.map(|run| (run, id)));
        self.kept.insert(id, Kept { record, calendar, next_step: NextStep::Look });
        self.look.push_back(id);
    }

    pub(crate) fn remove(&mut self, id: ScheduleId) {
        let Some(kept) = self.kept.remove(&id) else { return };
        if let Some(run) = kept.record.progress.newest_run {
            self.by_run.remove(&run);
        }
        match kept.next_step {
            NextStep::Look => self.look.retain(|other| *other != id),
            NextStep::Rest(at) => drop(self.resting.remove(&(at, id))),
            NextStep::Wait(Some(at)) => drop(self.due.remove(&(at, id))),
            NextStep::Prepare | NextStep::Wait(None) => {}
        }
    }

    pub(crate) fn set_progress(&mut self, id: ScheduleId, progress: &Arc<ScheduleProgress>) {
        let kept = self.kept.get_mut(&id).expect("facts are about schedules that exist");
        let before = std::mem::replace(&mut kept.record.progress, Arc::clone(progress));
        if before.newest_run != progress.newest_run {
            before.newest_run.map(|run| self.by_run.remove(&run));
            self.by_run.extend(progress.newest_run.map(|run| (run, id)));
        }
        self.wake(id);
    }

    /// Moves a schedule to what happens to it next.
    pub(super) fn plan(&mut self, id: ScheduleId, next: NextStep) {
        let Some(kept) = self.kept.get_mut(&id) else { return };
        match std::mem::replace(&mut kept.next_step, next) {
            NextStep::Rest(at) => drop(self.resting.remove(&(at, id))),
            NextStep::Wait(Some(at)) => drop(self.due.remove(&(at, id))),
            // What is looked at was taken from the queue before.
            NextStep::Look | NextStep::Prepare | NextStep::Wait(None) => {}
        }
        match next {
            NextStep::Look => self.look.push_back(id),
            NextStep::Rest(at) => drop(self.resting.insert((at, id))),
            NextStep::Wait(Some(at)) => drop(self.due.insert((at, id))),
            NextStep::Prepare | NextStep::Wait(None) => {}
        }
    }

    /// A schedule that waits is looked at.
    fn wake(&mut self, id: ScheduleId) {
        if self.kept.get(&id).is_some_and(|kept| matches!(kept.next_step, NextStep::Wait(_))) {
            self.plan(id, NextStep::Look);
        }
    }

    /// The run was some schedule's newest: others may wait for its end.
    pub(super) fn note_ended(&mut self, run: RunId) {
        if let Some(id) = self.by_run.get(&run) {
            self.wake(*id);
        }
    }

    /// Everything whose moment has come, by either clock, is looked at.
    pub(super) fn look_at_due(&mut self, now: Timestamp, wall: Timestamp) {
        self.wall = wall;
        while let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= wall) {
            self.plan(id, NextStep::Look);
        }
        while let Some((_, id)) = self.resting.first().copied().filter(|(at, _)| *at <= now) {
            self.plan(id, NextStep::Look);
        }
    }

    /// The next schedule to look at, unless a run is being prepared.
    pub(super) fn next_to_look_at(&mut self) -> Option<ScheduleId> {
        if self.preparing.is_some() { None } else { self.look.pop_front() }
    }

    /// Notes that the run of a moment is being prepared.
    pub(super) fn prepare(&mut self, id: ScheduleId, due: Timestamp) -> PrepareTicket {
        self.last_ticket += 1;
        let ticket = PrepareTicket(self.last_ticket);
        self.preparing = Some(Preparing { ticket, schedule: id, due });
        self.plan(id, NextStep::Prepare);
        ticket
    }

    /// Ends a preparation. Gives its moment, unless the schedule was changed or removed since.
    pub(super) fn end_prepare(&mut self, ticket: PrepareTicket) -> Option<(ScheduleId, Timestamp)> {
        let ended = self.preparing.take_if(|preparing| preparing.ticket == ticket)?;
        let kept = self.kept.get(&ended.schedule)?;
        (kept.next_step == NextStep::Prepare).then_some((ended.schedule, ended.due))
    }

    /// When to look again, by the clock of everything else.
    pub(crate) fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        if self.preparing.is_none() && !self.look.is_empty() {
            return Some(Timestamp::default());
        }
        let in_time = |at: Timestamp| now.after(at.since(self.wall).min(LOOK_AT_LEAST_EVERY));
        let due = self.due.first().map(|(at, _)| in_time(*at));
        let rested = self.resting.first().map(|(at, _)| *at);
        due.into_iter().chain(rested).min()
    }

    /// Checks that the indexes say what the schedules say.
    pub(crate) fn check_invariants(&self) {
        let (mut due, mut resting, mut look) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (id, kept) in &self.kept {
            let preparing = self.preparing.is_some_and(|preparing| preparing.schedule == *id);
            match kept.next_step {
                NextStep::Look => drop(look.insert(*id)),
                NextStep::Prepare => assert!(preparing, "{kept:?} is not prepared"),
                NextStep::Rest(at) => drop(resting.insert((at, *id))),
                NextStep::Wait(Some(at)) => drop(due.insert((at, *id))),
                NextStep::Wait(None) => {
                    let has_clock = kept.calendar.is_some() && !kept.record.spec.paused;
                    let ends = |calendar: &Calendar| calendar.after(self.wall).is_none();
                    let is_over = kept.calendar.as_ref().is_none_or(ends);
                    assert!(!has_clock || is_over, "{kept:?} is never due");
                }
            }
        }
        assert_eq!(self.due, due, "when schedules are due");
        assert_eq!(self.resting, resting, "which schedules rest");
        assert_eq!(self.look.len(), look.len(), "a schedule is looked at once");
        assert_eq!(self.look.iter().copied().collect::<BTreeSet<_>>(), look, "what is looked at");
        let runs = self.records().filter_map(|one| Some((one.progress.newest_run?, one.id)));
        assert_eq!(self.by_run, runs.collect(), "the newest runs of schedules");
    }
}
