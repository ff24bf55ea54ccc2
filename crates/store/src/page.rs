//! Which tasks belong on a page.

use coordinator::{StateWord, TaskRecord, TaskState};

use crate::contract::PageQuery;

/// One call looks at no more rows than this, so that a rare state cannot make the store read
/// everything.
pub const ROWS_PER_LIST_MAX: usize = 50_000;

/// A page ends before its payloads grow beyond this, so that large tasks cannot make it huge. The
/// first task always fits.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How full a page is.
#[derive(Debug, Default)]
pub(crate) struct PageFill {
    bytes: usize,
}

impl PageFill {
    /// Whether one more task fits; it is counted if it does.
    pub(crate) fn takes(&mut self, record: &TaskRecord) -> bool {
        let result = match &record.progress.state {
            TaskState::Settled(settlement) => {
                settlement.result.as_ref().map_or(0, bytes::Bytes::len)
            }
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => 0,
        };
        let is_first = self.bytes == 0;
        self.bytes += record.parameters.len() + result;
        is_first || self.bytes <= PAGE_BYTES_MAX
    }
}

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
