//! Which workers were given work of which run, so that they can be told what becomes of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use coordinator::{
    Answer, BoundPackage, Change, Effect, Grant, RestoredRun, RunBindings, RunChange, Step,
    TaskRecord, TaskState,
};
use model::{RunId, TaskId, WorkerId};
use protocol::session::payload::run_rebind::{Rebind, RebindMode, ReboundWork};

use crate::sessions::Notice;

/// Packages that one worker is told of with one rebind, at most.
pub(crate) const REBOUND_TOLD_MAX: usize = 256;

/// The workers of all live runs of a tenant.
#[derive(Debug, Default)]
pub(crate) struct Crews {
    runs: HashMap<RunId, BTreeSet<WorkerId>>,
}

impl Crews {
    /// As far as the tasks tell, after a restart.
    pub(crate) fn restored(tasks: &[TaskRecord], runs: &[RestoredRun]) -> Self {
        let mut crews = Self::default();
        for task in tasks.iter().chain(runs.iter().flat_map(|run| &run.settled)) {
            let Some(link) = &task.link else { continue };
            let holder = match &task.progress.state {
                TaskState::Leased(lease) => Some(&lease.holder),
                TaskState::Settled(settlement) => settlement.holder.as_ref(),
                TaskState::Waiting { .. } | TaskState::Ready => None,
            };
            let former = task.ended_attempts.iter().map(|attempt| &attempt.worker);
            for worker in former.chain(holder) {
                crews.add(link.run, worker);
            }
        }
        crews
    }

    /// Notes who was given what; gives who is to be told what as soon as it is a fact.
    pub(crate) fn take(&mut self, step: &Step) -> Vec<(WorkerId, Notice)> {
        let granted: HashMap<TaskId, RunId> =
            step.effects.iter().flat_map(grants).filter_map(of_run).collect();
        if !granted.is_empty() {
            for change in &step.changes {
                let Some(run) = granted.get(&change.task()) else { continue };
                if let (Change::LeaseGranted { .. }, TaskState::Leased(lease)) =
                    (change, &change.progress().state)
                {
                    self.add(*run, &lease.holder);
                }
            }
        }
        let mut words = Vec::new();
        for change in &step.runs {
            match change {
                RunChange::RunSettled { run, .. } => {
                    let crew = self.runs.remove(run).into_iter().flatten();
                    words.extend(crew.map(|worker| (worker, Notice::RunEnded(*run))));
                }
                RunChange::Rebound { run, bindings } => words.extend(rebound(*run, bindings)),
                RunChange::RunStarted(_)
                | RunChange::RunBegan { .. }
                | RunChange::FrameOpened { .. }
                | RunChange::FrameClosed { .. }
                | RunChange::NodeEnded { .. } => {}
            }
        }
        words
    }

    fn add(&mut self, run: RunId, worker: &WorkerId) {
        let crew = self.runs.entry(run).or_default();
        if !crew.contains(worker) {
            crew.insert(worker.clone());
        }
    }
}

/// Those whose work a person just gave away, and those who got it.
fn rebound(run: RunId, bindings: &RunBindings) -> impl Iterator<Item = (WorkerId, Notice)> {
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
        (worker.clone(), Notice::Rebound(Box::new(rebind)))
    })
}

fn work(bound: &BoundPackage) -> ReboundWork {
    let worker_name = bound.worker.as_ref().map(ToString::to_string);
    ReboundWork { package: bound.package.clone(), worker_name }
}

fn grants(effect: &Effect) -> &[Grant] {
    match effect {
        Effect::Answer { answer: Answer::Leases(grants), .. } => grants,
        Effect::Answer { .. } | Effect::Load { .. } => &[],
    }
}

fn of_run(grant: &Grant) -> Option<(TaskId, RunId)> {
    grant.link.as_ref().map(|link| (grant.lease.task, link.run))
}
