//! What is under way: which leases run, what may start, what has to stop.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::Number;
use super::history::History;
use crate::executor::Outcome;
use crate::feedback::FeedbackSink;

/// Too much at once.
pub(crate) const CONCURRENCY_VIOLATION: &str = "E.CMD.CONCURRENCY_VIOLATION";
/// Nothing new is taken.
pub(crate) const DRAINING: &str = "E.WORKER.DRAINING";
/// A type that is not offered.
pub(crate) const UNKNOWN: &str = "E.CMD.UNKNOWN";

/// A dispatch as it is reported about.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) lease_id: String,
    pub(crate) run_id: String,
    pub(crate) task_id: String,
    pub(crate) node_id: String,
    pub(crate) node_type: String,
    pub(crate) concurrency_key: Option<String>,
    pub(crate) seq: Option<u64>,
}

/// An errand that was started.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) errand: Errand,
    pub(crate) feedback: FeedbackSink,
    pub(crate) started: Instant,
    pub(crate) phase: Phase,
    stop: CancellationToken,
}

/// ```text
/// Running  --> Ended      the work is over
/// Running  --> Stopping   its lease is lost, or the worker leaves
/// Stopping --> (gone)     the work is over
/// Ended    --> (gone)     all it said was sent, and it is reported
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// The work goes on.
    Running,
    /// The work was told to stop.
    Stopping {
        /// Whether the server is told that the lease was given up.
        is_given_back: bool,
    },
    /// The work is over; what it said last is on its way.
    Ended {
        /// How it ended.
        outcome: Outcome,
        /// How long it took.
        duration: Duration,
    },
}

/// Why a dispatch is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It runs or ran here already: nothing is said, for the first one speaks for it.
    Known,
    /// The server is told why.
    Because(&'static str, String),
}

/// How much may run at once.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) slots: usize,
    pub(crate) per_type: BTreeMap<String, usize>,
}

/// What is under way.
#[derive(Debug)]
pub(crate) struct Desk {
    limits: Limits,
    entries: BTreeMap<Number, Entry>,
    by_lease: HashMap<String, Number>,
    keys: HashMap<String, Number>,
    n_running: usize,
    next: Number,
    pub(crate) history: History,
}

impl Desk {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            by_lease: HashMap::new(),
            keys: HashMap::new(),
            n_running: 0,
            next: 0,
            history: History::default(),
        }
    }

    /// Whether an errand may start. The server keeps to the limits too; this is a guard.
    pub(crate) fn check(&self, errand: &Errand) -> Result<(), Refusal> {
        let lease_id = errand.lease_id.as_str();
        if self.by_lease.contains_key(lease_id) || self.history.knows(lease_id) {
            return Err(Refusal::Known);
        }
        let refuse = |why| Err(Refusal::Because(CONCURRENCY_VIOLATION, why));
        if self.n_running >= self.limits.slots {
            return refuse(format!("{} tasks run here, which is all", self.n_running));
        }
        if let Some(limit) = self.limits.per_type.get(&errand.node_type)
            && self.n_running_of(&errand.node_type) >= *limit
        {
            return refuse(format!("{limit} tasks of type {} run here", errand.node_type));
        }
        if let Some(key) = &errand.concurrency_key
            && self.keys.contains_key(key)
        {
            return refuse(format!("a task with the concurrency key {key} runs here"));
        }
        Ok(())
    }

    fn n_running_of(&self, node_type: &str) -> usize {
        let is_one = |entry: &&Entry| {
            matches!(entry.phase, Phase::Running) && entry.errand.node_type == node_type
        };
        self.entries.values().filter(is_one).count()
    }

    /// The number of the next errand that starts.
    pub(crate) fn next_number(&self) -> Number {
        self.next
    }

    /// An errand has started.
    pub(crate) fn start(
        &mut self,
        errand: Errand,
        feedback: FeedbackSink,
        stop: CancellationToken,
    ) {
        let number = self.next;
        self.next += 1;
        self.n_running += 1;
        self.by_lease.insert(errand.lease_id.clone(), number);
        if let Some(key) = &errand.concurrency_key {
            self.keys.insert(key.clone(), number);
        }
        let started = Instant::now();
        let entry = Entry { errand, feedback, started, phase: Phase::Running, stop };
        self.entries.insert(number, entry);
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// The work of an errand is over. Gives it back if there is nothing to wait for.
    pub(crate) fn end(&mut self, number: Number, outcome: Outcome) -> Option<Entry> {
        let entry = self.entries.get_mut(&number)?;
        // The work is over, so another with the same key may begin.
        if let Some(key) = &entry.errand.concurrency_key {
            self.keys.remove(key);
        }
        match entry.phase {
            Phase::Stopping { .. } => self.remove(number),
            Phase::Running => {
                self.n_running -= 1;
                entry.feedback.finish();
                entry.phase = Phase::Ended { outcome, duration: entry.started.elapsed() };
                None
            }
            Phase::Ended { .. } => None,
        }
    }

    /// Takes an errand off the desk.
    pub(crate) fn remove(&mut self, number: Number) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.by_lease.remove(&entry.errand.lease_id);
        if matches!(entry.phase, Phase::Running) {
            self.n_running -= 1;
        }
        Some(entry)
    }

    /// The lease is lost: the work stops at once and nothing is reported. `false` if it did not
    /// run here.
    pub(crate) fn cancel(&mut self, lease_id: &str) -> bool {
        let Some(&number) = self.by_lease.get(lease_id) else { return false };
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        entry.feedback.close();
        match entry.phase {
            Phase::Running => {
                entry.phase = Phase::Stopping { is_given_back: false };
                entry.stop.cancel();
                self.n_running -= 1;
            }
            Phase::Stopping { .. } => entry.phase = Phase::Stopping { is_given_back: false },
            Phase::Ended { .. } => {
                self.remove(number);
            }
        }
        true
    }

    /// The time is up: all work stops, and the server is told so when it has.
    pub(crate) fn give_back_all(&mut self) {
        for entry in self.entries.values_mut() {
            if matches!(entry.phase, Phase::Running) {
                entry.phase = Phase::Stopping { is_given_back: true };
                entry.stop.cancel();
                entry.feedback.close();
                self.n_running -= 1;
            }
        }
    }

    /// How many tasks run.
    pub(crate) fn n_running(&self) -> usize {
        self.n_running
    }

    /// Whether nothing is under way.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty()
    }

    /// The leases that are held.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &str> {
        let is_held = |entry: &&Entry| !matches!(entry.phase, Phase::Stopping { .. });
        self.entries.values().filter(is_held).map(|entry| entry.errand.lease_id.as_str())
    }
}

#[cfg(test)]
mod tests;
