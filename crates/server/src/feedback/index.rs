//! Which logs there are, and how large they are: what is needed to find and to bound them.

use std::collections::{BTreeSet, HashMap};
use std::io;

use foldhash::fast::RandomState;
use model::TaskId;

use super::folder::{Drawer, Folder, Segment};

/// The files of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogFiles {
    pub(super) segments: Vec<Segment>,
    /// When the log was last written, in milliseconds since 1970.
    written_at: u64,
}

impl LogFiles {
    fn cost(&self) -> u64 {
        self.segments.iter().map(Segment::cost).sum()
    }
}

/// All logs. What earlier servers left is read a drawer at a time, when it is needed or when there
/// is time, so that a server with many logs starts at once.
#[derive(Debug)]
pub(super) struct Index {
    unread: BTreeSet<Drawer>,
    logs: HashMap<TaskId, LogFiles, RandomState>,
    by_age: BTreeSet<(u64, TaskId)>,
    cost: u64,
}

impl Index {
    pub(super) fn open(folder: &Folder) -> io::Result<Self> {
        let unread = folder.drawers()?.into_iter().collect();
        Ok(Self { unread, logs: HashMap::default(), by_age: BTreeSet::new(), cost: 0 })
    }

    /// The files of a log; none if there is no log.
    pub(super) fn segments(&mut self, folder: &Folder, task: TaskId) -> io::Result<Vec<Segment>> {
        self.read(folder, Drawer::of(task))?;
        Ok(self.logs.get(&task).map(|files| files.segments.clone()).unwrap_or_default())
    }

    /// A log was written.
    pub(super) fn publish(&mut self, task: TaskId, segments: &[Segment], written_at: u64) {
        self.remove(task);
        self.insert(task, LogFiles { segments: segments.to_vec(), written_at });
    }

    /// Reads what an earlier server left in one more drawer; `false` when all are read.
    pub(super) fn read_one(&mut self, folder: &Folder) -> bool {
        let Some(drawer) = self.unread.first().copied() else { return false };
        if let Err(error) = self.read(folder, drawer) {
            tracing::warn!(%error, ?drawer, "a folder of logs cannot be read; it is left alone");
            self.unread.remove(&drawer);
        }
        true
    }

    /// Takes out the oldest log, if there is too much. Not before all of them are known.
    pub(super) fn pop_surplus(&mut self, folder: &Folder) -> Option<(TaskId, Vec<Segment>)> {
        let limits = &folder.limits;
        let is_over = self.cost > limits.total_bytes_max || self.logs.len() > limits.logs_max;
        if !is_over || !self.unread.is_empty() {
            return None;
        }
        let (_, task) = self.by_age.first().copied()?;
        self.remove(task).map(|files| (task, files.segments))
    }

    fn read(&mut self, folder: &Folder, drawer: Drawer) -> io::Result<()> {
        if !self.unread.contains(&drawer) {
            return Ok(());
        }
        let mut found: HashMap<TaskId, LogFiles, RandomState> = HashMap::default();
        for one in folder.segments(drawer)? {
            let files = found.entry(one.task).or_default();
            files.segments.push(one.segment);
            files.written_at = files.written_at.max(one.written_at);
        }
        self.unread.remove(&drawer);
        for (task, mut files) in found {
            files.segments.sort_unstable_by_key(|segment| segment.base);
            self.insert(task, files);
        }
        Ok(())
    }

    fn insert(&mut self, task: TaskId, files: LogFiles) {
        self.cost += files.cost();
        self.by_age.insert((files.written_at, task));
        self.logs.insert(task, files);
    }

    fn remove(&mut self, task: TaskId) -> Option<LogFiles> {
        let files = self.logs.remove(&task)?;
        self.cost -= files.cost();
        self.by_age.remove(&(files.written_at, task));
        Some(files)
    }
}
