//! Which answer each command must get: the table of verdicts, written a second time.

use std::cmp::Reverse;

use coordinator::{
    Answer, Change, Command, Effect, HeartbeatVerdict, Judgement, LostAuthority, Outcome, Question,
    Refusal, Renewal, Step, SubmittedTask, TaskState, Verdict, Violation as Wrong,
};
use model::{
    LeaseId, NewTask, QueueName, Report, ReportKey, ReportedOutcome, TaskId, Timestamp, WorkerId,
};

use crate::consequence::Consequence;
use crate::oracle::model::{LeaseEnd, Model, Place, TaskModel};
use crate::oracle::notes::Notes;

/// A command as a server handed it to its coordinator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// The coordinator's clock when it was handled.
    pub(crate) now: Timestamp,
    /// The same clock when the message was sent.
    pub(crate) sent_at: Timestamp,
}

/// How a worker stands to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Holder,
    Committed(ReportKey),
    Lost,
    Wrong(Wrong),
}

impl Model {
    /// Compares the answer in a step with the one that `command` must get. Called before the facts
    /// of the same step are observed.
    pub(crate) fn judge(
        &mut self,
        command: &Command,
        step: &Step,
        heard: Heard,
        notes: &mut Notes,
    ) {
        match command {
            Command::Ask(ticket, question) => {
                let answer = step.effects.iter().find_map(|effect| match effect {
                    Effect::Answer { ticket: to, answer } if to == ticket => Some(answer),
                    Effect::Answer { .. } | Effect::Load { .. } | Effect::Prepare { .. } => None,
                });
                if matches!(question, Question::Report { .. }) {
                    self.stopping = step.changes.iter().filter_map(stopped).collect();
                }
                self.judge_answer(question, answer, heard, notes);
                self.stopping.clear();
            }
            Command::ReturnLeases { leases } => self.note_returned(leases),
            Command::LoseWorker { worker } => self.note_worker_lost(worker),
            Command::GiveBack { worker, leases } => {
                self.note_given_back(worker, Some(leases), (heard.now, notes));
            }
            Command::Withdraw { .. }
            | Command::Prepared { .. }
            | Command::Loaded { .. }
            | Command::LoadFailed { .. } => {}
        }
    }

    fn judge_answer(
        &mut self,
        question: &Question,
        answer: Option<&Answer>,
        heard: Heard,
        notes: &mut Notes,
    ) {
        match question {
            Question::Submit { tasks } => self.judge_submit(tasks, answer, notes),
            Question::Report { reports } => self.judge_reports(reports, answer, heard, notes),
            Question::Heartbeat { worker, leases } => {
                self.judge_heartbeat((worker, leases), answer, heard, notes);
            }
            Question::Stop { task } => self.judge_stop(*task, answer, notes),
            Question::Requeue { task } => self.judge_requeue(*task, answer, notes),
            Question::Peek { .. } => self.judge_peek(answer, notes),
            Question::SetPause { queue, pause } => self.note_pause(queue, pause.is_some()),
            Question::Unregister { worker } => {
                self.note_given_back(worker, None, (heard.now, notes));
            }
            Question::SetDrain { worker, on, .. } => self.note_leaving(worker, *on),
            Question::Explain { .. }
            | Question::ListWorkers
            | Question::ListQueues
            | Question::ListSchedules
            | Question::ShowSchedule { .. }
            | Question::AddSchedule { .. }
            | Question::EditSchedule { .. }
            | Question::RemoveSchedule { .. }
            | Question::Backfill { .. }
            | Question::Register { .. }
            | Question::NoteVerified { .. }
            | Question::Drain { .. } => self.judge_answered(question, answer, notes),
            // Their answers come when there is something to say, or never.
            Question::StartRun { .. }
            | Question::Bindings { .. }
            | Question::Rebind { .. }
            | Question::CancelRun { .. }
            | Question::WatchRun { .. }
            | Question::Next { .. }
            | Question::Signal { .. }
            | Question::Underway { .. }
            | Question::RequestLeases { .. }
            | Question::Watch { .. } => {}
        }
    }

    /// Whatever the answer says, there is one at once.
    fn judge_answered(&mut self, question: &Question, answer: Option<&Answer>, notes: &mut Notes) {
        notes.demand(answer.is_some(), "P3", || format!("no answer to {question:?}"));
        if let Question::Register { worker, anew: true, .. } = question {
            self.note_registered(worker);
        }
    }

    fn note_leaving(&mut self, worker: &WorkerId, on: bool) {
        if on {
            self.leaving.insert(worker.clone());
        } else {
            self.leaving.remove(worker);
        }
    }

    /// The process of a worker ended: what it held is lost at once.
    fn note_worker_lost(&mut self, worker: &WorkerId) {
        for lease in self.leases_or_all(worker, None) {
            self.note_lost(lease);
        }
    }

    fn note_returned(&mut self, leases: &[LeaseId]) {
        for lease in leases {
            if let Some(lease) = self.lease_mut(*lease).filter(|lease| lease.end.is_none()) {
                lease.end = Some(LeaseEnd::Returned);
            }
        }
    }

    fn note_pause(&mut self, queue: &QueueName, on: bool) {
        if on {
            self.paused.insert(queue.clone());
        } else {
            self.paused.remove(queue);
        }
    }

    /// A worker that leaves gives back what it still has a right to.
    fn note_given_back(
        &mut self,
        worker: &WorkerId,
        leases: Option<&[LeaseId]>,
        (now, notes): (Timestamp, &mut Notes),
    ) {
        if leases.is_none() {
            self.leaving.remove(worker);
        }
        for lease in self.leases_or_all(worker, leases) {
            let Some(lease) = self.lease_mut(lease) else { continue };
            if lease.end.is_none() && lease.due() > now && lease.holder == *worker {
                lease.end = Some(LeaseEnd::GivenBack);
                notes.happened(Consequence::GivenBack);
            }
        }
    }

    /// What would be granted next: all that is ready, in the order of the grants, but for tasks
    /// that stand behind a key.
    fn judge_peek(&self, answer: Option<&Answer>, notes: &mut Notes) {
        let Some(Answer::Peeked { tasks, total }) = answer else {
            return notes.broken("P3", || format!("a look was answered by {answer:?}"));
        };
        let rank = |id: &TaskId| {
            let task = self.tasks.get(id)?;
            (task.place == Place::Ready).then_some((Reverse(task.spec.priority), *id))
        };
        // Runs share in turn, so their tasks stand between the others as their turn comes.
        let is_single = |id: &&TaskId| self.tasks.get(id).is_none_or(|task| !task.is_of_run);
        let ranks: Option<Vec<_>> = tasks.iter().filter(is_single).map(rank).collect();
        let is_sorted = ranks.is_some_and(|ranks| ranks.is_sorted());
        let is_open = |(id, task): (&TaskId, &TaskModel)| {
            (task.place == Place::Ready && task.key.is_none()).then_some(*id)
        };
        let misses_one = self.tasks.iter().filter_map(is_open).any(|id| !tasks.contains(&id));
        let is_right = is_sorted && !misses_one && *total == tasks.len() as u64;
        notes.demand(is_right, "P5", || format!("a look at what is ready: {tasks:?} of {total}"));
    }

    // ----- submits

    fn judge_submit(&self, tasks: &[NewTask], answer: Option<&Answer>, notes: &mut Notes) {
        let marks = || tasks.iter().filter_map(|task| task.idempotency.as_ref());
        let conflict = marks().any(|mark| {
            let earlier = self.marks.get(&mark.key).and_then(|task| self.tasks.get(task));
            let earlier = earlier.and_then(|task| task.mark.as_ref());
            earlier.is_some_and(|earlier| earlier.fingerprint != mark.fingerprint)
        });
        let is_unknown = |after: &TaskId| !self.tasks.contains_key(after);
        let names_nobody = tasks.iter().any(|task| task.after.iter().any(is_unknown));
        match answer {
            Some(Answer::Refused(Refusal::UnknownDependency { .. })) => {
                notes.demand(names_nobody, "P1", || "a known task was taken for nobody".into());
                notes.happened(Consequence::UnknownDependency);
            }
            Some(Answer::Submitted(_)) if names_nobody => {
                notes.broken("P1", || "a submit after nobody was taken".into());
            }
            Some(Answer::Refused(Refusal::IdempotencyConflict { .. })) => {
                notes.demand(conflict, "P1", || "a conflict without a conflicting key".into());
                notes.happened(Consequence::IdempotencyConflict);
            }
            Some(Answer::Submitted(made)) if !conflict && made.len() == tasks.len() => {
                for (task, made) in tasks.iter().zip(made) {
                    self.judge_submitted(task, *made, notes);
                }
            }
            other => notes.broken("P1", || format!("a submit was answered by {other:?}")),
        }
    }

    fn judge_submitted(&self, task: &NewTask, made: SubmittedTask, notes: &mut Notes) {
        let known = task.idempotency.as_ref().and_then(|mark| self.marks.get(&mark.key));
        let is_right = match known {
            Some(known) => made.existed && made.task == *known,
            None => !made.existed,
        };
        notes.demand(is_right, "P1", || format!("{known:?} was asked for again, got {made:?}"));
        if made.existed {
            notes.happened(Consequence::IdempotentSubmitFound);
        }
    }

    // ----- reports

    fn standing(&self, lease: LeaseId, worker: &WorkerId, now: Timestamp) -> Standing {
        if !self.tasks.contains_key(&lease.task) {
            return Standing::Wrong(Wrong::UnknownTask);
        }
        let Some(known) = self.lease(lease) else { return Standing::Wrong(Wrong::UnknownLease) };
        if known.holder != *worker {
            return Standing::Wrong(Wrong::NotHolder);
        }
        match known.end {
            Some(LeaseEnd::Committed(key)) => Standing::Committed(key),
            Some(LeaseEnd::Lost | LeaseEnd::Returned | LeaseEnd::Stopped | LeaseEnd::GivenBack) => {
                Standing::Lost
            }
            None if known.due() <= now => Standing::Lost,
            None => Standing::Holder,
        }
    }

    fn judge_reports(
        &mut self,
        reports: &[Report],
        answer: Option<&Answer>,
        heard: Heard,
        notes: &mut Notes,
    ) {
        let Some(Answer::Judgements(judgements)) = answer else {
            return notes.broken("P3", || format!("reports were answered by {answer:?}"));
        };
        notes.demand(judgements.len() == reports.len(), "P3", || {
            format!("{} reports, {} verdicts", reports.len(), judgements.len())
        });
        for (report, judgement) in reports.iter().zip(judgements) {
            self.judge_report(report, *judgement, heard, notes);
        }
    }

    fn judge_report(
        &mut self,
        report: &Report,
        judgement: Judgement,
        heard: Heard,
        notes: &mut Notes,
    ) {
        let standing = self.standing(report.lease, &report.worker, heard.now);
        // A report that ends a run stops the other tasks of the run, before the next report of the
        // same command is judged.
        let is_stopped = standing == Standing::Holder
            && self.stopping.contains(&report.lease.task)
            && judgement.verdict == Verdict::Cancelled(LostAuthority::TaskCancelled);
        let is_right = match (standing, judgement.verdict) {
            _ if is_stopped => true,
            (Standing::Holder, Verdict::Committed) => true,
            (Standing::Committed(key), Verdict::Committed) => key == report.key,
            (Standing::Committed(key), Verdict::Rejected(Wrong::DuplicateReport)) => {
                key != report.key
            }
            (Standing::Lost, Verdict::Cancelled(reason)) => self.is_reason(report.lease, reason),
            (Standing::Wrong(expected), Verdict::Rejected(actual)) => expected == actual,
            _ => false,
        };
        let promise = match standing {
            Standing::Committed(_) => "P3",
            Standing::Holder | Standing::Lost | Standing::Wrong(_) => "P4",
        };
        notes.demand(is_right, promise, || {
            let (lease, verdict) = (report.lease, judgement.verdict);
            let (number, epoch) = (lease.task.number(), lease.epoch);
            format!("report of task {number} epoch {epoch} by {}: {verdict:?}, but the facts say {standing:?}", report.worker)
        });
        if standing == Standing::Holder && !is_stopped {
            self.note_commit(report);
        }
        if standing == Standing::Lost {
            self.note_lost(report.lease);
        }
        count_verdict(standing, judgement.verdict, notes);
        let stopped_at = self.tasks.get(&report.lease.task).and_then(|task| task.stopped_at);
        let was_stopped = judgement.verdict == Verdict::Cancelled(LostAuthority::TaskCancelled);
        if was_stopped && stopped_at.is_some_and(|at| heard.sent_at <= at) {
            notes.happened(Consequence::StopRacedComplete);
        }
    }

    /// The next report in the same command must already see this one.
    fn note_commit(&mut self, report: &Report) {
        if let Some(lease) = self.lease_mut(report.lease) {
            lease.end = Some(LeaseEnd::Committed(report.key));
        }
    }

    fn note_lost(&mut self, lease: LeaseId) {
        if let Some(lease) = self.lease_mut(lease).filter(|lease| lease.end.is_none()) {
            lease.end = Some(LeaseEnd::Lost);
        }
    }

    /// Whether this can be why a lease is over.
    fn is_reason(&self, lease: LeaseId, reason: LostAuthority) -> bool {
        let Some(task) = self.tasks.get(&lease.task) else { return false };
        let is_newest = usize::try_from(lease.epoch) == Ok(task.leases.len());
        let was_stopped = self.lease(lease).and_then(|lease| lease.end) == Some(LeaseEnd::Stopped);
        match reason {
            LostAuthority::Expired => is_newest && !was_stopped,
            LostAuthority::Superseded => !is_newest && !was_stopped,
            LostAuthority::TaskCancelled => {
                was_stopped || task.place == Place::Settled(Outcome::Stopped)
            }
            LostAuthority::Reported => false,
        }
    }

    /// After the facts of a step are observed: a report that counted must have moved its task.
    pub(crate) fn check_commits(&self, command: &Command, notes: &mut Notes) {
        let Command::Ask(_, Question::Report { reports }) = command else { return };
        for report in reports {
            let key = report.key;
            let end = self.lease(report.lease).and_then(|lease| lease.end);
            if end != Some(LeaseEnd::Committed(key)) {
                continue;
            }
            let Some(task) = self.tasks.get(&report.lease.task) else { continue };
            let is_newest = usize::try_from(report.lease.epoch) == Ok(task.leases.len());
            let number = report.lease.task.number();
            notes.demand(!(is_newest && task.place == Place::Leased), "P2", || {
                format!("task {number} runs on under a lease that was reported")
            });
            if let ReportedOutcome::Completed { result, .. } = &report.outcome {
                let is_kept = task.place == Place::Settled(Outcome::Completed)
                    && task.result.as_ref() == Some(result);
                notes.demand(is_kept, "P2", || {
                    format!("the committed result of task {number} is not its result")
                });
            }
        }
    }

    // ----- heartbeats

    /// What a worker holds may belong to a process that ended.
    fn note_registered(&mut self, worker: &WorkerId) {
        for lease in self.leases_or_all(worker, None) {
            if let Some(lease) = self.lease_mut(lease) {
                lease.is_doubtful = true;
            }
        }
    }

    /// A worker that names nothing implies what its process was granted, and as many of the newest
    /// others as it counts more.
    fn renewed(&self, worker: &WorkerId, leases: &Renewal, notes: &mut Notes) -> Vec<LeaseId> {
        let n_active = match leases {
            Renewal::Listed(leases) => return leases.clone(),
            Renewal::Unlisted { n_active } => *n_active,
        };
        let is_doubtful = |lease: &LeaseId| self.lease(*lease).is_some_and(|own| own.is_doubtful);
        let held = self.leases_or_all(worker, None);
        let (mut doubtful, mut own): (Vec<_>, Vec<_>) = held.into_iter().partition(is_doubtful);
        doubtful.sort_by_key(|lease| {
            Reverse((self.lease(*lease).map(|lease| lease.granted_at), lease.task))
        });
        let n_counted = n_active.saturating_sub(own.len());
        if doubtful.len() > n_counted {
            notes.happened(Consequence::DoubtfulNotRenewed);
        }
        doubtful.truncate(n_counted);
        own.append(&mut doubtful);
        own
    }

    fn leases_or_all(&self, worker: &WorkerId, leases: Option<&[LeaseId]>) -> Vec<LeaseId> {
        if let Some(leases) = leases {
            return leases.to_vec();
        }
        let held = self.tasks.iter().filter_map(|(id, task)| {
            let is_held = task.place == Place::Leased && task.leases.last()?.holder == *worker;
            let epoch = u32::try_from(task.leases.len()).ok()?;
            is_held.then_some(LeaseId { task: *id, epoch })
        });
        held.collect()
    }

    fn judge_heartbeat(
        &mut self,
        (worker, leases): (&WorkerId, &Renewal),
        answer: Option<&Answer>,
        heard: Heard,
        notes: &mut Notes,
    ) {
        let is_listed = matches!(leases, Renewal::Listed(_));
        let leases = self.renewed(worker, leases, notes);
        let Some(Answer::Heartbeats { verdicts, .. }) = answer else {
            return notes.broken("P3", || format!("a heartbeat was answered by {answer:?}"));
        };
        notes.demand(verdicts.len() == leases.len(), "P3", || {
            format!("{} leases beat, {} verdicts", leases.len(), verdicts.len())
        });
        for (lease, verdict) in leases.iter().zip(verdicts) {
            self.judge_beat((worker, *lease), *verdict, heard, notes);
            let is_named = is_listed && matches!(verdict, HeartbeatVerdict::Extended { .. });
            if is_named && let Some(lease) = self.lease_mut(*lease) {
                lease.is_doubtful = false;
            }
        }
    }

    fn judge_beat(
        &mut self,
        (worker, lease): (&WorkerId, LeaseId),
        verdict: HeartbeatVerdict,
        heard: Heard,
        notes: &mut Notes,
    ) {
        let standing = self.standing(lease, worker, heard.now);
        let is_right = match (standing, verdict) {
            (Standing::Holder, HeartbeatVerdict::Extended { expires_at }) => {
                notes.happened(Consequence::LeaseExtended);
                self.extend(lease, heard.now) == Some(expires_at)
            }
            (Standing::Committed(_), HeartbeatVerdict::Cancelled(reason)) => {
                reason == LostAuthority::Reported
            }
            (Standing::Lost, HeartbeatVerdict::Cancelled(reason)) => self.is_reason(lease, reason),
            (Standing::Wrong(expected), HeartbeatVerdict::Rejected(actual)) => expected == actual,
            _ => false,
        };
        notes.demand(is_right, "P4", || {
            let (number, epoch) = (lease.task.number(), lease.epoch);
            format!("heartbeat of task {number} epoch {epoch} by {worker}: {verdict:?}, but the facts say {standing:?}")
        });
        if standing == Standing::Lost {
            let was_alive = self.lease(lease).is_some_and(|lease| heard.sent_at < lease.due());
            let is_expired = verdict == HeartbeatVerdict::Cancelled(LostAuthority::Expired);
            if was_alive && is_expired {
                notes.happened(Consequence::ExpiredWithHeartbeatInFlight);
            }
            self.note_lost(lease);
        }
    }

    /// A heartbeat in time gives one more term, and never takes any away.
    fn extend(&mut self, lease: LeaseId, now: Timestamp) -> Option<Timestamp> {
        let ttl = self.tasks.get(&lease.task)?.spec.lease_ttl;
        let lease = self.lease_mut(lease)?;
        let term = now.after(ttl);
        let end = lease.attempt_ends_at.map_or(term, |end| end.min(term));
        lease.ends_at = lease.ends_at.max(end);
        lease.confirm_by = None;
        Some(lease.ends_at)
    }

    // ----- people

    fn judge_stop(&self, task: TaskId, answer: Option<&Answer>, notes: &mut Notes) {
        let place = self.tasks.get(&task).map(|task| task.place);
        let is_live = place.is_some_and(|place| !matches!(place, Place::Settled(_)));
        let is_right = match answer {
            Some(Answer::Stopped) => is_live,
            Some(Answer::NotLive) => !is_live,
            _ => false,
        };
        notes.demand(is_right, "P1", || {
            format!("stop of task {} at {place:?}: {answer:?}", task.number())
        });
    }

    fn judge_requeue(&self, task: TaskId, answer: Option<&Answer>, notes: &mut Notes) {
        let place = self.tasks.get(&task).map(|task| task.place);
        let is_of_run = self.tasks.get(&task).is_some_and(|task| task.is_of_run);
        let may = !is_of_run
            && matches!(place, Some(Place::Settled(outcome)) if outcome != Outcome::Completed);
        let is_right = match answer {
            Some(Answer::Requeued) => may,
            Some(Answer::Refused(_)) => !may,
            _ => false,
        };
        notes.demand(is_right, "P1", || {
            format!("requeue of task {} at {place:?}: {answer:?}", task.number())
        });
        if may {
            notes.happened(Consequence::RequeuedByHand);
        }
    }
}

/// The task of a run that this fact stops.
fn stopped(change: &Change) -> Option<TaskId> {
    let Change::TaskSettled { task, progress, .. } = change else { return None };
    let TaskState::Settled(settlement) = &progress.state else { return None };
    (settlement.outcome == Outcome::Stopped).then_some(*task)
}

fn count_verdict(standing: Standing, verdict: Verdict, notes: &mut Notes) {
    notes.happened(match verdict {
        Verdict::Committed if matches!(standing, Standing::Committed(_)) => {
            Consequence::VerdictReplayed
        }
        Verdict::Committed => Consequence::Committed,
        Verdict::Cancelled(LostAuthority::Expired) => Consequence::CancelledExpired,
        Verdict::Cancelled(LostAuthority::Superseded) => Consequence::CancelledSuperseded,
        Verdict::Cancelled(LostAuthority::TaskCancelled) => Consequence::CancelledTaskCancelled,
        Verdict::Rejected(Wrong::UnknownTask) => Consequence::RejectedUnknownTask,
        Verdict::Rejected(Wrong::UnknownLease) => Consequence::RejectedUnknownLease,
        Verdict::Rejected(Wrong::NotHolder) => Consequence::RejectedNotHolder,
        Verdict::Rejected(Wrong::DuplicateReport) => Consequence::RejectedDuplicateReport,
        Verdict::Cancelled(LostAuthority::Reported) => return,
    });
}
