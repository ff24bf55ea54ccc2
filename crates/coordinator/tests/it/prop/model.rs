//! The rules, written down a second time and as simply as possible: no index, every question a
//! walk over all tasks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coordinator::{
    Change, Ending, HeartbeatVerdict, Lease, LostAuthority, Outcome, Progress, TaskRecord,
    TaskState, Verdict, Violation, WaitReason,
};
use model::{Failure, LeaseId, Offer, Report, ReportKey, TaskId, Timestamp, WorkerId};

use crate::story::Kept;

/// What the world knows by the facts, and what happened to every attempt.
#[derive(Default)]
pub(super) struct Model {
    pub(super) kept: Kept,
    attempts: BTreeMap<LeaseId, Attempt>,
    verdicts: BTreeMap<(LeaseId, WorkerId, ReportKey), Verdict>,
}

struct Attempt {
    lease: Lease,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reported(ReportKey),
    Lost,
    Stopped,
}

impl Attempt {
    fn is_over_at(&self, now: Timestamp) -> bool {
        let is_past = |end: Timestamp| end <= now;
        is_past(self.lease.expires_at) || self.lease.confirm_by.is_some_and(is_past)
    }
}

impl Model {
    // ----- verdicts: the table of ADR 2

    /// Judges a report, and remembers the verdict: it is final.
    pub(super) fn judge(&mut self, report: &Report, now: Timestamp) -> Verdict {
        let verdict = self.verdict(report, now);
        let who = (report.lease, report.worker.clone(), report.key);
        let before = self.verdicts.insert(who, verdict);
        if let Some(before) = before.filter(|before| !is_about_the_future(*before)) {
            let kind = std::mem::discriminant::<Verdict>;
            assert_eq!(kind(&before), kind(&verdict), "{report:?} was {before:?}");
        }
        verdict
    }

    fn verdict(&mut self, report: &Report, now: Timestamp) -> Verdict {
        match self.end_of(report.lease, &report.worker, now) {
            Err(violation) => Verdict::Rejected(violation),
            Ok(None) => {
                let attempt = self.attempts.get_mut(&report.lease).expect("it is held");
                attempt.end = Some(End::Reported(report.key));
                Verdict::Committed
            }
            Ok(Some(End::Reported(key))) if key == report.key => Verdict::Committed,
            Ok(Some(End::Reported(_))) => Verdict::Rejected(Violation::DuplicateReport),
            Ok(Some(End::Stopped)) => Verdict::Cancelled(LostAuthority::TaskCancelled),
            Ok(Some(End::Lost)) => Verdict::Cancelled(self.how_lost(report.lease)),
        }
    }

    /// What a heartbeat gets; an extended lease is extended here too.
    pub(super) fn beat(
        &mut self,
        lease: LeaseId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> HeartbeatVerdict {
        match self.end_of(lease, worker, now) {
            Err(violation) => HeartbeatVerdict::Rejected(violation),
            Ok(None) => HeartbeatVerdict::Extended { expires_at: self.extend(lease, now) },
            Ok(Some(End::Reported(_))) => HeartbeatVerdict::Cancelled(LostAuthority::Reported),
            Ok(Some(End::Stopped)) => HeartbeatVerdict::Cancelled(LostAuthority::TaskCancelled),
            Ok(Some(End::Lost)) => HeartbeatVerdict::Cancelled(self.how_lost(lease)),
        }
    }

    /// How an attempt ended for the worker that names its lease; `None` while it goes on.
    fn end_of(
        &mut self,
        lease: LeaseId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<End>, Violation> {
        if self.kept.get(lease.task).is_none() {
            return Err(Violation::UnknownTask);
        }
        let attempt = self.attempts.get_mut(&lease).ok_or(Violation::UnknownLease)?;
        if attempt.lease.holder != *worker {
            return Err(Violation::NotHolder);
        }
        if attempt.end.is_none() && attempt.is_over_at(now) {
            attempt.end = Some(End::Lost);
        }
        Ok(attempt.end)
    }

    fn how_lost(&self, lease: LeaseId) -> LostAuthority {
        let progress = &self.kept.get(lease.task).expect("its lease was granted").progress;
        match &progress.state {
            TaskState::Settled(end) if end.outcome == Outcome::Stopped => {
                LostAuthority::TaskCancelled
            }
            _ if progress.epoch == lease.epoch => LostAuthority::Expired,
            _ => LostAuthority::Superseded, // Whatever the task is, a newer lease was granted.
        }
    }

    fn extend(&mut self, lease: LeaseId, now: Timestamp) -> Timestamp {
        let ttl = self.kept.get(lease.task).expect("it is held").spec.lease_ttl;
        let attempt = self.attempts.get_mut(&lease).expect("it is held");
        let current = &mut attempt.lease;
        let end = now.after(ttl).max(current.expires_at);
        current.expires_at = current.attempt_ends_at.map_or(end, |last| last.min(end));
        current.confirm_by = None;
        current.expires_at
    }

    pub(super) fn held_by(&self, worker: &WorkerId) -> Vec<LeaseId> {
        let held = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.end.is_none() && attempt.lease.holder == *worker);
        held.map(|(lease, _)| *lease).collect()
    }

    pub(super) fn holder(&self, lease: LeaseId) -> Option<WorkerId> {
        self.attempts.get(&lease).map(|attempt| attempt.lease.holder.clone())
    }

    pub(super) fn leases(&self) -> Vec<LeaseId> {
        self.attempts.keys().copied().collect()
    }

    /// Everyone comes back: a whole TTL for every lease.
    pub(super) fn restart(&mut self, now: Timestamp) {
        for lease in self.leases() {
            if self.attempts[&lease].end.is_none() {
                let attempt = self.attempts.get_mut(&lease).expect("just listed");
                attempt.lease.expires_at = Timestamp::default();
                self.extend(lease, now);
            }
        }
    }

    // ----- facts

    /// Takes a fact in, if the rules allow it.
    pub(super) fn learn(&mut self, change: &Change, now: Timestamp, returned: &[LeaseId]) {
        let before = self.kept.get(change.task()).map(|record| record.progress.clone());
        self.check_start(change, now);
        if let Some(ended) = change.ended_attempt() {
            let lease = LeaseId { task: change.task(), epoch: ended.epoch };
            let is_returned = returned.contains(&lease);
            self.check_ending(lease, &ended.ending, now, is_returned);
            let before = before.as_ref().expect("an attempt ended");
            let after = change.progress();
            check_counts(before, after, &ended.ending, is_returned);
        }
        self.kept.keep(change);
        let record = self.kept.get(change.task()).expect("just kept");
        if let Change::LeaseGranted { task, progress, .. } = change {
            let TaskState::Leased(lease) = &progress.state else { panic!("{progress:?}") };
            assert_eq!(progress.attempt, before.expect("it was ready").attempt + 1);
            let id = LeaseId { task: *task, epoch: progress.epoch };
            self.attempts.insert(id, Attempt { lease: lease.clone(), end: None });
        } else if let Change::TaskSettled { .. } = change {
            self.check_settled(record);
        } else if let Change::AttemptEnded { progress, .. } = change {
            let has_attempts = progress.attempt < record.spec.retry.max_attempts;
            let may_go_on = has_attempts && progress.losses < coordinator::LOSSES_MAX;
            assert!(may_go_on, "it ends when its attempts or its workers are used up: {record:?}");
        }
    }

    fn check_ending(&mut self, lease: LeaseId, ending: &Ending, now: Timestamp, returned: bool) {
        let attempt = self.attempts.get_mut(&lease).expect("it was granted");
        let is_past = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        let (end, is_right) = match ending {
            Ending::Failed { report, .. } => {
                (End::Reported(*report), attempt.end == Some(End::Reported(*report)))
            }
            Ending::Expired => (End::Lost, is_past(Some(attempt.lease.expires_at))),
            Ending::TimedOut => (End::Lost, is_past(attempt.lease.attempt_ends_at)),
            Ending::Undelivered => (End::Lost, returned || is_past(attempt.lease.confirm_by)),
            Ending::Stopped => (End::Stopped, true),
        };
        assert!(is_right, "{lease} at {now}: {ending:?}, but {:?}", attempt.lease);
        let is_first = attempt.end.is_none_or(|before| before == end);
        assert!(is_first, "an attempt ends once: {:?}, then {end:?}", attempt.end);
        attempt.end = Some(end);
    }

    fn check_settled(&self, record: &TaskRecord) {
        let TaskState::Settled(settlement) = &record.progress.state else { panic!("{record:?}") };
        let lease = LeaseId { task: record.id, epoch: record.progress.epoch };
        let reported = self.attempts.get(&lease).and_then(|attempt| attempt.end);
        if let Some(key) = settlement.report {
            assert_eq!(reported, Some(End::Reported(key)), "a report settles what it may");
        }
        let Progress { attempt, losses, .. } = record.progress;
        let is_exhausted = attempt >= record.spec.retry.max_attempts;
        match settlement.outcome {
            Outcome::Completed => assert!(settlement.report.is_some() && losses == 0),
            Outcome::Failed if settlement.failure.as_ref().is_some_and(is_of_dependency) => {
                let failed = record.after.iter().filter(|other| self.has_failed(**other));
                assert!(failed.count() > 0, "one that it waits for failed: {record:?}");
            }
            Outcome::Failed => assert!(settlement.report.is_some() || is_exhausted),
            Outcome::Dead => assert!(is_exhausted || losses == coordinator::LOSSES_MAX),
            Outcome::Stopped => assert_eq!(settlement.report, None),
        }
    }

    // ----- dependencies

    /// A task that waits for others starts when all of them are completed, and not before.
    fn check_start(&self, change: &Change, now: Timestamp) {
        let is_start = matches!(change, Change::LeaseGranted { .. } | Change::TaskReleased { .. });
        let Some(record) = self.kept.get(change.task()).filter(|_| is_start) else { return };
        if let TaskState::Waiting { until, why: WaitReason::After } = record.progress.state {
            assert!(until <= now, "too early: {record:?}");
            assert!(record.after.iter().all(|other| self.is_completed(*other)), "{record:?}");
        }
    }

    /// After a step nobody waits for what has failed, nor for what is done.
    pub(super) fn check_dependencies(&self, swept: Timestamp) {
        for record in self.kept.live() {
            if let TaskState::Waiting { until, why: WaitReason::After } = record.progress.state {
                assert!(!record.after.iter().any(|other| self.has_failed(*other)), "{record:?}");
                let is_met = record.after.iter().all(|other| self.is_completed(*other));
                let was_due = until < swept && until > record.created_at;
                assert!(!is_met || was_due || until >= swept, "nobody released it: {record:?}");
            }
        }
    }

    fn outcome(&self, task: TaskId) -> Option<Outcome> {
        match &self.kept.get(task).expect("it was submitted").progress.state {
            TaskState::Settled(settlement) => Some(settlement.outcome),
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => None,
        }
    }

    fn is_completed(&self, task: TaskId) -> bool {
        self.outcome(task) == Some(Outcome::Completed)
    }

    fn has_failed(&self, task: TaskId) -> bool {
        self.outcome(task).is_some_and(|outcome| outcome != Outcome::Completed)
    }

    // ----- placement

    /// The task that a worker with this offer must get; waits are over when the sweep has come.
    pub(super) fn best_for(&self, offer: &Offer, swept: Timestamp) -> Option<TaskId> {
        let is_ready = |record: &TaskRecord| self.is_ready(record, swept);
        let ready: Vec<_> = self.kept.live().filter(|record| is_ready(record)).collect();
        let rank = |record: &TaskRecord| (Reverse(record.spec.priority), record.id);
        let blocks = |other: &TaskRecord, record: &TaskRecord| {
            let same_key =
                record.concurrency_key.is_some() && record.concurrency_key == other.concurrency_key;
            let is_leased = matches!(other.progress.state, TaskState::Leased(_));
            let goes_first = is_ready(other) && rank(other) < rank(record);
            same_key && (is_leased || goes_first)
        };
        let free = ready
            .iter()
            .filter(|record| !self.kept.live().any(|other| blocks(other, record)))
            .filter(|record| offer.covers(&record.spec.demand));
        free.min_by_key(|record| rank(record)).map(|record| record.id)
    }

    fn is_ready(&self, record: &TaskRecord, swept: Timestamp) -> bool {
        match &record.progress.state {
            TaskState::Ready => true,
            TaskState::Waiting { until, why: WaitReason::After } => {
                *until <= swept && record.after.iter().all(|other| self.is_completed(*other))
            }
            TaskState::Waiting { until, .. } => *until <= swept,
            TaskState::Leased(_) | TaskState::Settled(_) => false,
        }
    }
}

fn is_of_dependency(failure: &Failure) -> bool {
    failure.code == "E.TASK.DEPENDENCY"
}

/// A lease that was not granted yet may be later: the one verdict that can change.
fn is_about_the_future(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Rejected(Violation::UnknownLease | Violation::UnknownTask))
}

fn check_counts(before: &Progress, after: &Progress, ending: &Ending, is_returned: bool) {
    let (attempt, losses) = match ending {
        Ending::Undelivered if is_returned => (before.attempt - 1, before.losses),
        Ending::Expired | Ending::Undelivered | Ending::TimedOut => {
            (before.attempt, before.losses + 1)
        }
        Ending::Failed { .. } => (before.attempt, 0),
        Ending::Stopped => (before.attempt, before.losses),
    };
    assert_eq!((after.attempt, after.losses), (attempt, losses), "after {ending:?}");
}
