//! What people do to schedules.

use std::sync::Arc;

use model::Timestamp;

use super::record::{ScheduleEdit, ScheduleId, ScheduleProgress, ScheduleRecord, ScheduleSpec};
use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::tenant_change::TenantChange;

/// Schedules of one tenant; one more is refused.
pub const SCHEDULES_MAX: usize = 1_000;
/// Moments of the past that wait for their runs, of one schedule; more are refused.
pub const BACKFILL_WAITING_MAX: usize = 1_000;

impl Decision<'_> {
    pub(crate) fn on_list_schedules(&mut self, ticket: Ticket) {
        let found = self.state.schedules.records().cloned().collect();
        self.answer(ticket, Answer::Schedules(found));
    }

    pub(crate) fn on_show_schedule(&mut self, ticket: Ticket, id: ScheduleId) {
        let Some(record) = self.known_schedule(ticket, id) else { return };
        self.answer(ticket, Answer::Schedule(Box::new(record)));
    }

    pub(crate) fn on_add_schedule(&mut self, ticket: Ticket, id: ScheduleId, spec: ScheduleSpec) {
        if self.state.schedules.len() >= SCHEDULES_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::SchedulesFull));
        }
        let progress = ScheduleProgress { handled: self.at.wall, ..ScheduleProgress::default() };
        let (spec, progress) = (Arc::new(spec), Arc::new(progress));
        self.set_schedule(ticket, ScheduleRecord { id, spec, progress });
    }

    /// The author changed something; what the clock did so far stays.
    pub(crate) fn on_edit_schedule(&mut self, ticket: Ticket, id: ScheduleId, edit: ScheduleEdit) {
        let Some(before) = self.known_schedule(ticket, id) else { return };
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
        self.set_schedule(ticket, ScheduleRecord { id, spec: Arc::new(spec), progress });
    }

    pub(crate) fn on_remove_schedule(&mut self, ticket: Ticket, id: ScheduleId) {
        if self.known_schedule(ticket, id).is_some() {
            self.record_tenant(TenantChange::ScheduleRemoved { schedule: id });
            self.answer(ticket, Answer::ScheduleRemoved);
        }
    }

    /// People want runs for these moments of the past, one after another.
    pub(crate) fn on_backfill(&mut self, ticket: Ticket, id: ScheduleId, moments: &[Timestamp]) {
        let Some(mut record) = self.known_schedule(ticket, id) else { return };
        let progress = Arc::make_mut(&mut record.progress);
        progress.backfill.extend(moments);
        progress.backfill.sort_unstable();
        progress.backfill.dedup();
        if progress.backfill.len() > BACKFILL_WAITING_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::BackfillFull));
        }
        let progress = Arc::clone(&record.progress);
        self.record_tenant(TenantChange::ScheduleWaits { schedule: id, progress });
        self.answer(ticket, Answer::Schedule(Box::new(record)));
    }

    fn set_schedule(&mut self, ticket: Ticket, record: ScheduleRecord) {
        self.record_tenant(TenantChange::ScheduleSet(Box::new(record.clone())));
        self.answer(ticket, Answer::Schedule(Box::new(record)));
    }

    /// A schedule that someone named; if there is none, they hear it.
    fn known_schedule(&mut self, ticket: Ticket, id: ScheduleId) -> Option<ScheduleRecord> {
        let found = self.state.schedules.record(id).cloned();
        if found.is_none() {
            self.answer(ticket, Answer::Refused(Refusal::UnknownSchedule));
        }
        found
    }
}
