//! Workflows that the wall clock starts.
//!
//! Reading order: `record` (what a schedule is, and when its rule is due), `table` (all schedules of
//! the tenant, and which of them have to be looked at), `fire` (what happens when a moment has come,
//! and what people do to schedules).

mod fire;
mod record;
mod table;

pub use fire::{BACKFILL_WAITING_MAX, SCHEDULES_MAX, WAITING_MOMENTS_MAX};
pub use record::{
    Calendar, CalendarError, FiredMoment, Preparation, PrepareTicket, ScheduleEdit, ScheduleId,
    ScheduleProgress, ScheduleRecord, ScheduleSpec,
};
pub(crate) use table::Schedules;
