//! Who may start, by the tasks that it waits for and by its queue.

use coordinator::{Change, Outcome, Progress, TaskRecord};
use model::{TaskId, Timestamp};

use crate::consequence::Consequence;
use crate::oracle::model::{Model, Place, place_of};
use crate::oracle::notes::Notes;

impl Model {
    fn outcome(&self, task: TaskId) -> Option<Outcome> {
        match self.tasks.get(&task)?.place {
            Place::Settled(outcome) => Some(outcome),
            Place::Waiting { .. }
            | Place::Blocked { .. }
            | Place::Own { .. }
            | Place::Ready
            | Place::Leased => None,
        }
    }

    /// Whether every task that it waits for is completed.
    pub(super) fn is_free(&self, task: TaskId) -> bool {
        let after = self.tasks.get(&task).map_or(&[][..], |task| &task.after);
        after.iter().all(|other| self.outcome(*other) == Some(Outcome::Completed))
    }

    /// One of those that it waits for and that came to another end than `Completed`.
    fn failed_dependency(&self, after: &[TaskId]) -> Option<TaskId> {
        let has_failed = |other: &&TaskId| {
            self.outcome(**other).is_some_and(|outcome| outcome != Outcome::Completed)
        };
        after.iter().find(has_failed).copied()
    }

    /// A new task names older ones, and waits unless all of them are completed.
    pub(super) fn check_after(&self, record: &TaskRecord, place: Place, notes: &mut Notes) {
        let number = record.id.number();
        let is_known = |other: &TaskId| *other < record.id && self.tasks.contains_key(other);
        notes.demand(record.after.iter().all(is_known), "P1", || {
            format!("task {number} waits for tasks that were never made: {:?}", record.after)
        });
        let is_completed = |other: &TaskId| self.outcome(*other) == Some(Outcome::Completed);
        let may_run = record.after.iter().all(is_completed);
        notes.demand(may_run || matches!(place, Place::Blocked { .. }), "P4", || {
            format!("task {number} is {place:?}, though others must complete first")
        });
    }

    pub(super) fn released(
        &mut self,
        id: TaskId,
        progress: &Progress,
        (now, notes): (Option<Timestamp>, &mut Notes),
    ) {
        let (number, is_free) = (id.number(), self.is_free(id));
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let has_come = |until: Timestamp| now.is_none_or(|now| until <= now);
        let may = matches!(task.place, Place::Blocked { until } if is_free && has_come(until));
        notes.demand(may, "P4", || {
            format!(
                "task {number} is released from {:?}; it waits for {:?}",
                task.place, task.after
            )
        });
        task.place = place_of(&progress.state);
        if now.is_some() {
            notes.happened(Consequence::ReleasedByOthers);
        }
    }

    pub(super) fn check_failed_with_others(
        &self,
        id: TaskId,
        (now, notes): (Option<Timestamp>, &mut Notes),
    ) {
        let Some(task) = self.tasks.get(&id) else { return };
        let has_reason = self.failed_dependency(&task.after).is_some();
        let was_waiting = matches!(task.place, Place::Blocked { .. });
        notes.demand(has_reason && was_waiting, "P2", || {
            format!("task {} failed with others, but none of them did", id.number())
        });
        if now.is_some() {
            notes.happened(Consequence::FailedWithOthers);
        }
    }

    /// After a step or a commit: nobody waits for what has failed, and nobody waits without a
    /// moment of his own for what is done.
    pub(crate) fn check_blocked(&self, changes: &[Change], notes: &mut Notes) {
        let matters = |change: &Change| {
            matches!(change, Change::TaskSettled { .. } | Change::TaskSubmitted(_))
        };
        if !changes.iter().any(matters) {
            return;
        }
        for (id, task) in &self.tasks {
            let Place::Blocked { until } = task.place else { continue };
            let failed = self.failed_dependency(&task.after);
            notes.demand(failed.is_none(), "P5", || {
                format!("task {} still waits for {failed:?}, which did not complete", id.number())
            });
            let is_left = until == Timestamp::default() && self.is_free(*id);
            notes.demand(!is_left, "P5", || {
                format!("task {} waits for nobody, but was not released", id.number())
            });
        }
    }

    /// Nothing is granted from a queue while it is paused.
    pub(super) fn check_not_paused(&self, id: TaskId, now: Option<Timestamp>, notes: &mut Notes) {
        let Some(task) = self.tasks.get(&id) else { return };
        let queue = &task.spec.demand.queue;
        // What becomes durable now was decided earlier; only the decision knows of pauses.
        let is_paused = now.is_some() && self.paused.contains(queue);
        notes.demand(!is_paused, "P5", || {
            format!("task {} was granted while queue {queue} is paused", id.number())
        });
    }
}
