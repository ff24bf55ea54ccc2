//! Live tasks by number, in small pages: tasks come and go roughly in order, so pages fill up,
//! empty and vanish, and a look-up costs one step per page of 64 instead of one per task.

use std::collections::BTreeMap;

use model::TaskId;

use crate::task::Task;

const PAGE_BITS: u32 = 6;
const PAGE_SLOTS: usize = 1 << PAGE_BITS;

/// An ordered map from task ids to live tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    pages: BTreeMap<u64, Page>,
    len: usize,
}

#[derive(Debug)]
struct Page {
    slots: Box<[Option<Task>]>,
    used: usize,
}

impl Page {
    fn new() -> Self {
        Self { slots: std::iter::repeat_with(|| None).take(PAGE_SLOTS).collect(), used: 0 }
    }
}

fn place(task: TaskId) -> (u64, usize) {
    let number = task.number();
    let slot = usize::try_from(number).expect("40 bits") % PAGE_SLOTS;
    (number >> PAGE_BITS, slot)
}

impl TaskTable {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&Task> {
        let (page, slot) = place(task);
        let found = self.pages.get(&page)?.slots[slot].as_ref();
        found.filter(|found| found.id == task) // Another shard's task may have the same number.
    }

    pub(crate) fn get_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        let (page, slot) = place(task);
        let found = self.pages.get_mut(&page)?.slots[slot].as_mut();
        found.filter(|found| found.id == task)
    }

    /// A task is inserted once: a second one under the same id is a bug.
    pub(crate) fn insert(&mut self, id: TaskId, task: Task) {
        let (page, slot) = place(id);
        let page = self.pages.entry(page).or_insert_with(Page::new);
        let before = page.slots[slot].replace(task);
        assert!(before.is_none(), "task {id} is already live");
        page.used += 1;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let (number, slot) = place(id);
        let page = self.pages.get_mut(&number)?;
        let task = page.slots[slot].take()?;
        page.used -= 1;
        self.len -= 1;
        if page.used == 0 {
            self.pages.remove(&number);
        }
        Some(task)
    }

    /// Every live task, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.pages.values().flat_map(|page| page.slots.iter().flatten())
    }
}
