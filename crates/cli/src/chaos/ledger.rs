//! What the outside client was told, and what did not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{LeaseId, TaskId};
use protocol::rest::leases::{Report, VerdictWord};

/// A report of the outside client and what it was told about it.
pub(super) struct Told {
    pub(super) report: Report,
    pub(super) lease: LeaseId,
    pub(super) verdict: VerdictWord,
}

/// The books.
#[derive(Default)]
pub(super) struct Books {
    /// Every acknowledged task, by its idempotency key.
    pub(super) acknowledged: BTreeMap<String, TaskId>,
    /// Tasks that end their worker's process; they die.
    pub(super) crashing: BTreeSet<TaskId>,
    /// Tasks whose stop was asked for, answered or not.
    pub(super) stop_asked: BTreeSet<TaskId>,
    /// Tasks whose stop was acknowledged.
    pub(super) stopped: BTreeSet<TaskId>,
    /// Every acknowledged run of a workflow, by its idempotency key.
    pub(super) runs: BTreeMap<String, String>,
    /// Reports and their verdicts.
    pub(super) told: Vec<Told>,
    /// Reports that were sent again.
    pub(super) resent: usize,
    /// What must never happen, and did.
    pub(super) violations: Vec<String>,
}

/// The books, shared by everyone who writes into them.
#[derive(Default)]
pub(super) struct Ledger {
    books: Mutex<Books>,
}

impl Ledger {
    pub(super) fn open(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn violation(&self, text: String) {
        self.open().violations.push(text);
    }

    /// A submit was answered; the same key must always name the same task.
    pub(super) fn acknowledge(&self, key: &str, task: TaskId) {
        let before = self.open().acknowledged.insert(key.to_owned(), task);
        if let Some(before) = before.filter(|before| *before != task) {
            self.violation(format!("key {key} named task {before} first and {task} later"));
        }
    }
}
