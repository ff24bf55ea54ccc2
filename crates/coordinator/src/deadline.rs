//! The one table of moments at which something must be looked at.

use std::collections::BTreeSet;

use model::{TaskId, Timestamp, WorkerId};

use crate::command::Ticket;

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deadline {
    /// A waiting task may start, a leased task's lease ends, or a ready one has waited long enough
    /// for its worker; its state says which.
    Task(TaskId),
    /// A worker's request for leases has waited long enough.
    Request(Ticket),
    /// Someone has watched a task or a run long enough.
    Watch(Ticket),
    /// A middleware has waited for the next in line long enough.
    Call(Ticket),
    /// A worker was silent for another heartbeat.
    Worker(WorkerId),
}

/// Everything that is due, earliest first. Each subject stands in it at most once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    table: BTreeSet<(Timestamp, Deadline)>,
}

impl Deadlines {
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.table.first().map(|(at, _)| *at)
    }

    pub(crate) fn insert(&mut self, at: Timestamp, deadline: Deadline) {
        let is_new = self.table.insert((at, deadline));
        assert!(is_new, "a deadline is set once");
    }

    pub(crate) fn remove(&mut self, at: Timestamp, deadline: Deadline) {
        let was_set = self.table.remove(&(at, deadline));
        assert!(was_set, "a deadline is removed as it was set");
    }

    /// Takes the earliest one that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Deadline)> {
        if self.first()? > now {
            return None;
        }
        self.table.pop_first()
    }

    pub(crate) fn contains(&self, at: Timestamp, deadline: Deadline) -> bool {
        self.table.contains(&(at, deadline))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
