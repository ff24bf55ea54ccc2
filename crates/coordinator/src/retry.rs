//! What follows an attempt that did not complete: another one, or the end.

use std::time::Duration;

use model::{Failure, ReportKey, RetryPolicy, TaskId, WorkerId};

use crate::change::{
    Change, EndedAttempt, Ending, Outcome, Progress, Settlement, TaskState, WaitReason,
};
use crate::coordinator::Turn;
use crate::effect::StateWord;
use crate::lease::LOSSES_MAX;
use crate::planted::{self, Bug};

/// The pause before the next attempt: doubling, capped, then spread over its upper half, so that
/// tasks that failed together do not come back together.
pub(crate) fn backoff(policy: &RetryPolicy, attempt: u32, entropy: u64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    let pause = policy.backoff.saturating_mul(1 << doublings).min(policy.backoff_max);
    if planted::is(Bug::BackoffWithoutJitter) {
        return pause;
    }
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

impl Turn<'_> {
    /// An attempt failed, by its worker's word or by its timeout.
    pub(crate) fn after_failed_attempt(
        &mut self,
        id: TaskId,
        worker: WorkerId,
        ending: Ending,
        failure: Failure,
    ) {
        let now = self.now();
        let task = self.state.tasks.get(id).expect("only live tasks fail");
        let (policy, progress) = (self.state.placement.spec(task.spec).retry, &task.progress);
        // A report, even of a failure, shows that the task does not take its worker down.
        let losses = 0;
        if progress.attempt >= policy.max_attempts {
            // Nothing was promised beyond one attempt: that is a failure, not a death.
            let outcome = if policy.max_attempts == 1 { Outcome::Failed } else { Outcome::Dead };
            return self.settle_unfinished(id, worker, ending, (outcome, failure));
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
        let counts = !planted::is(Bug::LossNotCounted);
        if counts && (is_poison || progress.attempt >= max_attempts) {
            let reason = if is_poison {
                format!("{losses} workers in a row were lost while they held this task")
            } else {
                "its worker was lost, and no attempt is left".to_owned()
            };
            let failure = Failure { code: "E.WORKER.LOST".into(), reason };
            return self.settle_unfinished(id, worker, ending, (Outcome::Dead, failure));
        }
        let attempt = if counts { progress.attempt } else { progress.attempt - 1 };
        let losses = if counts { losses } else { 0 };
        let progress = Progress { state: TaskState::Ready, attempt, epoch: progress.epoch, losses };
        self.end_attempt(id, worker, ending, progress);
    }

    /// The end of a task that did not complete. A report that settles it is kept in the
    /// settlement; any other last attempt goes into the history.
    fn settle_unfinished(
        &mut self,
        id: TaskId,
        worker: WorkerId,
        ending: Ending,
        (outcome, failure): (Outcome, Failure),
    ) {
        let now = self.now();
        let progress = &self.state.tasks.get(id).expect("only live tasks settle").progress;
        let (attempt, epoch, losses) = (progress.attempt, progress.epoch, progress.losses);
        let (report, lost): (Option<ReportKey>, Option<EndedAttempt>) = match ending {
            Ending::Failed { report, .. } => (Some(report), None),
            Ending::Expired | Ending::TimedOut | Ending::Undelivered | Ending::Stopped => {
                (None, Some(EndedAttempt { epoch, worker: worker.clone(), at: now, ending }))
            }
        };
        let losses = match lost.as_ref().map(|attempt| &attempt.ending) {
            Some(Ending::Expired | Ending::Undelivered) => losses + 1,
            Some(Ending::Failed { .. } | Ending::TimedOut | Ending::Stopped) | None => 0,
        };
        let settlement = Settlement {
            outcome,
            at: now,
            holder: Some(worker),
            report,
            result: None,
            failure: Some(failure),
        };
        let state = TaskState::Settled(Box::new(settlement));
        let progress = Progress { state, attempt, epoch, losses };
        self.change(Change::TaskSettled { task: id, attempt: lost, progress });
    }

    /// A worker's own word that no further attempt could help.
    pub(crate) fn settle_failed(&mut self, id: TaskId, worker: WorkerId, ending: Ending) {
        let Ending::Failed { failure, .. } = &ending else { return };
        let failure = failure.clone();
        self.settle_unfinished(id, worker, ending, (Outcome::Failed, failure));
    }

    pub(crate) fn word_after(&self, id: TaskId) -> StateWord {
        let live = self.state.tasks.get(id).map(|task| task.progress.state.word());
        live.unwrap_or_else(|| {
            let settled = self.step.changes.iter().rev().find(|change| change.task() == id);
            settled.expect("it left memory in this step").progress().state.word()
        })
    }
}
