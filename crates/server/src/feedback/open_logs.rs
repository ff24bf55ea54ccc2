//! The logs that are being written: their state in memory, and a few open files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use foldhash::fast::RandomState;
use model::TaskId;
use parking_lot::Mutex;

use super::folder::Folder;
use super::index::Index;
use super::recent::Recent;
use super::task_log::TaskLog;

/// Logs whose state is in memory; that of another one is read from its last file.
const STATES_MAX: usize = 65_536;
/// Files that are open for writing.
const FILES_MAX: usize = 128;

/// The logs that were written last.
#[derive(Debug)]
pub(super) struct OpenLogs {
    logs: HashMap<TaskId, TaskLog, RandomState>,
    used: Recent<TaskId>,
    with_file: Recent<TaskId>,
}

impl OpenLogs {
    pub(super) fn new() -> Self {
        Self { logs: HashMap::default(), used: Recent::new(), with_file: Recent::new() }
    }

    /// The log of a task, from memory or from its files.
    pub(super) fn open(
        &mut self,
        folder: &Folder,
        index: &Mutex<Index>,
        task: TaskId,
    ) -> io::Result<&mut TaskLog> {
        let log = match self.logs.entry(task) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let segments = index.lock().segments(folder, task)?;
                unknown.insert(TaskLog::open(folder, task, segments)?)
            }
        };
        self.used.touch(task);
        Ok(log)
    }

    /// Writes what was added to a log; gives the log as its files have it.
    pub(super) fn flush(&mut self, folder: &Folder, task: TaskId) -> io::Result<&TaskLog> {
        self.with_file.touch(task);
        while self.with_file.len() > FILES_MAX {
            let oldest = self.with_file.pop_oldest();
            if let Some(log) = oldest.and_then(|oldest| self.logs.get_mut(&oldest)) {
                log.close_file();
            }
        }
        let log = self.logs.get_mut(&task).expect("only open logs are added to");
        log.flush(folder)?;
        Ok(log)
    }

    /// The files of a log were removed.
    pub(super) fn forget_files(&mut self, task: TaskId) {
        if let Some(log) = self.logs.get_mut(&task) {
            log.forget_files();
        }
    }

    /// Closes what was not used for longest. Only between batches: nothing is half done then.
    pub(super) fn shrink(&mut self) {
        while self.used.len() > STATES_MAX {
            let Some(oldest) = self.used.pop_oldest() else { break };
            self.logs.remove(&oldest);
            self.with_file.remove(oldest);
        }
    }
}
