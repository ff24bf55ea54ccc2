//! What clients outside were told; it must be in the durable state, now and after every restart.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::{Judgement, LostAuthority, Outcome, SubmittedTask, Verdict};
use model::{LeaseId, Report, ReportKey, ReportedOutcome, TaskId};

use crate::oracle::model::{LeaseEnd, Model, Place};
use crate::oracle::notes::Notes;

/// A verdict without its reason: the part that must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Committed,
    Cancelled,
    Rejected,
}

impl From<Verdict> for Word {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Committed => Self::Committed,
            Verdict::Cancelled(_) => Self::Cancelled,
            Verdict::Rejected(_) => Self::Rejected,
        }
    }
}

/// Everything that was answered.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    submitted: BTreeMap<TaskId, u64>,
    made_of: BTreeMap<u64, BTreeSet<TaskId>>,
    verdicts: BTreeMap<(LeaseId, ReportKey), Word>,
    completed: BTreeMap<TaskId, (LeaseId, ReportKey)>,
    granted: BTreeMap<LeaseId, u64>,
    lost: BTreeSet<LeaseId>,
    stopped: BTreeMap<TaskId, u32>,
    requeued: BTreeMap<TaskId, u32>,
    kills: BTreeMap<(TaskId, u32), u32>,
}

impl Journal {
    /// A task became durable. A wish with an idempotency key is one task, however often its
    /// submitter had to ask.
    pub(crate) fn task_made(
        &mut self,
        intent: u64,
        is_keyed: bool,
        task: TaskId,
        notes: &mut Notes,
    ) {
        let made = self.made_of.entry(intent).or_default();
        made.insert(task);
        notes.demand(!is_keyed || made.len() == 1, "P1", || {
            format!("wish {intent} has an idempotency key and became {} tasks", made.len())
        });
    }

    /// A submitter was told that its task exists.
    pub(crate) fn submitted(
        &mut self,
        intent: u64,
        made: SubmittedTask,
        durable: &Model,
        notes: &mut Notes,
    ) {
        self.submitted.insert(made.task, intent);
        check_submitted(made.task, intent, durable, notes);
    }

    /// A worker received a lease.
    pub(crate) fn granted(
        &mut self,
        lease: LeaseId,
        process: u64,
        durable: &Model,
        notes: &mut Notes,
    ) {
        let before = self.granted.insert(lease, process);
        let (number, epoch) = (lease.task.number(), lease.epoch);
        notes.demand(before.is_none(), "P4", || {
            format!("task {number} epoch {epoch} was given out twice")
        });
        notes.demand(durable.lease(lease).is_some(), "P1", || {
            format!("task {number} epoch {epoch} was given out, but the store knows no such lease")
        });
    }

    /// A worker was told what its report is worth.
    pub(crate) fn verdict(
        &mut self,
        report: &Report,
        judgement: Judgement,
        durable: &Model,
        notes: &mut Notes,
    ) {
        let word = Word::from(judgement.verdict);
        let before = *self.verdicts.entry((report.lease, report.key)).or_insert(word);
        let (number, epoch) = (report.lease.task.number(), report.lease.epoch);
        notes.demand(before == word, "P3", || {
            format!("the same report of task {number} epoch {epoch} got {before:?}, then {word:?}")
        });
        match judgement.verdict {
            Verdict::Committed => self.committed(report, durable, notes),
            Verdict::Cancelled(reason) => self.told_lost(report.lease, reason),
            Verdict::Rejected(_) => {}
        }
    }

    /// The ack of a result said COMMITTED.
    pub(crate) fn committed_by_frame(
        &mut self,
        report: &Report,
        durable: &Model,
        notes: &mut Notes,
    ) {
        let judgement = Judgement { verdict: Verdict::Committed, task_state: None };
        self.verdict(report, judgement, durable, notes);
    }

    /// The ack of a result said CANCELLED.
    pub(crate) fn lost_by_frame(&mut self, lease: LeaseId) {
        self.lost.insert(lease);
    }

    fn committed(&mut self, report: &Report, durable: &Model, notes: &mut Notes) {
        let (lease, key) = (report.lease, report.key);
        let number = lease.task.number();
        check_committed(lease, key, durable, notes);
        let ReportedOutcome::Completed { result, .. } = &report.outcome else { return };
        let first = *self.completed.entry(lease.task).or_insert((lease, key));
        notes.demand(first == (lease, key), "P2", || {
            format!(
                "task {number} has two committed results: epochs {} and {}",
                first.0.epoch, lease.epoch
            )
        });
        let kept = durable.tasks.get(&lease.task).and_then(|task| task.result.as_ref());
        notes.demand(kept == Some(result), "P2", || {
            format!("the durable result of task {number} is not the committed one")
        });
    }

    /// Someone was told that a lease has ended.
    pub(crate) fn told_lost(&mut self, lease: LeaseId, reason: LostAuthority) {
        if reason != LostAuthority::Reported {
            self.lost.insert(lease);
        }
    }

    /// A report under a lease counts from now on.
    pub(crate) fn check_commit(&self, lease: LeaseId, notes: &mut Notes) {
        let (number, epoch) = (lease.task.number(), lease.epoch);
        notes.demand(!self.lost.contains(&lease), "P4", || {
            format!("task {number} epoch {epoch} commits, after someone was told that it had ended")
        });
    }

    pub(crate) fn stopped(&mut self, task: TaskId, durable: &Model, notes: &mut Notes) {
        *self.stopped.entry(task).or_default() += 1;
        self.check_people(task, durable, notes);
    }

    pub(crate) fn requeued(&mut self, task: TaskId, durable: &Model, notes: &mut Notes) {
        *self.requeued.entry(task).or_default() += 1;
        self.check_people(task, durable, notes);
    }

    fn check_people(&self, task: TaskId, durable: &Model, notes: &mut Notes) {
        let told = |map: &BTreeMap<TaskId, u32>| map.get(&task).copied().unwrap_or(0);
        let kept = durable.tasks.get(&task).map_or((0, 0), |task| (task.stops, task.generation));
        let (stops, requeues) = (told(&self.stopped), told(&self.requeued));
        notes.demand(stops <= kept.0 && requeues <= kept.1, "P1", || {
            let number = task.number();
            format!("task {number}: told {stops} stops and {requeues} requeues, kept {kept:?}")
        });
    }

    /// A task has killed the worker that started it.
    pub(crate) fn killed(&mut self, lease: LeaseId, durable: &Model, notes: &mut Notes) {
        let generation = durable.lease(lease).map_or(0, |lease| lease.generation);
        let kills = self.kills.entry((lease.task, generation)).or_default();
        *kills += 1;
        let number = lease.task.number();
        // A lie, a clone or a message that was long on its way can make a dead worker look slow;
        // then the row of lost workers begins anew.
        let rows = 1 + durable.tasks.get(&lease.task).map_or(0, |task| task.forgiven);
        notes.demand(*kills <= 3 * rows, "P6", || {
            format!("task {number} killed its {kills}. worker")
        });
    }

    /// Everything that was answered is durable.
    pub(crate) fn check_all(&self, durable: &Model, notes: &mut Notes) {
        for (task, intent) in &self.submitted {
            check_submitted(*task, *intent, durable, notes);
        }
        for ((lease, key), word) in &self.verdicts {
            if *word == Word::Committed {
                check_committed(*lease, *key, durable, notes);
            }
        }
        for task in self.stopped.keys().chain(self.requeued.keys()) {
            self.check_people(*task, durable, notes);
        }
        for task in self.completed.keys() {
            let place = durable.tasks.get(task).map(|task| task.place);
            notes.demand(place == Some(Place::Settled(Outcome::Completed)), "P2", || {
                format!("task {} was completed and is {place:?}", task.number())
            });
        }
    }
}

fn check_submitted(task: TaskId, intent: u64, durable: &Model, notes: &mut Notes) {
    let kept = durable.tasks.get(&task).map(|task| task.intent);
    notes.demand(kept == Some(intent), "P1", || {
        let number = task.number();
        format!("wish {intent} was acknowledged as task {number}, the store has {kept:?} there")
    });
}

fn check_committed(lease: LeaseId, key: ReportKey, durable: &Model, notes: &mut Notes) {
    let end = durable.lease(lease).and_then(|lease| lease.end);
    notes.demand(end == Some(LeaseEnd::Committed(key)), "P1", || {
        let (number, epoch) = (lease.task.number(), lease.epoch);
        format!("task {number} epoch {epoch} was answered COMMITTED, the store has {end:?}")
    });
}
