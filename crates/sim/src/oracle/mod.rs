//! Judges the run without looking into the coordinator: what must be true of everything that
//! comes out of it.
//!
//! Reading order: `notes` (where a broken promise is written down), `model` (what the facts say,
//! worked out anew), `after` (who may start), `judge` (which answer each command must get), `waiting` (nobody waits without
//! reason), `journal` (what clients outside were told), `tap` (where it
//! looks on).

mod after;
mod journal;
mod judge;
mod model;
mod notes;
mod tap;
mod waiting;

pub(crate) use journal::Journal;
pub(crate) use judge::Heard;
pub(crate) use model::{Model, Place, TaskModel};
pub(crate) use notes::Notes;
pub use notes::Violation;
pub(crate) use tap::Oracle;
