//! Tasks that wait for others: released by the last completion, failed by the first failure.
//!
//! Whether a dependency is met is never stored. A dependency that is not live is completed: one
//! that came to another end took those that waited for it along, in the same commit. So a restart
//! counts the live ones, and is right.

use std::collections::VecDeque;

use model::{AFTER_MAX, Failure, LeaseId, NewTask, TaskId};

use super::record::Task;
use crate::change::{Change, Outcome, Progress, Settlement, TaskState};
use crate::coordinator::Decision;
use crate::effect::Refusal;
use crate::state::State;

/// The code of a task that failed because another one did.
const DEPENDENCY_FAILED: &str = "E.TASK.DEPENDENCY";

impl State {
    /// The dependencies of a task that are not completed.
    pub(crate) fn live_dependencies(&self, task: &Task) -> impl Iterator<Item = TaskId> {
        let is_waiting = task.is_after();
        let live = move |other: &TaskId| is_waiting && self.tasks.get(*other).is_some();
        task.after().iter().copied().filter(live)
    }

    /// Whether one of these tasks may settle without a word about it: it waits for another one, or
    /// it belongs to a run, which may end with another one.
    pub(crate) fn any_may_end_with_another(&self, tasks: impl Iterator<Item = TaskId>) -> bool {
        if self.dependents.is_empty() && self.runs.live.is_empty() {
            return false;
        }
        let mut tasks = tasks.filter_map(|task| self.tasks.get(task)).peekable();
        let is_alone = |task: &Task| !task.is_after() && task.link().is_none();
        let first = tasks.next();
        tasks.peek().is_some() && first.into_iter().chain(tasks).any(|task| !is_alone(task))
    }

    /// Whether this is the lease under which a task is held right now.
    pub(crate) fn is_leased(&self, lease: LeaseId) -> bool {
        let task = self.tasks.get(lease.task);
        task.is_some_and(|task| {
            task.progress.epoch == lease.epoch
                && matches!(task.progress.state, TaskState::Leased(_))
        })
    }

    /// Enters a task with those that it waits for. `false` when there are none.
    pub(crate) fn wait_for_others(&mut self, id: TaskId) -> bool {
        let task = self.tasks.get(id).expect("linked tasks are live");
        let live: Vec<TaskId> = self.live_dependencies(task).collect();
        for other in &live {
            assert!(*other < id, "a task waits only for older ones");
            self.dependents.entry(*other).or_default().insert(id);
        }
        self.set_unmet(id, live.len());
        !live.is_empty()
    }

    pub(crate) fn stop_waiting_for_others(&mut self, id: TaskId) {
        let task = self.tasks.get(id).expect("unlinked tasks are live");
        for other in task.after().to_vec() {
            let Some(dependents) = self.dependents.get_mut(&other) else { continue };
            dependents.remove(&id);
            if dependents.is_empty() {
                self.dependents.remove(&other);
            }
        }
        self.set_unmet(id, 0);
    }

    fn set_unmet(&mut self, id: TaskId, unmet: usize) {
        self.tasks.get_mut(id).expect("live").set_unmet(unmet);
    }

    /// One of the tasks that it waits for is completed. Gives the task if that was the last.
    fn meet(&mut self, id: TaskId) -> Option<&Task> {
        let unmet = self.tasks.get(id).expect("waiting tasks are live").unmet() - 1;
        self.set_unmet(id, unmet);
        self.tasks.get(id).filter(|_| unmet == 0)
    }
}

/// What a new task waits for.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// All of them, oldest first.
    pub(crate) after: Vec<TaskId>,
    /// Whether one of them is live.
    pub(crate) is_blocked: bool,
    /// One that came to another end than `Completed`.
    pub(crate) failed: Option<(TaskId, Outcome)>,
}

impl Decision<'_> {
    /// Whether every task that a new one is to run after is known.
    pub(crate) fn check_after(&self, task: &NewTask) -> Result<(), Refusal> {
        if task.after.len() > AFTER_MAX {
            return Err(Refusal::TooManyDependencies { count: task.after.len() });
        }
        for &after in task.after.iter().filter(|after| self.state.tasks.get(**after).is_none()) {
            let settled = self.state.settled(after, &self.facts);
            let settled = settled.ok_or(Refusal::UnknownDependency { after })?;
            // The store was read before the task's last change: nobody knows its end.
            settled.progress.state.outcome().ok_or(Refusal::StoreUnavailable)?;
        }
        Ok(())
    }

    /// What became of the tasks that a new one is to run after.
    pub(crate) fn dependencies(&self, after: Vec<TaskId>) -> Dependencies {
        let mut found = Dependencies { after, ..Dependencies::default() };
        for &task in &found.after {
            if self.state.tasks.get(task).is_some() {
                found.is_blocked = true;
                continue;
            }
            let settled = self.state.settled(task, &self.facts);
            match settled.and_then(|record| record.progress.state.outcome()) {
                Some(Outcome::Completed) | None => {}
                Some(other) => found.failed = found.failed.or(Some((task, other))),
            }
        }
        found.after.sort_unstable();
        found.after.dedup();
        found
    }

    /// A task has come to its end: those that waited for it may start, or fail with it, and so on
    /// down the line. A list rather than a recursion: lines may be long.
    pub(crate) fn after_settled(&mut self, task: TaskId, outcome: Outcome) {
        let mut ends = VecDeque::from([(task, outcome)]);
        while let Some((task, outcome)) = ends.pop_front() {
            for dependent in self.state.dependents.remove(&task).unwrap_or_default() {
                if outcome == Outcome::Completed {
                    self.meet_dependency(dependent);
                } else {
                    self.fail_dependent(dependent, (task, outcome));
                    ends.push_back((dependent, Outcome::Failed));
                }
            }
        }
    }

    fn meet_dependency(&mut self, id: TaskId) {
        let now = self.now();
        let Some(task) = self.state.meet(id) else { return };
        let TaskState::Waiting { until, .. } = task.progress.state else {
            panic!("only waiting tasks wait for others")
        };
        if until > now {
            return self.state.set_deadline(id, until);
        }
        let progress = Progress { state: TaskState::Ready, ..task.progress };
        self.record(Change::TaskReleased { task: id, progress });
    }

    /// Settles a task that waits for one that did not complete. Nobody ever held it.
    pub(crate) fn fail_dependent(&mut self, id: TaskId, (other, outcome): (TaskId, Outcome)) {
        let settlement = Settlement {
            failure: Some(dependency_failed(other, outcome)),
            ..Settlement::unexecuted(Outcome::Failed, self.now())
        };
        let task = self.state.tasks.get(id).expect("waiting tasks are live");
        let state = TaskState::Settled(Box::new(settlement));
        let progress = Progress { state, ..task.progress };
        // Only tasks without a run wait for others.
        self.record(Change::TaskSettled { task: id, attempt: None, progress, fact: None });
    }
}

fn dependency_failed(task: TaskId, outcome: Outcome) -> Failure {
    let end = match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Dead => "is dead",
        Outcome::Stopped => "was stopped",
    };
    Failure::new(DEPENDENCY_FAILED, format!("it was to run after task {task}, which {end}"))
}
