//! `astra run`: commands on workers, as if they ran here.
//!
//! Reading order: [`group`] lists the verbs and [`flags`] the flags; [`items`] (with [`glob`])
//! makes items of a pattern, [`plan`] makes tasks of a command, [`submit`] sends them. [`attach`]
//! follows one task (with [`log_reader`] for its output, [`watch`] and [`why`] for where it stands,
//! [`voice`] for what is written and [`ending`] for how it ended), [`progress`] (with [`tally`])
//! many; [`interrupt`] is Ctrl-C. [`selector`] finds a run again,
//! of commands ([`named`]) or of a workflow ([`numbered`], with [`node_selector`] for its nodes),
//! and [`summary`] sums it up for the verbs that look: [`list`], [`show`], [`follow`], [`logs`],
//! [`wait`], [`stop`]. [`retry`], [`diff`], [`signal`], [`rebind`] and [`artifacts`] are for runs of workflows alone. [`stray`] explains a command line that forgot its dashes.

mod artifacts;
mod attach;
mod diff;
mod ending;
mod flags;
mod follow;
mod glob;
mod group;
mod interrupt;
mod items;
mod list;
mod log_reader;
mod logs;
mod name;
mod named;
mod node_selector;
mod numbered;
mod pages;
mod plan;
mod progress;
mod rebind;
mod retry;
mod selector;
mod show;
mod signal;
mod start;
mod stop;
mod stray;
mod submit;
mod summary;
mod tally;
mod voice;
mod wait;
mod watch;
mod why;

pub(crate) use group::{Arguments, run};
pub(crate) use node_selector::node;
pub(crate) use selector::{numbered_run, workflow_run};
pub(crate) use stray::stray;
