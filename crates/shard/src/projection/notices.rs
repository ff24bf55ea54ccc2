//! What workers are told without having asked: leases that ended, and what became of runs that
//! they had work of.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::{
    Answer, BoundPackage, Change, Effect, Ending, Grant, LostAuthority, RestoredRun, RunBindings,
    RunChange, Step, TaskRecord, TaskState,
};
use model::{LeaseId, RunId, TaskId, WorkerId};
use protocol::session::payload::exec::{Rebind, RebindMode, ReboundWork};

use crate::sessions::Revoked;

/// Limit: packages that one worker is told of with one rebind, at most.
const REBOUND_TOLD_MAX: usize = 256;

/// What a worker is told.
#[derive(Debug)]
pub enum WorkerNotice {
    /// A lease is over.
    Revoked(Revoked),
    /// A run that the worker had work of has ended.
    RunEnded(RunId),
    /// A person gave the work of a run to another worker.
    Rebound(Box<Rebind>),
}

/// The lease that a fact ended although its holder said nothing.
pub(super) fn revoked(change: &Change) -> Option<(WorkerId, WorkerNotice)> {
    let attempt = change.ended_attempt()?;
    let why = match attempt.ending {
        Ending::Failed { .. } => return None,
        Ending::Expired | Ending::TimedOut | Ending::Undelivered => LostAuthority::Expired,
        Ending::Stopped => LostAuthority::TaskCancelled,
    };
    let lease = LeaseId { task: change.task(), epoch: attempt.epoch };
    Some((attempt.worker.clone(), WorkerNotice::Revoked(Revoked { lease, why })))
}

/// Which workers were given work of which live run.
#[derive(Debug, Default)]
pub(super) struct RunWorkers {
    runs: BTreeMap<RunId, BTreeSet<WorkerId>>,
}

impl RunWorkers {
    /// As far as the tasks tell, after a restart.
    pub(super) fn restored(tasks: &[TaskRecord], runs: &[RestoredRun]) -> Self {
        let mut workers = Self::default();
        for task in tasks.iter().chain(runs.iter().flat_map(|run| &run.parts.tasks)) {
            let Some(link) = &task.link else { continue };
            let holder = match &task.progress.state {
                TaskState::Leased(lease) => Some(&lease.holder),
                TaskState::Settled(settlement) => settlement.holder.as_ref(),
                TaskState::Waiting { .. } | TaskState::Ready => None,
            };
            let former = task.ended_attempts.iter().map(|attempt| &attempt.worker);
            for worker in former.chain(holder) {
                workers.add(link.run, worker);
            }
        }
        workers
    }

    /// Notes who was given what, and adds what workers are told of it.
    pub(super) fn observe(&mut self, step: &Step, notices: &mut Vec<(WorkerId, WorkerNotice)>) {
        self.note_grants(step);
        for change in &step.runs {
            match change {
                RunChange::RunSettled { run, .. } => {
                    let workers = self.runs.remove(run).into_iter().flatten();
                    notices.extend(workers.map(|worker| (worker, WorkerNotice::RunEnded(*run))));
                }
                RunChange::Rebound { run, bindings } => notices.extend(rebound(*run, bindings)),
                _ => {}
            }
        }
    }

    fn note_grants(&mut self, step: &Step) {
        let granted: BTreeMap<TaskId, RunId> =
            step.effects.iter().flat_map(grants).filter_map(of_run).collect();
        if granted.is_empty() {
            return;
        }
        for change in &step.changes {
            let Some(run) = granted.get(&change.task()) else { continue };
            if let (Change::LeaseGranted { .. }, TaskState::Leased(lease)) =
                (change, &change.progress().state)
            {
                self.add(*run, &lease.holder);
            }
        }
    }

    fn add(&mut self, run: RunId, worker: &WorkerId) {
        let workers = self.runs.entry(run).or_default();
        if !workers.contains(worker) {
            workers.insert(worker.clone());
        }
    }
}

/// Those whose work a person just gave away, and those who got it.
fn rebound(run: RunId, bindings: &RunBindings) -> impl Iterator<Item = (WorkerId, WorkerNotice)> {
    let at = bindings.bound.iter().map(|one| one.since).max();
    let changed = bindings.bound.iter().filter(|one| Some(one.since) == at);
    let mut concerned: BTreeMap<&WorkerId, Vec<ReboundWork>> = BTreeMap::new();
    for one in changed {
        for worker in one.worker.iter().chain(&one.moved_from) {
            let told = concerned.entry(worker).or_default();
            if told.len() < REBOUND_TOLD_MAX {
                told.push(work(one));
            }
        }
    }
    concerned.into_iter().map(move |(worker, told)| {
        let is_kept_from = bindings.kept_from.contains(worker);
        let mode = if is_kept_from { RebindMode::Drain } else { RebindMode::Switch };
        let rebind = Rebind { run_id: run.to_string(), mode, bindings: told };
        (worker.clone(), WorkerNotice::Rebound(Box::new(rebind)))
    })
}

fn work(bound: &BoundPackage) -> ReboundWork {
    let worker_name = bound.worker.as_ref().map(ToString::to_string);
    ReboundWork { package: bound.package.clone(), worker_name }
}

fn grants(effect: &Effect) -> &[Grant] {
    match effect {
        Effect::Answer { answer: Answer::Leases(grants), .. } => grants,
        Effect::Answer { .. } | Effect::Load { .. } | Effect::Prepare { .. } => &[],
    }
}

fn of_run(grant: &Grant) -> Option<(TaskId, RunId)> {
    grant.link.as_ref().map(|link| (grant.lease.task, link.run))
}
