//! What is under way: which leases run, what may start, what has to stop.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Number};
use super::history::History;
use crate::executor::Outcome;
use crate::feedback::FeedbackSink;
use crate::next::ChainPlace;

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

/// An errand that was taken.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) errand: Errand,
    /// Where it stands in a chain of middlewares, if in any.
    pub(crate) place: Option<Arc<ChainPlace>>,
    pub(crate) feedback: FeedbackSink,
    pub(crate) started: Instant,
    pub(crate) phase: Phase,
    /// It called the next in line before: its slot may have been given away meanwhile, and so it
    /// is the one that is too many.
    has_called: bool,
    stop: CancellationToken,
}

/// ```text
/// Queued    --> Running    there is a slot
/// Queued    --> (gone)     its lease is lost, or the worker leaves
/// Running   --> Calling    it waits for the next in line, and gives its slot away
/// Calling   --> Returning  the next in line has come to its end
/// Returning --> Running    there is a slot
/// Running, Calling, Returning --> Ended      the work is over
/// Running, Calling, Returning --> Stopping   its lease is lost, or the worker leaves
/// Stopping  --> (gone)     the work is over
/// Ended     --> (gone)     all it said was sent, and it is reported
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// It begins when there is a slot.
    Queued(Box<Attempt>),
    /// The work goes on.
    Running,
    /// The work waits for the next in line, and has no slot.
    Calling {
        /// How many calls have no answer yet.
        n_open: usize,
    },
    /// The work goes on when there is a slot.
    Returning,
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

/// Who was given a slot.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// One that comes back from the next in line.
    Back(Number),
    /// One that begins.
    Start(Box<Attempt>),
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
    /// Who waits for a slot to go on.
    returning: VecDeque<Number>,
    /// Who waits for a slot to begin.
    queued: VecDeque<Number>,
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
            returning: VecDeque::new(),
            queued: VecDeque::new(),
            next: 0,
            history: History::default(),
        }
    }

    /// Whether an errand is taken. The server keeps to the limits too; this is a guard. Tasks that
    /// came back from the next in line may be too many: what was dispatched into their slots waits
    /// its turn here.
    pub(crate) fn check(&self, errand: &Errand) -> Result<(), Refusal> {
        let lease_id = errand.lease_id.as_str();
        if self.by_lease.contains_key(lease_id) || self.history.knows(lease_id) {
            return Err(Refusal::Known);
        }
        let refuse = |why| Err(Refusal::Because(CONCURRENCY_VIOLATION, why));
        let n_taken = self.n_running + self.queued.len();
        if n_taken >= self.limits.slots && self.n_fresh(|_| true) >= self.limits.slots {
            return refuse(format!("{n_taken} tasks run here, which is all"));
        }
        let is_same_type = |entry: &Entry| entry.errand.node_type == errand.node_type;
        if let Some(limit) = self.limits.per_type.get(&errand.node_type)
            && self.n_fresh(is_same_type) >= *limit
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

    /// Those that have a slot or wait for their first one, without those that came back.
    fn n_fresh(&self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let is_fresh = |entry: &&Entry| {
            !entry.has_called && matches!(entry.phase, Phase::Queued(_) | Phase::Running)
        };
        self.entries.values().filter(is_fresh).filter(|entry| is_meant(entry)).count()
    }

    /// The number of the next errand that starts.
    pub(crate) fn next_number(&self) -> Number {
        self.next
    }

    /// An errand is taken; it begins when it is admitted.
    pub(crate) fn add(
        &mut self,
        errand: Errand,
        place: Option<Arc<ChainPlace>>,
        attempt: Box<Attempt>,
    ) {
        let number = self.next;
        self.next += 1;
        self.queued.push_back(number);
        self.by_lease.insert(errand.lease_id.clone(), number);
        if let Some(key) = &errand.concurrency_key {
            self.keys.insert(key.clone(), number);
        }
        let (feedback, stop) = (attempt.feedback.clone(), attempt.stop.clone());
        let (started, phase, has_called) = (Instant::now(), Phase::Queued(attempt), false);
        let entry = Entry { errand, place, feedback, started, phase, has_called, stop };
        self.entries.insert(number, entry);
    }

    /// Gives a free slot to the next who waits for one: first those who come back, for others wait
    /// for them.
    pub(crate) fn admit(&mut self) -> Option<Admitted> {
        while self.n_running < self.limits.slots {
            let number = self.returning.pop_front().or_else(|| self.queued.pop_front())?;
            // Whoever was stopped meanwhile left its place in the line empty.
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            match std::mem::replace(&mut entry.phase, Phase::Running) {
                Phase::Returning => {
                    self.n_running += 1;
                    return Some(Admitted::Back(number));
                }
                Phase::Queued(attempt) => {
                    self.n_running += 1;
                    entry.started = Instant::now();
                    return Some(Admitted::Start(attempt));
                }
                other => entry.phase = other,
            }
        }
        None
    }

    /// The work calls the next in line. `false` if it has no business to do so any more.
    pub(crate) fn wait(&mut self, number: Number) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let n_open = match entry.phase {
            Phase::Running => {
                self.n_running -= 1;
                1
            }
            Phase::Calling { n_open } => n_open + 1,
            // It went on without waiting for its slot.
            Phase::Returning => 1,
            Phase::Queued(_) | Phase::Stopping { .. } | Phase::Ended { .. } => return false,
        };
        entry.phase = Phase::Calling { n_open };
        entry.has_called = true;
        true
    }

    /// A call was answered. `true` if the work hears it at once; otherwise when it has a slot.
    pub(crate) fn answered(&mut self, number: Number) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let Phase::Calling { n_open } = entry.phase else { return false };
        if n_open > 1 {
            entry.phase = Phase::Calling { n_open: n_open - 1 };
            return true;
        }
        entry.phase = Phase::Returning;
        self.returning.push_back(number);
        false
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
            Phase::Running | Phase::Calling { .. } | Phase::Returning => {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.feedback.finish();
                entry.phase = Phase::Ended { outcome, duration: entry.started.elapsed() };
                None
            }
            // What has not begun cannot end.
            Phase::Queued(_) | Phase::Ended { .. } => None,
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
            Phase::Running | Phase::Calling { .. } | Phase::Returning => {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.phase = Phase::Stopping { is_given_back: false };
                entry.stop.cancel();
            }
            Phase::Stopping { .. } => entry.phase = Phase::Stopping { is_given_back: false },
            Phase::Queued(_) | Phase::Ended { .. } => {
                let key = entry.errand.concurrency_key.take();
                key.map(|key| self.keys.remove(&key));
                self.remove(number);
            }
        }
        true
    }

    /// The time is up: all work stops, and the server is told so when it has. Gives what has not
    /// begun.
    pub(crate) fn give_back_all(&mut self) -> Vec<Errand> {
        for entry in self.entries.values_mut() {
            if matches!(entry.phase, Phase::Running | Phase::Calling { .. } | Phase::Returning) {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.phase = Phase::Stopping { is_given_back: true };
                entry.stop.cancel();
                entry.feedback.close();
            }
        }
        let queued = std::mem::take(&mut self.queued);
        let never_begun = queued.into_iter().filter_map(|number| self.remove(number));
        let mut errands = Vec::new();
        for entry in never_begun {
            errands.push(entry.errand);
        }
        for key in errands.iter().filter_map(|errand| errand.concurrency_key.as_ref()) {
            self.keys.remove(key);
        }
        errands
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
