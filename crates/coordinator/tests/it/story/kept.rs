//! What a store would keep: facts folded into records, by other code than the coordinator's.

use std::collections::BTreeMap;

use coordinator::{Change, LoadKey, Outcome, TaskRecord, TaskState, TenantChange, TenantSettings};
use model::TaskId;

/// Every task that ever was, as the facts left it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    records: BTreeMap<TaskId, TaskRecord>,
    pub(crate) settings: TenantSettings,
}

impl Kept {
    /// Takes a fact in, if it can be one.
    pub(crate) fn keep(&mut self, change: &Change) {
        let id = change.task();
        if let Change::TaskSubmitted(record) = change {
            let before = self.records.insert(id, (**record).clone());
            assert!(before.is_none(), "{id} is submitted once");
            return;
        }
        let record = self.records.get_mut(&id).expect("facts are about submitted tasks");
        let before = record.progress.clone();
        match change {
            Change::TaskRequeued(requeued) => {
                assert!(is_settled(&before.state), "only a settled task is requeued");
                assert_ne!(outcome(&before.state), Some(Outcome::Completed));
                *record = (**requeued).clone();
            }
            Change::TaskSubmitted(_)
            | Change::LeaseGranted { .. }
            | Change::AttemptEnded { .. }
            | Change::LossForgiven { .. }
            | Change::TaskReleased { .. }
            | Change::TaskSettled { .. } => {
                assert!(!is_settled(&before.state), "a settled task stays as it is");
                record.progress = change.progress().clone();
                record.ended_attempts.extend(change.ended_attempt().cloned());
            }
        }
        let is_grant = matches!(change, Change::LeaseGranted { .. });
        let epoch = before.epoch + u32::from(is_grant);
        assert_eq!(record.progress.epoch, epoch, "the epoch rises by one with each grant");
    }

    /// Takes a fact about the tenant in, if it can be one.
    pub(crate) fn keep_tenant(&mut self, change: &TenantChange) {
        let TenantSettings { pauses, drains, verified, schedules } = &mut self.settings;
        match change.clone() {
            TenantChange::QueuePaused { queue, pause } => drop(pauses.insert(queue, pause)),
            TenantChange::QueueResumed { queue } => {
                assert!(pauses.remove(&queue).is_some(), "only a paused queue is resumed");
            }
            TenantChange::WorkerDrained { worker, drain } => drop(drains.insert(worker, drain)),
            TenantChange::WorkerUndrained { worker } => {
                assert!(drains.remove(&worker).is_some(), "only a drained worker is undrained");
            }
            TenantChange::ToolVerified { worker, tool, verified: said } => {
                verified.entry(worker).or_default().insert(tool, said);
            }
            TenantChange::ToolsForgotten { worker } => {
                assert!(verified.remove(&worker).is_some(), "only what was verified is forgotten");
            }
            TenantChange::ScheduleSet(record) => drop(schedules.insert(record.id, *record)),
            TenantChange::ScheduleRemoved { schedule } => {
                assert!(schedules.remove(&schedule).is_some(), "only what is there is removed");
            }
            TenantChange::ScheduleFired { schedule, progress }
            | TenantChange::ScheduleWaits { schedule, progress } => {
                let record = schedules.get_mut(&schedule).expect("only what is there goes on");
                record.progress = progress;
            }
        }
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&TaskRecord> {
        self.records.get(&task)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &TaskRecord> {
        self.records.values()
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &TaskRecord> {
        self.all().filter(|record| !is_settled(&record.progress.state))
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.records.keys().next_back().map_or(0, |task| task.number() + 1)
    }

    pub(crate) fn find(&self, keys: &[LoadKey]) -> Vec<(LoadKey, TaskRecord)> {
        let find = |key: &LoadKey| match key {
            LoadKey::Task(task) => self.records.get(task),
            LoadKey::Idempotency(key) => self
                .all()
                .find(|record| record.idempotency.as_ref().is_some_and(|mark| mark.key == *key)),
        };
        keys.iter().filter_map(|key| Some((key.clone(), find(key)?.clone()))).collect()
    }
}

pub(crate) fn is_settled(state: &TaskState) -> bool {
    outcome(state).is_some()
}

fn outcome(state: &TaskState) -> Option<Outcome> {
    match state {
        TaskState::Settled(settlement) => Some(settlement.outcome),
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => None,
    }
}
