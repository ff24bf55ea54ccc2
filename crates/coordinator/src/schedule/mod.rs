//! Workflows that the wall clock starts.
//!
//! Reading order: `calendar` (when a rule is due), `record` (what a schedule is), `table` (all
//! schedules of the tenant, and which of them have to be looked at), `edit` (what people do to
//! them), `fire` (what happens when a moment has come).

mod calendar;
mod edit;
mod fire;
mod record;
mod table;

pub use calendar::{CRON_CHARS_MAX, Calendar, CalendarError};
pub use edit::{BACKFILL_WAITING_MAX, SCHEDULES_MAX};
pub use fire::{PREPARE_AGAIN_AFTER, WAITING_MOMENTS_MAX};
pub use record::{
    FiredMoment, Overlap, Preparation, PrepareTicket, ScheduleEdit, ScheduleId, ScheduleProgress,
    ScheduleRecord, ScheduleSpec,
};
pub use table::LOOK_AT_LEAST_EVERY;
pub(crate) use table::Schedules;
