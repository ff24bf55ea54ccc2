//! `astra task`: one file per verb.
//!
//! Reading order: [`group`] lists the verbs, [`submit`] builds tasks out of flags ([`new_task`])
//! and files ([`task_file`]), [`wait`] waits for their ends, [`show`] and [`list`] print them.

mod change;
mod group;
mod list;
mod new_task;
mod show;
mod submit;
mod task_file;
mod wait;

pub(crate) use group::{Command, run};
pub(crate) use new_task::{parse_package, parse_tag, read_file};
