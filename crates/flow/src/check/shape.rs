//! Shape.
use crate::definition::Workflow;
use crate::problem::Problems;

/// Checks it.
pub(crate) fn check(_workflow: &Workflow<'_>, _problems: &mut Problems) {}
