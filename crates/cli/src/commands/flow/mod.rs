//! `astra flow`: workflows, in files and on a server.
//!
//! Reading order: [`group`] lists the verbs; [`document`] reads a workflow, [`inputs`] what a run
//! is given and [`selector`] finds a kept one; [`run`] starts one. [`validate`] and [`show`] (with
//! [`outline`]) look at what is written, [`list`], [`save`], [`versions`] and [`diff`] at what is
//! kept; [`new`] begins one.

mod diff;
mod document;
mod group;
mod inputs;
mod list;
mod new;
mod outline;
mod problems;
mod run;
mod save;
mod selector;
mod show;
mod validate;
mod versions;

pub(crate) use group::{Command, run};
pub(crate) use inputs::{Input, object as inputs_object, value_of};
pub(crate) use selector::workflow as find;
