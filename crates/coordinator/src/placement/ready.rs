//! Ready tasks with the same demand, best first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::TaskId;

/// `explain` counts no further than this.
const TASKS_AHEAD_COUNTED: usize = 100_000;

/// The order of ready tasks: higher priority first, then the older one.
pub(crate) type ReadyRank = (Reverse<i16>, TaskId);

/// Ready tasks by their rank. Sets of one priority each stay small where most tasks come and go at
/// their ends.
#[derive(Debug, Default)]
pub(super) struct ReadySet {
    by_priority: BTreeMap<Reverse<i16>, BTreeSet<TaskId>>,
    len: u64,
}

impl ReadySet {
    pub(super) fn insert(&mut self, (priority, task): ReadyRank) {
        let is_new = self.by_priority.entry(priority).or_default().insert(task);
        assert!(is_new, "a task is ready once");
        self.len += 1;
    }

    pub(super) fn remove(&mut self, (priority, task): ReadyRank) {
        let same_priority = self.by_priority.get_mut(&priority).expect("the task is ready");
        let was_ready = same_priority.remove(&task);
        assert!(was_ready, "the task is ready");
        if same_priority.is_empty() {
            self.by_priority.remove(&priority);
        }
        self.len -= 1;
    }

    pub(super) fn contains(&self, (priority, task): ReadyRank) -> bool {
        self.by_priority.get(&priority).is_some_and(|tasks| tasks.contains(&task))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_priority.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The one that is granted next.
    pub(super) fn first(&self) -> Option<ReadyRank> {
        let (priority, tasks) = self.by_priority.first_key_value()?;
        tasks.first().map(|task| (*priority, *task))
    }

    /// All of them, best first.
    pub(super) fn ranks(&self) -> impl Iterator<Item = ReadyRank> {
        let by_priority = self.by_priority.iter();
        by_priority.flat_map(|(priority, tasks)| tasks.iter().map(|task| (*priority, *task)))
    }

    /// How many go before this one.
    pub(super) fn ahead_of(&self, (priority, task): ReadyRank) -> usize {
        let higher = self.by_priority.range(..priority);
        let higher: usize = higher.map(|(_, tasks)| tasks.len()).sum();
        let equal = self.by_priority.get(&priority);
        let equal = equal.map_or(0, |tasks| tasks.range(..task).take(TASKS_AHEAD_COUNTED).count());
        higher + equal
    }

    /// The oldest of each priority.
    pub(super) fn oldest(&self) -> impl Iterator<Item = TaskId> {
        self.by_priority.values().filter_map(BTreeSet::first).copied()
    }

    /// # Panics
    /// When the count is wrong.
    pub(super) fn check(&self) {
        let len: usize = self.by_priority.values().map(BTreeSet::len).sum();
        assert_eq!(self.len, len as u64, "ready tasks of a demand");
        assert!(self.by_priority.values().all(|tasks| !tasks.is_empty()), "an empty priority");
    }
}
