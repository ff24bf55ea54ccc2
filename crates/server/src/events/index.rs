//! Which live task belongs to which node of which run: what a worker says of a task is told of its
//! node.

use std::collections::HashMap;
use std::sync::Arc;

use coordinator::{RestoredRun, TaskRecord};
use foldhash::fast::RandomState;
use model::{LeaseId, RunId, TaskId};
use protocol::rest::events::NodeStatusWord;
use shard::projection::{Event, News, RunScope};
use uuid::Uuid;

/// The live tasks of a tenant's runs, fed by the events of its shard.
#[derive(Debug, Default)]
pub(super) struct NodeIndex {
    tasks: HashMap<TaskId, IndexedTask, RandomState>,
}

#[derive(Debug)]
struct IndexedTask {
    run: Arc<RunScope>,
    step_id: Uuid,
    /// The lease of the newest output, and how many pieces of it were told.
    epoch: u32,
    n_deltas: u32,
}

impl NodeIndex {
    /// What a restart brings back.
    pub(super) fn restored(tasks: &[TaskRecord], runs: &[RestoredRun]) -> Self {
        let scope = |run: &RestoredRun| {
            let client = run.record.about.client_id.as_deref().map(Box::from);
            (run.record.id, Arc::new(RunScope { run: run.record.id, client }))
        };
        let scopes: HashMap<RunId, Arc<RunScope>, RandomState> = runs.iter().map(scope).collect();
        let mut index = Self::default();
        for task in tasks {
            if let Some(link) = &task.link
                && let Some(run) = scopes.get(&link.run)
            {
                index.add(task.id, run, link.step_id);
            }
        }
        index
    }

    /// Takes in what the events say of tasks.
    pub(super) fn observe(&mut self, events: &[Event]) {
        for event in events {
            let (News::Status(news), Some(run)) = (&event.news, &event.run) else { continue };
            let Some(task) = news.task else { continue };
            match news.status {
                NodeStatusWord::Queued | NodeStatusWord::Dispatching | NodeStatusWord::Running => {
                    self.add(task, run, news.step.id);
                }
                NodeStatusWord::Completed
                | NodeStatusWord::Failed
                | NodeStatusWord::Cancelled
                | NodeStatusWord::Skipped => drop(self.tasks.remove(&task)),
            }
        }
    }

    fn add(&mut self, task: TaskId, run: &Arc<RunScope>, step_id: Uuid) {
        let new = || IndexedTask { run: Arc::clone(run), step_id, epoch: 0, n_deltas: 0 };
        self.tasks.entry(task).or_insert_with(new);
    }

    /// The run and the node of a task.
    pub(super) fn node_of(&self, task: TaskId) -> Option<(Arc<RunScope>, Uuid)> {
        self.tasks.get(&task).map(|task| (Arc::clone(&task.run), task.step_id))
    }

    /// The place of the next piece of output under a lease.
    pub(super) fn next_delta(&mut self, lease: LeaseId) -> u32 {
        let Some(task) = self.tasks.get_mut(&lease.task) else { return 0 };
        if task.epoch != lease.epoch {
            (task.epoch, task.n_deltas) = (lease.epoch, 0);
        }
        task.n_deltas += 1;
        task.n_deltas
    }
}
