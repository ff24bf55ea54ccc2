//! Plans, and the groups of tasks that execute them. Every door shows the same ones.
//!
//! A plan is a document that is kept; a job is a task of type `plan` or `plan.step`; an action is a
//! run: the jobs that were made of one plan together. Reading order: [`kept`], [`job`],
//! [`action`].

pub(crate) mod action;
pub(crate) mod job;
pub(crate) mod kept;
