//! The worker contract of seed 002: every report gets exactly one verdict, and keeps it.

use bytes::Bytes;
use model::{
    LeaseId, Report, ReportKey, ReportedOutcome, ResultExtra, StateWord, TaskId, WorkerId,
};

use crate::change::{EndedAttempt, Ending, Outcome, Progress, Settlement, TaskRecord, TaskState};
use crate::coordinator::Decision;
use crate::effect::{Answer, Judgement, LostAuthority, Verdict, Violation};

/// How a worker stands to a lease that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds the lease now.
    Holder,
    /// It held the lease, and a report of it was committed.
    Reported {
        /// Recognises that report.
        key: ReportKey,
        /// What became of the task by it.
        state: StateWord,
    },
    /// It held the lease, and lost it without a committed report.
    Lost(LostAuthority),
    /// It never held such a lease.
    Wrong(Violation),
}

impl Decision<'_> {
    pub(crate) fn on_reports(&mut self, reports: Vec<Report>) -> Answer {
        let tasks = || reports.iter().map(|report| report.lease.task);
        let is_holding =
            names_a_task_twice(tasks()) || self.state.any_may_end_with_another(tasks());
        if is_holding {
            self.state.loads.hold();
        }
        let judgements = reports.into_iter().map(|report| self.judge(report)).collect();
        if is_holding {
            self.state.loads.let_go();
        }
        Answer::Judgements(judgements)
    }

    fn judge(&mut self, report: Report) -> Judgement {
        self.touch_if_known(&report.worker);
        let (task, lease) = (report.lease.task, report.lease);
        let (verdict, task_state) = match self.standing(lease, &report.worker) {
            Standing::Holder => {
                let state = self.commit(report);
                (Verdict::Committed, Some(state))
            }
            Standing::Reported { key, state } if key == report.key => {
                (Verdict::Committed, Some(state))
            }
            Standing::Reported { .. } => {
                (Verdict::Rejected(Violation::DuplicateReport), self.word_of(task))
            }
            Standing::Lost(reason) => {
                self.forgive_loss(lease);
                (Verdict::Cancelled(reason), self.word_of(task))
            }
            Standing::Wrong(violation) => (Verdict::Rejected(violation), self.word_of(task)),
        };
        Judgement { verdict, task_state }
    }

    /// The table of ADR 2, without the last step: what a report is worth.
    pub(crate) fn standing(&mut self, lease: LeaseId, worker: &WorkerId) -> Standing {
        let Some(task) = self.state.tasks.get(lease.task) else {
            return match self.state.settled(lease.task, &self.facts) {
                Some(record) => standing_in_settled(record, lease.epoch, worker),
                None => Standing::Wrong(Violation::UnknownTask),
            };
        };
        let newest = task.progress.epoch;
        if lease.epoch == 0 || lease.epoch > newest {
            return Standing::Wrong(Violation::UnknownLease);
        }
        let current = match &task.progress.state {
            TaskState::Leased(current) if lease.epoch == newest => current,
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => {
                return standing_in_history(task.ended_attempts(), newest, lease.epoch, worker);
            }
            TaskState::Settled(_) => panic!("a settled task left memory"),
        };
        if current.holder != *worker {
            return Standing::Wrong(Violation::NotHolder);
        }
        // Decided by comparison, not by the sweep: the sweep may come late.
        let is_over = self.at.now >= current.expires_at
            || current.confirm_by.is_some_and(|confirm_by| self.at.now >= confirm_by);
        if is_over {
            // The answer says that the lease has ended, so that must become a fact first.
            self.expire(lease.task);
            return Standing::Lost(LostAuthority::Expired);
        }
        Standing::Holder
    }

    /// The report counts. Gives where the task stands after it.
    fn commit(&mut self, report: Report) -> StateWord {
        let Report { lease, worker, key, outcome } = report;
        match outcome {
            ReportedOutcome::Completed { result, extra } => {
                self.complete(lease.task, worker, key, (result, extra));
                StateWord::Completed
            }
            ReportedOutcome::Failed { failure, retryable } => {
                let ending = Ending::Failed { report: key, failure: failure.clone() };
                if retryable {
                    self.after_failed_attempt(lease.task, worker, ending, failure);
                } else {
                    self.settle_failed(lease.task, worker, ending);
                }
                self.word_after_failure(lease.task)
            }
        }
    }

    fn complete(
        &mut self,
        id: TaskId,
        worker: WorkerId,
        key: ReportKey,
        (result, extra): (Bytes, Option<Box<ResultExtra>>),
    ) {
        let now = self.now();
        let progress = &self.state.tasks.get(id).expect("held tasks are live").progress;
        let settlement = Settlement {
            holder: Some(worker),
            granted_at: progress.state.granted_at(),
            report: Some(key),
            result: Some(result),
            extra,
            ..Settlement::unexecuted(Outcome::Completed, now)
        };
        let progress = Progress {
            state: TaskState::Settled(Box::new(settlement)),
            attempt: progress.attempt,
            epoch: progress.epoch,
            losses: 0,
        };
        self.settle(id, None, progress);
    }

    fn word_of(&self, task: TaskId) -> Option<StateWord> {
        let live = self.state.tasks.get(task).map(|task| task.progress.state.word());
        live.or_else(|| {
            let record = self.state.settled(task, &self.facts);
            record.map(|record| record.progress.state.word())
        })
        .or_else(|| {
            let settled = self.step.changes.iter().rev().find(|change| change.task() == task);
            settled.map(|change| change.progress().state.word())
        })
    }

    fn touch_if_known(&mut self, worker: &WorkerId) {
        if self.state.workers.is_known(worker) {
            self.touch_worker(worker);
        }
    }
}

/// The first of two entries may settle the task, and the second must still find it.
pub(crate) fn names_a_task_twice(tasks: impl Iterator<Item = TaskId>) -> bool {
    let mut tasks: Vec<TaskId> = tasks.collect();
    tasks.sort_unstable();
    tasks.windows(2).any(|pair| pair[0] == pair[1])
}

fn standing_in_settled(record: &TaskRecord, epoch: u32, worker: &WorkerId) -> Standing {
    let newest = record.progress.epoch;
    let TaskState::Settled(settlement) = &record.progress.state else {
        // The store was read before the task's last change; nothing can be said of its leases.
        return Standing::Wrong(Violation::UnknownLease);
    };
    if epoch == 0 || epoch > newest {
        return Standing::Wrong(Violation::UnknownLease);
    }
    if let Some(key) = settlement.report
        && epoch == newest
    {
        let is_holder = settlement.holder.as_ref() == Some(worker);
        let state = settlement.outcome.into();
        return if is_holder {
            Standing::Reported { key, state }
        } else {
            Standing::Wrong(Violation::NotHolder)
        };
    }
    let standing = standing_in_history(&record.ended_attempts, newest, epoch, worker);
    match standing {
        Standing::Lost(_) if settlement.outcome == Outcome::Stopped => {
            Standing::Lost(LostAuthority::TaskCancelled)
        }
        Standing::Holder | Standing::Reported { .. } | Standing::Lost(_) | Standing::Wrong(_) => {
            standing
        }
    }
}

fn standing_in_history(
    history: &[EndedAttempt],
    newest: u32,
    epoch: u32,
    worker: &WorkerId,
) -> Standing {
    let lost = if epoch == newest { LostAuthority::Expired } else { LostAuthority::Superseded };
    let Some(attempt) = history.iter().rev().find(|attempt| attempt.epoch == epoch) else {
        return Standing::Lost(lost);
    };
    if attempt.worker != *worker {
        return Standing::Wrong(Violation::NotHolder);
    }
    match &attempt.ending {
        Ending::Failed { report, .. } => {
            Standing::Reported { key: *report, state: StateWord::Retrying }
        }
        Ending::Expired | Ending::TimedOut | Ending::Undelivered => Standing::Lost(lost),
        Ending::Stopped => Standing::Lost(LostAuthority::TaskCancelled),
    }
}
