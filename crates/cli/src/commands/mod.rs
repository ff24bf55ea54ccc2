//! One file per command: its arguments, and what it does.
//!
//! Reading order: [`dev`], [`server`] and [`worker`] run things; [`mod@run`], [`mod@flow`],
//! [`schedule`], [`hook`], [`task`], [`plan`], [`action`], [`events`], [`explain`], [`queue`] and
//! [`token`] ask a server; [`demo`] shows; [`version`] and [`completion`] are chores.

pub(crate) mod action;
pub(crate) mod completion;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod flow;
pub(crate) mod hook;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod version;
pub(crate) mod worker;
