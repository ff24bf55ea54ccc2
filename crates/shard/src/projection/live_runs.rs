//! Which live task belongs to which step of which run.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::{RestoredRun, RunRecord, TaskRecord, TaskState};
use model::{LeaseId, NodeLink, RunId, TaskId, Timestamp};

use super::event::RunScope;

/// The live runs of a tenant and their live tasks. Tasks of no run are not here.
#[derive(Debug, Default)]
pub(super) struct LiveRuns {
    runs: BTreeMap<RunId, LiveRun>,
    tasks: BTreeMap<TaskId, LiveTask>,
    /// The run that was asked for last: neighbouring facts are mostly of one run.
    last: Option<Arc<RunScope>>,
}

#[derive(Debug)]
struct LiveRun {
    scope: Arc<RunScope>,
    started_at: Option<Timestamp>,
}

/// A task of a run.
#[derive(Debug)]
pub(super) struct LiveTask {
    pub(super) link: Arc<NodeLink>,
    /// The newest lease, if its worker has not confirmed it.
    unconfirmed: Option<u32>,
}

impl LiveRuns {
    /// What a restart brings back.
    pub(super) fn restored(tasks: &[TaskRecord], runs: &[RestoredRun]) -> Self {
        let mut live = Self::default();
        for run in runs {
            live.add_run(&run.record);
            if !run.parts.tasks.is_empty() {
                live.begin(run.record.id, run.record.created_at);
            }
        }
        for task in tasks {
            let Some(link) = &task.link else { continue };
            live.add_task(task.id, link);
            if task.progress.epoch > 0 {
                live.begin(link.run, task.created_at);
            }
            if let TaskState::Leased(lease) = &task.progress.state {
                live.granted(task.id, task.progress.epoch, lease.confirm_by.is_some());
            }
        }
        live
    }

    pub(super) fn add_run(&mut self, record: &RunRecord) -> Arc<RunScope> {
        let client = record.about.client_id.as_deref().map(Box::from);
        let scope = Arc::new(RunScope { run: record.id, client });
        let run = LiveRun { scope: Arc::clone(&scope), started_at: None };
        self.runs.insert(record.id, run);
        scope
    }

    /// The run has come to its end; gives when it began.
    pub(super) fn remove_run(&mut self, run: RunId) -> Option<(Arc<RunScope>, Option<Timestamp>)> {
        self.last = None;
        self.runs.remove(&run).map(|run| (run.scope, run.started_at))
    }

    /// A node of the run begins. Gives whether it is the first.
    pub(super) fn begin(&mut self, run: RunId, at: Timestamp) -> bool {
        match self.runs.get_mut(&run) {
            Some(run) if run.started_at.is_none() => {
                run.started_at = Some(at);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn scope(&mut self, run: RunId) -> Option<Arc<RunScope>> {
        if let Some(last) = &self.last
            && last.run == run
        {
            return Some(Arc::clone(last));
        }
        let scope = Arc::clone(&self.runs.get(&run)?.scope);
        self.last = Some(Arc::clone(&scope));
        Some(scope)
    }

    pub(super) fn add_task(&mut self, task: TaskId, link: &Arc<NodeLink>) {
        let live = LiveTask { link: Arc::clone(link), unconfirmed: None };
        self.tasks.insert(task, live);
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    pub(super) fn remove_task(&mut self, task: TaskId) -> Option<Arc<NodeLink>> {
        self.tasks.remove(&task).map(|task| task.link)
    }

    pub(super) fn link(&self, task: TaskId) -> Option<Arc<NodeLink>> {
        self.tasks.get(&task).map(|task| Arc::clone(&task.link))
    }

    /// A worker was given the task.
    pub(super) fn granted(
        &mut self,
        task: TaskId,
        epoch: u32,
        wants_confirmation: bool,
    ) -> Option<Arc<NodeLink>> {
        let live = self.tasks.get_mut(&task)?;
        live.unconfirmed = wants_confirmation.then_some(epoch);
        Some(Arc::clone(&live.link))
    }

    /// The worker shows that it has the task. Gives its link if that was not known.
    pub(super) fn confirm(&mut self, lease: LeaseId) -> Option<Arc<NodeLink>> {
        let live = self.tasks.get_mut(&lease.task)?;
        live.unconfirmed.take_if(|epoch| *epoch == lease.epoch)?;
        Some(Arc::clone(&live.link))
    }
}
