//! Which workers were given work of which run, so that they can be told when it has ended.

use std::collections::{BTreeSet, HashMap};

use coordinator::{
    Answer, Change, Effect, Grant, RestoredRun, RunChange, Step, TaskRecord, TaskState,
};
use model::{RunId, TaskId, WorkerId};

/// A run that has ended, and who had work of it.
pub(crate) type EndedRun = (RunId, BTreeSet<WorkerId>);

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

    /// Notes who was given what; gives the runs that ended.
    pub(crate) fn take(&mut self, step: &Step) -> Vec<EndedRun> {
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
        let ended = step.runs.iter().filter_map(|change| match change {
            RunChange::RunSettled { run, .. } => self.runs.remove_entry(run),
            RunChange::RunStarted(_)
            | RunChange::RunBegan { .. }
            | RunChange::Rebound { .. }
            | RunChange::FrameOpened { .. }
            | RunChange::FrameClosed { .. }
            | RunChange::NodeEnded { .. } => None,
        });
        ended.collect()
    }

    fn add(&mut self, run: RunId, worker: &WorkerId) {
        let crew = self.runs.entry(run).or_default();
        if !crew.contains(worker) {
            crew.insert(worker.clone());
        }
    }
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
