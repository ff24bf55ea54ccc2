//! Runs of random workflows, compared with a simple interpreter.
//!
//! Reading order: `generate` (a workflow from a seed), `deeds` (what its steps do: always the same,
//! whoever executes them), `interpret` (what must come of it), `checks` (what must be true of every
//! turn that is kept), `book` (which runs the world has, and how they ended), `people` (who says the
//! words that they wait for), `schedules` (runs that the clock starts).

mod book;
mod checks;
mod deeds;
mod generate;
mod interpret;
mod people;
mod schedules;

pub(crate) use book::{RunBook, SavedWorkflow};
pub(crate) use deeds::{Step, StepMove};
pub(crate) use schedules::{ScheduleBook, schedule_id, schedule_spec};
