//! What follows an attempt that did not complete: another one, or the end.

use std::time::Duration;

use model::{Failure, LeaseId, ReportKey, RetryPolicy, StateWord, TaskId, WorkerId};

use super::lease::LOSSES_MAX;
use crate::change::{
    Change, EndedAttempt, Ending, Outcome, Progress, Settlement, TaskState, WaitReason,
};
use crate::coordinator::Decision;

/// The pause before the next attempt: doubling, capped, then spread over its upper half, so that
/// tasks that failed together do not come back together.
pub(crate) fn backoff(policy: &RetryPolicy, attempt: u32, entropy: u64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    let pause = policy.backoff.saturating_mul(1 << doublings).min(policy.backoff_max);
    let half = pause / 2;
    let spread = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    half + Duration::from_millis(entropy % spread)
}

/// A stable 64-bit mix, so that one turn's entropy gives each task its own jitter.
fn mix(entropy: u64, task: TaskId, epoch: u32) -> u64 {
    let mut x = entropy ^ task.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(epoch);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn poison(losses: u32) -> Failure {
    let reason = format!("{losses} workers in a row were lost while they held this task");
    Failure::new("E.WORKER.LOST", reason)
}

fn out_of_attempts() -> Failure {
    Failure::new("E.WORKER.LOST", "its worker was lost, and no attempt is left")
}

fn undeliverable() -> Failure {
    let reason = "no worker confirmed in time that it had received the task";
    Failure::new("E.DISPATCH.UNAVAILABLE", reason)
}

/// What an attempt that did not complete leaves behind.
struct Loss {
    losses: u32,
    failure: Failure,
}

/// The end of a task that did not complete.
struct UnfinishedEnd {
    outcome: Outcome,
    failure: Failure,
    losses: u32,
}

impl Decision<'_> {
    /// An attempt failed, by its worker's word.
    ///
    /// A report, even of a failure, shows that the task does not take its worker down: the row of
    /// lost workers ends.
    pub(crate) fn after_failed_attempt(
        &mut self,
        id: TaskId,
        worker: WorkerId,
        ending: Ending,
        failure: Failure,
    ) {
        self.retry_or_end(id, worker, ending, Loss { losses: 0, failure });
    }

    /// An attempt took longer than its timeout. Whether its worker is slow or gone shows only
    /// later; until it is heard of, it counts as lost, or a task that kills its workers would not
    /// be taken for poison when its timeout is short.
    pub(crate) fn after_timeout(&mut self, id: TaskId, worker: WorkerId) {
        let task = self.state.tasks.get(id).expect("only live tasks time out");
        let losses = task.progress.losses + 1;
        let failure = Failure::new("E.TIMEOUT", "the attempt took longer than its timeout");
        if losses >= LOSSES_MAX {
            let end = UnfinishedEnd { outcome: Outcome::Dead, failure: poison(losses), losses };
            return self.settle_unfinished(id, worker, Ending::TimedOut, end);
        }
        self.retry_or_end(id, worker, Ending::TimedOut, Loss { losses, failure });
    }

    /// A sign of life of a worker whose attempt timed out: it was slow, not lost.
    pub(crate) fn forgive_loss(&mut self, lease: LeaseId) {
        let Some(task) = self.state.tasks.get(lease.task) else { return };
        let ended = task.ended_attempts().iter().rev().find(|ended| ended.epoch == lease.epoch);
        let was_slow = ended.is_some_and(|ended| matches!(ended.ending, Ending::TimedOut));
        if was_slow && task.progress.losses > 0 {
            let progress = Progress { losses: 0, ..task.progress.clone() };
            self.change(Change::LossForgiven { task: lease.task, progress });
        }
    }

    fn retry_or_end(&mut self, id: TaskId, worker: WorkerId, ending: Ending, loss: Loss) {
        let now = self.now();
        let Loss { losses, failure } = loss;
        let task = self.state.tasks.get(id).expect("only live tasks fail");
        let (policy, progress) = (self.state.placement.spec(task.spec).retry, &task.progress);
        if progress.attempt >= policy.max_attempts {
            // Nothing was promised beyond one attempt: that is a failure, not a death.
            let outcome = if policy.max_attempts == 1 { Outcome::Failed } else { Outcome::Dead };
            let end = UnfinishedEnd { outcome, failure, losses };
            return self.settle_unfinished(id, worker, ending, end);
        }
        let pause = backoff(&policy, progress.attempt, mix(self.at.entropy, id, progress.epoch));
        let state = if pause.is_zero() {
            TaskState::Ready
        } else {
            TaskState::Waiting { until: now.after(pause), why: WaitReason::Backoff }
        };
        let progress = Progress { state, attempt: progress.attempt, epoch: progress.epoch, losses };
        self.end_attempt(id, worker, ending, progress);
    }

    /// A lease ended in silence: its worker is taken for lost.
    pub(crate) fn after_lost_worker(&mut self, id: TaskId, worker: WorkerId, ending: Ending) {
        let task = self.state.tasks.get(id).expect("only live tasks lose workers");
        let max_attempts = self.state.placement.spec(task.spec).retry.max_attempts;
        let progress = &task.progress;
        let losses = progress.losses + 1;
        let is_poison = losses >= LOSSES_MAX;
        if is_poison || progress.attempt >= max_attempts {
            let failure = match ending {
                Ending::Undelivered => undeliverable(),
                _ if is_poison => poison(losses),
                _ => out_of_attempts(),
            };
            let end = UnfinishedEnd { outcome: Outcome::Dead, failure, losses };
            return self.settle_unfinished(id, worker, ending, end);
        }
        let Progress { attempt, epoch, .. } = *progress;
        let progress = Progress { state: TaskState::Ready, attempt, epoch, losses };
        self.end_attempt(id, worker, ending, progress);
    }

    /// The end of a task that did not complete. A report that settles it is kept in the
    /// settlement; any other last attempt goes into the history.
    fn settle_unfinished(
        &mut self,
        id: TaskId,
        worker: WorkerId,
        ending: Ending,
        UnfinishedEnd { outcome, failure, losses }: UnfinishedEnd,
    ) {
        let now = self.now();
        let progress = &self.state.tasks.get(id).expect("only live tasks settle").progress;
        let (attempt, epoch) = (progress.attempt, progress.epoch);
        let (report, lost): (Option<ReportKey>, Option<EndedAttempt>) = match ending {
            Ending::Failed { report, .. } => (Some(report), None),
            Ending::Expired | Ending::TimedOut | Ending::Undelivered | Ending::Stopped => {
                (None, Some(EndedAttempt { epoch, worker: worker.clone(), at: now, ending }))
            }
        };
        let settlement = Settlement {
            holder: Some(worker),
            granted_at: progress.state.granted_at(),
            report,
            failure: Some(failure),
            ..Settlement::unexecuted(outcome, now)
        };
        let state = TaskState::Settled(Box::new(settlement));
        let progress = Progress { state, attempt, epoch, losses };
        self.settle(id, lost, progress);
    }

    /// A worker's own word that no further attempt could help.
    pub(crate) fn settle_failed(&mut self, id: TaskId, worker: WorkerId, ending: Ending) {
        let Ending::Failed { failure, .. } = &ending else { return };
        let failure = failure.clone();
        let end = UnfinishedEnd { outcome: Outcome::Failed, failure, losses: 0 };
        self.settle_unfinished(id, worker, ending, end);
    }

    /// What became of a task by a failure report. A task that goes on is told as retrying, also
    /// when it is in the queue at once: the same report later gets the same answer.
    pub(crate) fn word_after_failure(&self, id: TaskId) -> StateWord {
        if self.state.tasks.get(id).is_some() {
            return StateWord::Retrying;
        }
        let settled = self.step.changes.iter().rev().find(|change| change.task() == id);
        settled.expect("it left memory in this step").progress().state.word()
    }
}
