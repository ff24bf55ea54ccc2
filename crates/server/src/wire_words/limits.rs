//! Limits that hold at every door, because what they bound is the same task.

/// Tasks in one submit.
pub(crate) const TASKS_PER_SUBMIT_MAX: usize = 10_000;
/// The parameters of one task.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;
/// Tools or tags that a task may demand, of each.
pub(crate) const DEMAND_ENTRIES_MAX: usize = 64;
/// The result of one attempt.
pub(crate) const RESULT_BYTES_MAX: usize = 8 * 1024 * 1024;
