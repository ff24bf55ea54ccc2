//! What goes between a session and the coordinator: reports, requests, grants, verdicts.

use coordinator::{Answer, Command, HeartbeatVerdict, Judgement, LostAuthority};
use model::{LeaseId, Report, RunId, WorkerId};
use protocol::session::kind::Kind;
use protocol::session::payload::run_rebind::Rebind;
use tokio::time::Instant;

use super::super::desk::Question;
use super::super::{answers, convert};
use super::{ASK_AGAIN_AFTER, Asked, Connection, Done, Reported};
use crate::doors::http::answers::verdict_answer;
use crate::handle::{AskError, CoordinatorHandle};

impl Connection {
    /// Sends what this turn gathered to the coordinator: reports first, then the question for
    /// more, so that one turn of the coordinator can answer both.
    pub(super) fn act(&mut self) {
        self.take_events();
        self.say_answers();
        let now = self.now();
        let Some(desk) = &mut self.desk else {
            self.reports = Default::default();
            self.confirmed.clear();
            return;
        };
        let (reported, reports) = std::mem::take(&mut self.reports);
        let confirmed = std::mem::take(&mut self.confirmed);
        let confirmed: Vec<_> =
            confirmed.into_iter().filter(|lease| desk.confirm(*lease)).collect();
        // A worker that does not keep up is given nothing more until it does.
        let question = if self.machine.is_full() { None } else { desk.next_request(now) };
        let (handle, worker, claim) = (desk.handle.clone(), desk.worker.clone(), desk.connection);
        if !reports.is_empty() {
            self.begun.push(Box::pin(judge(handle.clone(), reported, reports)));
        }
        if !confirmed.is_empty() {
            self.begun.push(Box::pin(beat(handle.clone(), worker, confirmed)));
        }
        if let Some(question) = question {
            let asked = Asked { claim, handle, id: question.id };
            self.later(ask(asked, question));
        }
    }

    pub(super) fn take_leases(&mut self, request: Asked, answer: Result<Answer, AskError>) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let Ok(Answer::Leases(grants)) = answer else {
            // The slots stay asked for until the pause is over.
            return self.later(async move {
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
                Done::Leases { request, answer: Ok(Answer::Leases(Vec::new())) }
            });
        };
        let desk = self.desk.as_mut().filter(|desk| desk.connection == request.claim);
        let Some(desk) = desk else {
            // The session that asked is over.
            let leases = grants.iter().map(|grant| grant.lease).collect();
            return request.handle.tell(Command::ReturnLeases { leases });
        };
        desk.answered(request.id);
        if desk.is_doubted && !grants.is_empty() {
            let leases = grants.iter().map(|grant| grant.lease).collect();
            return desk.handle.tell(Command::ReturnLeases { leases });
        }
        let mut n_delivered = 0;
        let mut undelivered = Vec::new();
        for grant in &grants {
            let (seq, wants_ack) = (desk.next_seq(), desk.registered.wants_named_acks);
            let frame =
                answers::dispatch(grant, &desk.registered.offer, seq, (vocabulary, wants_ack));
            let bytes = frame.payload.get().len();
            match self.machine.send(now, frame) {
                Ok(()) => {
                    desk.take(grant);
                    // A lease that is shorter than the pause must be heard of within its own time.
                    self.ping_at = self.ping_at.min(Instant::now() + desk.beat_every);
                    n_delivered += 1;
                }
                Err(error) if error.is_too_large() => {
                    let report = convert::undeliverable(grant.lease, &desk.worker, bytes);
                    self.reports.0.push(Reported { token: None, lease: grant.lease });
                    self.reports.1.push(report);
                }
                Err(_) => undelivered.push(grant.lease),
            }
        }
        desk.note_delivered(n_delivered, undelivered.is_empty());
        if !undelivered.is_empty() {
            desk.handle.tell(Command::ReturnLeases { leases: undelivered });
        }
    }

    pub(super) fn take_judgements(&mut self, reports: Vec<Reported>, judgements: &[Judgement]) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let wants_verdicts = self
            .desk
            .as_ref()
            .is_some_and(|desk| desk.registered.understands.has(Kind::ExecVerdict));
        for (reported, judgement) in reports.into_iter().zip(judgements) {
            let answer = verdict_answer(*judgement);
            let Some(token) = reported.token else { continue };
            self.machine.commit(now, token, Some(answers::info(&answer)));
            if wants_verdicts {
                let frame = answers::verdict(reported.lease, &answer, vocabulary);
                // A session that is full learns the verdict from the ack alone.
                let _ = self.machine.send(now, frame);
            }
        }
    }

    pub(super) fn take_verdicts(&mut self, leases: &[LeaseId], verdicts: &[HeartbeatVerdict]) {
        for (lease, verdict) in leases.iter().zip(verdicts) {
            match verdict {
                HeartbeatVerdict::Extended { .. } => {}
                HeartbeatVerdict::Cancelled(why) => self.cancel(*lease, *why),
                HeartbeatVerdict::Rejected(wrong) => {
                    // A bug, or a lie, on the worker's side; it has no effect.
                    tracing::warn!(worker = self.worker_name(), %lease, ?wrong, "heartbeat refused");
                    if let Some(desk) = &mut self.desk {
                        desk.release(*lease);
                    }
                }
            }
        }
    }

    /// A run is over: what its workers keep for it can go.
    pub(super) fn release(&mut self, run: RunId) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        if self
            .desk
            .as_ref()
            .is_some_and(|desk| desk.registered.understands.has(Kind::ResourceRelease))
        {
            // Should the session be full, what is kept goes by its own time.
            let _ = self.machine.send(now, answers::release(run, vocabulary));
        }
    }

    /// A person gave the work of a run to another worker. The coordinator sees to it that it goes
    /// there: a session that is too full to say so changes nothing.
    pub(super) fn rebind(&mut self, rebind: Rebind) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        if self.desk.as_ref().is_some_and(|desk| desk.registered.understands.has(Kind::RunRebind)) {
            let _ = self.machine.send(now, answers::rebind(rebind, vocabulary));
        }
    }

    /// A lease is over: its worker is to stop.
    pub(super) fn cancel(&mut self, lease: LeaseId, why: LostAuthority) {
        let (now, vocabulary) = (self.now(), self.machine.vocabulary());
        let Some(desk) = &mut self.desk else { return };
        if why == LostAuthority::Expired && desk.is_unconfirmed(lease) {
            desk.is_doubted = true;
            // A worker that lives answers at once.
            self.ping_at = Instant::now();
        }
        let was_held = desk.release(lease);
        if why == LostAuthority::Reported || !was_held {
            return;
        }
        let wants_cancels = desk.registered.understands.has(Kind::ExecCancel);
        self.machine.void(now, &lease.to_string());
        if wants_cancels {
            // Should the session be full, the next heartbeat of the worker says the same.
            let _ = self.machine.send(now, answers::cancel(lease, why, vocabulary));
        }
    }
}

/// Waits for leases, until they are no longer wanted.
async fn ask(asked: Asked, question: Question) -> Done {
    let Question { request, stop, .. } = question;
    let asking = asked.handle.ask(|ticket| Command::RequestLeases { ticket, request });
    let answer = tokio::select! {
        biased;
        answer = asking => answer,
        () = stop.cancelled() => Ok(Answer::Leases(Vec::new())),
    };
    Done::Leases { request: asked, answer }
}

/// Has reports judged, however long the store is in trouble: the frames are acked only then.
pub(super) async fn judge(
    handle: CoordinatorHandle,
    reported: Vec<Reported>,
    reports: Vec<Report>,
) -> Done {
    loop {
        let again = reports.clone();
        match handle.ask(|ticket| Command::Report { ticket, reports: again }).await {
            Ok(Answer::Judgements(judgements)) => {
                return Done::Judged { reports: reported, judgements };
            }
            Err(AskError::Stopping) => return Done::Nothing,
            Ok(_) | Err(AskError::Overloaded | AskError::Unavailable) => {
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        }
    }
}

pub(super) async fn beat(
    handle: CoordinatorHandle,
    worker: WorkerId,
    leases: Vec<LeaseId>,
) -> Done {
    let listed = Some(leases.clone());
    let command = |ticket| Command::Heartbeat { ticket, worker, leases: listed };
    match handle.ask(command).await {
        Ok(Answer::Heartbeats { verdicts, .. }) => Done::Beaten { leases, verdicts },
        Ok(_) | Err(_) => Done::Nothing, // The next sign of life says it again.
    }
}
