//! `astra schedule`: workflows that are started by the clock.
//!
//! Reading order: [`group`] lists the verbs, [`create`] makes a schedule, [`change`] pauses,
//! resumes, removes and runs one, [`selector`] finds it and [`shown`] prints it.

mod change;
mod create;
mod group;
mod selector;
mod shown;

pub(crate) use group::{Command, run};
