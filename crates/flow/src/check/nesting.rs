//! Containers in containers.
use crate::compile::{Inner, Sources};
use crate::problem::Problems;

/// Checks them.
pub(crate) fn check(_sources: &Sources<'_>, _inner: &[Inner], _problems: &mut Problems) {}
