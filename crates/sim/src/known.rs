//! What the simulation has found in the coordinator and works around, so that it can look behind
//! it. Each is `true` once the coordinator keeps its word; then its workaround falls away.

/// A lease or task id of another shard names no task here, whatever its number.
pub(crate) const TELLS_SHARDS_APART: bool = false;

/// A report or heartbeat for a task that an earlier entry of the same command has settled is
/// judged like any other, and not as one of an unknown task.
pub(crate) const JUDGES_A_TASK_TWICE_IN_ONE_COMMAND: bool = false;

/// A worker that dies in an attempt with a short timeout counts as lost, so that such a task is
/// taken for poison too.
pub(crate) const COUNTS_SILENT_TIMEOUTS_AS_LOSSES: bool = false;

/// When the task at the front of a concurrency key comes back to the queue, a better one that is
/// parked behind it goes first.
pub(crate) const PROMOTES_THE_BEST_OF_A_KEY: bool = false;

/// A command that names several settled tasks, of which one had just settled and was remembered
/// while another must be read, still finds the first one when the read comes back.
pub(crate) const REMEMBERS_WHAT_A_LOAD_RELIES_ON: bool = false;

/// Whether a failed check of the coordinator's tables is one of these.
pub(crate) fn is_known(words: &str) -> bool {
    !PROMOTES_THE_BEST_OF_A_KEY && words.contains("concurrency keys")
}
