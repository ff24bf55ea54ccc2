//! What happens when a moment of a schedule has come.
//!
//! A run needs a compiled program, which the shell makes outside the turn: `Effect::Prepare` asks
//! for it and `Command::Prepared` brings it. Only that command says that the moment is dealt with,
//! in the same turn that starts the run: after a crash, a moment has its run or is prepared anew.

use std::sync::Arc;
use std::time::Duration;

use model::{Overlap, RunId, Timestamp};

use super::record::{
    Preparation, PrepareTicket, ScheduleEdit, ScheduleId, ScheduleProgress, ScheduleRecord,
    ScheduleSpec,
};
use super::table::NextStep;
use crate::command::NewRun;
use crate::coordinator::Decision;
use crate::effect::{Answer, Effect, Refusal};
use crate::run::change::RunChange;
use crate::tenant_change::TenantChange;

/// Limit: moments of one schedule that may wait for the run before; later ones pass without a run.
pub const WAITING_MOMENTS_MAX: usize = 100;
/// A run that could not be started for now is prepared again after this.
const PREPARE_AGAIN_AFTER: Duration = Duration::from_secs(2);

impl Decision<'_> {
    /// Looks at the schedules that may have a run to start, until one run has to be prepared.
    pub(crate) fn advance_schedules(&mut self) {
        let schedules = &mut self.state.schedules;
        if schedules.len() == 0 {
            return;
        }
        for change in &self.step.runs {
            if let RunChange::RunSettled { run, .. } = change {
                schedules.note_ended(*run);
            }
        }
        schedules.look_at_due(self.at.now, self.at.wall);
        while let Some(id) = self.state.schedules.next_to_look_at() {
            if let Some(due) = self.next_to_start(id) {
                self.prepare(id, due);
            }
        }
    }

    /// The moment of a schedule whose run can start now. Moments that pass without a run, and those
    /// that wait, are dealt with on the way.
    fn next_to_start(&mut self, id: ScheduleId) -> Option<Timestamp> {
        loop {
            let before = self.open_run(id);
            let kept = self.state.schedules.get(id)?;
            let progress = &kept.record.progress;
            if before.is_none()
                && let Some(due) = progress.next_waiting()
            {
                return Some(due);
            }
            let clock = kept.calendar.as_ref().filter(|_| !kept.record.spec.paused);
            let next = clock.and_then(|calendar| progress.next_due(calendar, self.at.wall));
            let Some(due) = next.filter(|next| *next <= self.at.wall) else {
                self.state.schedules.plan(id, NextStep::Wait(next));
                return None;
            };
            match (before, kept.record.spec.overlap) {
                (Some(run), Overlap::Skip) => {
                    let problem = format!("run {} still went on", run.number());
                    self.fired(id, due, Err(problem));
                }
                (Some(_), Overlap::Queue) => self.wait(id, due),
                (None, _) | (Some(_), Overlap::Allow | Overlap::Cancel) => return Some(due),
            }
        }
    }

    /// The newest run of a schedule, if it has not ended.
    fn open_run(&self, id: ScheduleId) -> Option<RunId> {
        let run = self.state.schedules.record(id)?.progress.newest_run?;
        self.state.runs.live.contains_key(&run).then_some(run)
    }

    /// The moment waits for the run before to end.
    fn wait(&mut self, id: ScheduleId, due: Timestamp) {
        let Some(record) = self.state.schedules.record(id) else { return };
        if record.progress.waiting.len() >= WAITING_MOMENTS_MAX {
            let problem = format!("{WAITING_MOMENTS_MAX} other times wait for their runs already");
            return self.fired(id, due, Err(problem));
        }
        let mut progress = ScheduleProgress::clone(&record.progress);
        progress.handled = progress.handled.max(due);
        progress.waiting.push(due);
        let progress = Arc::new(progress);
        self.record_tenant(TenantChange::ScheduleWaits { schedule: id, progress });
    }

    fn fired(&mut self, id: ScheduleId, due: Timestamp, outcome: Result<RunId, String>) {
        let Some(record) = self.state.schedules.record(id) else { return };
        let progress = Arc::new(record.progress.fired(due, outcome));
        self.record_tenant(TenantChange::ScheduleFired { schedule: id, progress });
    }

    fn prepare(&mut self, id: ScheduleId, due: Timestamp) {
        let Some(record) = self.state.schedules.record(id) else { return };
        let spec = Arc::clone(&record.spec);
        let prepare = self.state.schedules.prepare(id, due);
        self.step.effects.push(Effect::Prepare { prepare, schedule: id, due, spec });
    }

    /// The shell comes back with the run of a moment, or says why there is none.
    pub(crate) fn on_prepared(&mut self, ticket: PrepareTicket, preparation: Preparation) {
        let Some((id, due)) = self.state.schedules.end_prepare(ticket) else { return };
        let outcome = match preparation {
            Preparation::Run(run) => self.start_due(id, *run),
            Preparation::Existing(run) => Some(Ok(run)),
            Preparation::Impossible(problem) => Some(Err(problem)),
            Preparation::Later => None,
        };
        let next = match outcome {
            Some(outcome) => {
                self.fired(id, due, outcome);
                NextStep::Look
            }
            None => NextStep::Rest(self.now().after(PREPARE_AGAIN_AFTER)),
        };
        self.state.schedules.plan(id, next);
    }

    /// Starts the run of a moment; `None` when there is no room for it now.
    fn start_due(&mut self, id: ScheduleId, run: NewRun) -> Option<Result<RunId, String>> {
        let record = self.state.schedules.record(id)?;
        let stops_before = record.spec.overlap == Overlap::Cancel;
        if let Some(before) = self.open_run(id).filter(|_| stops_before) {
            self.cancel_run(before, &format!("schedule {id}"));
        }
        match self.start_run(run) {
            Ok((run, _)) => Some(Ok(run)),
            Err(Refusal::RunConflict { .. }) => {
                Some(Err("the key belongs to a run with other content".to_owned()))
            }
            // All others are limits, and what is live gets less.
            Err(_) => None,
        }
    }
}

/// Limit: schedules of one tenant; one more is refused.
pub const SCHEDULES_MAX: usize = 1_000;
/// Limit: moments of the past that wait for their runs, of one schedule; more are refused.
pub const BACKFILL_WAITING_MAX: usize = 1_000;

impl Decision<'_> {
    pub(crate) fn on_list_schedules(&self) -> Answer {
        Answer::Schedules(self.state.schedules.records().cloned().collect())
    }

    pub(crate) fn on_show_schedule(&self, id: ScheduleId) -> Result<Answer, Refusal> {
        self.known_schedule(id).map(|record| Answer::Schedule(Box::new(record)))
    }

    pub(crate) fn on_add_schedule(
        &mut self,
        id: ScheduleId,
        spec: ScheduleSpec,
    ) -> Result<Answer, Refusal> {
        if self.state.schedules.len() >= SCHEDULES_MAX {
            return Err(Refusal::SchedulesFull);
        }
        let progress = ScheduleProgress { handled: self.at.wall, ..ScheduleProgress::default() };
        let (spec, progress) = (Arc::new(spec), Arc::new(progress));
        Ok(self.set_schedule(ScheduleRecord { id, spec, progress }))
    }

    /// The author changed something; what the clock did so far stays.
    pub(crate) fn on_edit_schedule(
        &mut self,
        id: ScheduleId,
        edit: ScheduleEdit,
    ) -> Result<Answer, Refusal> {
        let before = self.known_schedule(id)?;
        let spec = edit.applied_to(&before.spec);
        let has_new_times =
            (&before.spec.cron, &before.spec.timezone) != (&spec.cron, &spec.timezone);
        let is_resumed = before.spec.paused && !spec.paused;
        let mut progress = before.progress;
        // Moments that passed meanwhile are not made up for.
        if has_new_times || is_resumed {
            let progress = Arc::make_mut(&mut progress);
            progress.handled = self.at.wall;
            progress.waiting.clear();
        }
        // What waits under the old rule is no moment of the new one.
        if has_new_times {
            Arc::make_mut(&mut progress).backfill.clear();
        }
        Ok(self.set_schedule(ScheduleRecord { id, spec: Arc::new(spec), progress }))
    }

    pub(crate) fn on_remove_schedule(&mut self, id: ScheduleId) -> Result<Answer, Refusal> {
        self.known_schedule(id)?;
        self.record_tenant(TenantChange::ScheduleRemoved { schedule: id });
        Ok(Answer::ScheduleRemoved)
    }

    /// People want runs for these moments of the past, one after another.
    pub(crate) fn on_backfill(
        &mut self,
        id: ScheduleId,
        moments: &[Timestamp],
    ) -> Result<Answer, Refusal> {
        let mut record = self.known_schedule(id)?;
        let progress = Arc::make_mut(&mut record.progress);
        progress.backfill.extend(moments);
        progress.backfill.sort_unstable();
        progress.backfill.dedup();
        if progress.backfill.len() > BACKFILL_WAITING_MAX {
            return Err(Refusal::BackfillFull);
        }
        let progress = Arc::clone(&record.progress);
        self.record_tenant(TenantChange::ScheduleWaits { schedule: id, progress });
        Ok(Answer::Schedule(Box::new(record)))
    }

    fn set_schedule(&mut self, record: ScheduleRecord) -> Answer {
        self.record_tenant(TenantChange::ScheduleSet(Box::new(record.clone())));
        Answer::Schedule(Box::new(record))
    }

    fn known_schedule(&self, id: ScheduleId) -> Result<ScheduleRecord, Refusal> {
        self.state.schedules.record(id).cloned().ok_or(Refusal::UnknownSchedule)
    }
}
