//! Questions that need a settled task from the store wait here until the shell has read it.
//!
//! A fact that was read may be stale when it arrives: the task may have been requeued and settled
//! again meanwhile. So while any load is outstanding, what settles is remembered, and memory is
//! asked before the facts.

use std::collections::{BTreeMap, BTreeSet};

use model::{IdempotencyKey, NewTask, TaskId, Timestamp};

use crate::change::TaskRecord;
use crate::command::{Question, Renewal, Ticket};
use crate::effect::{LoadKey, LoadTicket};
use crate::state::State;

/// Loads that are under way, and what settled since they began.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    last: u64,
    outstanding: BTreeMap<LoadTicket, (Ticket, Question)>,
    /// Whether the question that is answered may come back to a task that it settles.
    is_holding: bool,
    /// What settled while a load was outstanding, with the newest load at that time.
    recent: BTreeMap<TaskId, (LoadTicket, TaskRecord)>,
    recent_by_key: BTreeMap<IdempotencyKey, TaskId>,
}

impl Loads {
    /// Whether what settles now must be remembered.
    pub(crate) fn remembers(&self) -> bool {
        self.is_holding || !self.outstanding.is_empty()
    }

    /// Until `let_go`, what settles is remembered.
    pub(crate) fn hold(&mut self) {
        self.is_holding = true;
    }

    pub(crate) fn let_go(&mut self) {
        self.is_holding = false;
        self.forget_old();
    }

    pub(crate) fn begin(&mut self, asked: (Ticket, Question)) -> LoadTicket {
        self.last += 1;
        let load = LoadTicket(self.last);
        self.outstanding.insert(load, asked);
        load
    }

    /// The question that waited, if the load is known.
    pub(crate) fn end(&mut self, load: LoadTicket) -> Option<(Ticket, Question)> {
        self.outstanding.remove(&load)
    }

    /// Drops what no outstanding load can be stale about.
    pub(crate) fn forget_old(&mut self) {
        let Some(oldest) = self.outstanding.keys().next().copied() else {
            self.recent.clear();
            self.recent_by_key.clear();
            return;
        };
        self.recent.retain(|_, (newest, _)| *newest >= oldest);
        let recent = &self.recent;
        self.recent_by_key.retain(|_, task| recent.contains_key(task));
    }

    pub(crate) fn remember(&mut self, record: TaskRecord) {
        if let Some(mark) = &record.idempotency {
            self.recent_by_key.insert(mark.key.clone(), record.id);
        }
        self.recent.insert(record.id, (LoadTicket(self.last), record));
    }
}

/// What the store was asked for and knew.
#[derive(Debug, Default)]
pub(crate) struct Facts(BTreeMap<LoadKey, TaskRecord>);

impl FromIterator<(LoadKey, TaskRecord)> for Facts {
    fn from_iter<I: IntoIterator<Item = (LoadKey, TaskRecord)>>(found: I) -> Self {
        Self(found.into_iter().collect())
    }
}

impl State {
    /// What must be read from the store before a question can be answered.
    ///
    /// If anything must be read, then all that is settled: what is remembered now may be forgotten
    /// when the read comes back.
    pub(crate) fn missing_for(&self, question: &Question) -> Vec<LoadKey> {
        let settled = self.settled_keys(question);
        let is_at_hand = |key: &LoadKey| match key {
            LoadKey::Task(task) => self.loads.recent.contains_key(task),
            LoadKey::Idempotency(key) => self.loads.recent_by_key.contains_key(key),
        };
        if settled.iter().all(is_at_hand) { Vec::new() } else { settled }
    }

    /// What a question names and memory has not among its live tasks.
    fn settled_keys(&self, question: &Question) -> Vec<LoadKey> {
        let by_task = |task: TaskId| self.could_be_settled(task).then_some(LoadKey::Task(task));
        match question {
            Question::Submit { tasks } => {
                let mark_of = |task: &NewTask| {
                    let mark = task.idempotency.as_ref()?;
                    Some(LoadKey::Idempotency(mark.key.clone()))
                };
                let new = || tasks.iter().filter(|task| !self.is_live_by_mark(task));
                let mut keys: Vec<LoadKey> = new().filter_map(mark_of).collect();
                keys.extend(self.settled_dependencies(new()));
                keys
            }
            Question::Report { reports } => {
                reports.iter().filter_map(|report| by_task(report.lease.task)).collect()
            }
            Question::Heartbeat { leases: Renewal::Listed(leases), .. } => {
                leases.iter().filter_map(|lease| by_task(lease.task)).collect()
            }
            Question::Requeue { task } => by_task(*task).into_iter().collect(),
            // All others are about live tasks, runs, workers and the tenant.
            _ => Vec::new(),
        }
    }

    fn is_live_by_mark(&self, task: &NewTask) -> bool {
        let mark = task.idempotency.as_ref();
        mark.is_some_and(|mark| self.idempotency.contains_key(&mark.key))
    }

    /// The tasks that new ones are to run after and that are not live, each once.
    fn settled_dependencies<'t>(
        &self,
        new: impl Iterator<Item = &'t NewTask>,
    ) -> BTreeSet<LoadKey> {
        let tasks = new.flat_map(|task| &task.after).copied();
        tasks.filter(|task| self.could_be_settled(*task)).map(LoadKey::Task).collect()
    }

    /// A settled task, from memory if it settled lately, else from what was read.
    pub(crate) fn settled<'a>(&'a self, task: TaskId, facts: &'a Facts) -> Option<&'a TaskRecord> {
        let recent = self.loads.recent.get(&task).map(|(_, record)| record);
        recent.or_else(|| facts.0.get(&LoadKey::Task(task)))
    }

    /// A settled task by its submitter's key.
    pub(crate) fn settled_by_key<'a>(
        &'a self,
        key: &IdempotencyKey,
        facts: &'a Facts,
    ) -> Option<&'a TaskRecord> {
        match self.loads.recent_by_key.get(key) {
            Some(task) => self.loads.recent.get(task).map(|(_, record)| record),
            None => facts.0.get(&LoadKey::Idempotency(key.clone())),
        }
    }
}

/// Limit: requests that wait for a task's end.
pub const WATCHES_MAX: usize = 100_000;

/// The watchers, by ticket and by what they watch.
#[derive(Debug)]
pub(crate) struct Watches<K> {
    by_ticket: BTreeMap<Ticket, (K, Timestamp)>,
    by_subject: BTreeMap<K, Vec<Ticket>>,
}

impl<K> Default for Watches<K> {
    fn default() -> Self {
        Self { by_ticket: BTreeMap::new(), by_subject: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Watches<K> {
    pub(crate) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(crate) fn add(&mut self, ticket: Ticket, subject: K, until: Timestamp) {
        let before = self.by_ticket.insert(ticket, (subject, until));
        assert!(before.is_none(), "a ticket watches one thing");
        self.by_subject.entry(subject).or_default().push(ticket);
    }

    /// Forgets a watcher; gives the moment at which its deadline stands.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Timestamp> {
        let (subject, until) = self.by_ticket.remove(&ticket)?;
        let tickets = self.by_subject.get_mut(&subject).expect("what is watched has watchers");
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.by_subject.remove(&subject);
        }
        Some(until)
    }

    /// Takes everyone who waits for this one.
    pub(crate) fn take(&mut self, subject: K) -> Vec<(Ticket, Timestamp)> {
        let tickets = self.by_subject.remove(&subject).unwrap_or_default();
        let until = |ticket: &Ticket| self.by_ticket.remove(ticket).expect("known by ticket").1;
        let moments: Vec<_> = tickets.iter().map(until).collect();
        tickets.into_iter().zip(moments).collect()
    }
}
