//! Which tasks belong on a page.

use coordinator::StateWord;

use crate::contract::PageQuery;

/// One call looks at no more rows than this, so that a rare state cannot make the store read
/// everything.
pub const ROWS_PER_LIST_MAX: usize = 50_000;

impl PageQuery {
    /// Whether a task with these properties is asked for.
    pub(crate) fn admits(&self, state: StateWord, task_type: &str, queue: &str) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && self.task_type.as_ref().is_none_or(|wanted| wanted.as_str() == task_type)
            && self.queue.as_ref().is_none_or(|wanted| wanted.as_str() == queue)
    }

    /// A page holds at least one task, so that following the cursors always ends.
    pub(crate) fn page_size(&self) -> usize {
        usize::try_from(self.limit.max(1)).unwrap_or(ROWS_PER_LIST_MAX)
    }
}
