//! What goes between a session and the coordinator: reports, requests, grants, verdicts.

use coordinator::{
    Answer, Command, Grant, HeartbeatVerdict, Judgement, LostAuthority, NextEnd, Question, Renewal,
};
use model::{LeaseId, RunId, Timestamp, WorkerId};
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload};
use protocol::session::payload::exec::Rebind;
use protocol::session::payload::resource::ReadRequest;

use super::event::LinkEvent;
use super::in_flight::{Reported, RequestId, Waiting};
use super::{LinkAsk, Unanswered, WorkerLink, answers, convert};
use crate::verdict_words::verdict_answer;

impl WorkerLink {
    /// Asks the coordinator for what this turn gathered: reports first, then the question for more,
    /// so that one turn of the coordinator can answer both.
    pub fn act(&mut self, now: Timestamp) {
        self.take_events(now);
        self.say_answers(now);
        let Some(session) = &mut self.session else {
            self.reports = Default::default();
            self.confirmed.clear();
            return;
        };
        let confirmed = std::mem::take(&mut self.confirmed);
        let confirmed: Vec<_> =
            confirmed.into_iter().filter(|lease| session.confirm(*lease)).collect();
        // A worker that does not keep up is given nothing more until it does.
        let is_taking = !self.machine.is_full() && self.leaving.is_none();
        let in_flight = &mut self.in_flight;
        let question =
            if is_taking { session.next_request(now, || in_flight.new_id()) } else { None };
        let worker = session.owner.worker.clone();
        let withdrawn = std::mem::take(&mut session.withdrawn);
        self.ask_verdicts();
        if !confirmed.is_empty() {
            self.beat(worker, confirmed, true);
        }
        for request in withdrawn.into_iter().filter(|request| self.in_flight.is_out(*request)) {
            self.asks.push_back(LinkAsk::Withdraw { request });
        }
        if let Some((request, question)) = question {
            self.in_flight.add(request, Waiting::Leases);
            let question = Question::RequestLeases { request: question };
            self.asks.push_back(LinkAsk::Ask { request, question });
        }
    }

    fn ask_verdicts(&mut self) {
        let (reported, reports) = std::mem::take(&mut self.reports);
        if reports.is_empty() {
            return;
        }
        let request = self.in_flight.new_id();
        let question = Question::Report { reports: reports.clone() };
        self.in_flight.add(request, Waiting::Verdicts { reported, reports });
        self.asks.push_back(LinkAsk::Ask { request, question });
    }

    pub(super) fn beat(&mut self, worker: WorkerId, leases: Vec<LeaseId>, is_of_frames: bool) {
        let request = self.in_flight.new_id();
        let renewed = Renewal::Listed(leases.clone());
        let question = Question::Heartbeat { worker, leases: renewed };
        self.in_flight.add(request, Waiting::Heartbeat { leases, is_of_frames });
        self.asks.push_back(LinkAsk::Ask { request, question });
    }

    /// The coordinator answered; what the answer says is durable.
    pub fn on_answer(&mut self, now: Timestamp, request: RequestId, answer: Answer) {
        match (self.in_flight.remove(request), answer) {
            (Some(Waiting::Leases), Answer::Leases(grants)) => {
                self.take_leases(now, request, &grants);
            }
            // The session that asked is over.
            (_, Answer::Leases(grants)) => self.return_leases(&grants),
            (Some(Waiting::Verdicts { reported, .. }), Answer::Judgements(judgements)) => {
                self.take_judgements(now, reported, &judgements);
            }
            (Some(Waiting::Heartbeat { leases, .. }), Answer::Heartbeats { verdicts, .. }) => {
                self.take_verdicts(now, &leases, &verdicts);
            }
            (Some(Waiting::Next { call, worker }), Answer::Next(end)) => {
                if !matches!(*end, NextEnd::AskedAgain) {
                    self.take_next(now, &call, &end);
                } else if self.waits_for(&call) {
                    // By a connection that has ended, whose question came late.
                    self.keep_asking(now, request, Waiting::Next { call, worker });
                }
            }
            // Refusals of a coordinator that is full; what must be known is asked again.
            (Some(waiting), _) => self.keep_asking(now, request, waiting),
            (None, _) => {}
        }
        self.take_events(now);
    }

    /// The coordinator did not answer.
    pub fn on_unanswered(&mut self, now: Timestamp, request: RequestId, why: Unanswered) {
        let Some(waiting) = self.in_flight.remove(request) else { return };
        match why {
            Unanswered::Unavailable => self.keep_asking(now, request, waiting),
            // Frames stay unconfirmed: their worker repeats them to whoever serves it next.
            Unanswered::Stopping => {}
        }
    }

    /// Reports are judged however long the store is in trouble: their frames are acked only then.
    fn keep_asking(&mut self, now: Timestamp, request: RequestId, waiting: Waiting) {
        match waiting {
            Waiting::Leases | Waiting::Verdicts { .. } | Waiting::Next { .. } => {
                self.in_flight.add(request, waiting);
                self.in_flight.ask_again(now, request);
            }
            // The next sign of life, or the next change, says it again.
            Waiting::Heartbeat { .. } | Waiting::Drain | Waiting::Feedback { .. } => {}
        }
    }

    /// The pause before a question is over.
    pub(super) fn ask_again(&mut self, request: RequestId) {
        let question = match self.in_flight.get(request) {
            Some(Waiting::Verdicts { reports, .. }) => {
                Question::Report { reports: reports.clone() }
            }
            Some(Waiting::Next { call, worker }) => super::middleware::question(call, worker),
            Some(Waiting::Leases) => {
                // The slots stayed asked for until now; the next turn asks for them anew.
                self.in_flight.remove(request);
                if let Some(session) = &mut self.session {
                    session.answered(request);
                }
                return;
            }
            Some(Waiting::Heartbeat { .. } | Waiting::Feedback { .. } | Waiting::Drain) | None => {
                return;
            }
        };
        self.asks.push_back(LinkAsk::Ask { request, question });
    }

    fn return_leases(&mut self, grants: &[Grant]) {
        if !grants.is_empty() {
            let leases = grants.iter().map(|grant| grant.lease).collect();
            self.asks.push_back(LinkAsk::Tell(Command::ReturnLeases { leases }));
        }
    }

    fn take_leases(&mut self, now: Timestamp, request: RequestId, grants: &[Grant]) {
        let Some(session) = &mut self.session else { return self.return_leases(grants) };
        session.answered(request);
        if session.is_doubted || self.leaving.is_some() {
            return self.return_leases(grants);
        }
        let vocabulary = self.machine.vocabulary();
        let mut n_delivered = 0;
        let mut undelivered = Vec::new();
        for grant in grants {
            let (seq, wants_ack) = (session.next_seq(), session.registered.wants_named_acks);
            let frame =
                answers::dispatch(grant, &session.registered.offer, seq, (vocabulary, wants_ack));
            let bytes = frame.payload.get().len();
            match self.machine.send(now, frame) {
                Ok(()) => {
                    session.take(grant);
                    // A lease that is shorter than the pause must be heard of within its own time.
                    self.ping_at = self.ping_at.min(now.after(session.beat_every));
                    n_delivered += 1;
                }
                Err(error) if error.is_too_large() => {
                    let report = convert::undeliverable(grant.lease, &session.owner.worker, bytes);
                    self.reports.0.push(Reported { token: None, lease: grant.lease });
                    self.reports.1.push(report);
                }
                Err(_) => undelivered.push(grant.lease),
            }
        }
        session.note_delivered(n_delivered, undelivered.is_empty());
        if !undelivered.is_empty() {
            let leases = undelivered;
            self.asks.push_back(LinkAsk::Tell(Command::ReturnLeases { leases }));
        }
    }

    fn take_judgements(
        &mut self,
        now: Timestamp,
        reported: Vec<Reported>,
        judgements: &[Judgement],
    ) {
        let vocabulary = self.machine.vocabulary();
        let wants_verdicts = self.understands(Kind::ExecVerdict);
        for (reported, judgement) in reported.into_iter().zip(judgements) {
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

    fn take_verdicts(&mut self, now: Timestamp, leases: &[LeaseId], verdicts: &[HeartbeatVerdict]) {
        for (lease, verdict) in leases.iter().copied().zip(verdicts) {
            match *verdict {
                HeartbeatVerdict::Extended { .. } => {}
                HeartbeatVerdict::Cancelled(why) => self.cancel(now, lease, why),
                HeartbeatVerdict::Rejected(violation) => {
                    self.events.push_back(LinkEvent::HeartbeatRejected { lease, violation });
                    if let Some(session) = &mut self.session {
                        session.release(lease);
                    }
                }
            }
        }
    }

    fn understands(&self, kind: Kind) -> bool {
        self.session.as_ref().is_some_and(|session| session.registered.understands.has(kind))
    }

    /// A run is over: what its workers keep for it can go.
    pub(super) fn release(&mut self, now: Timestamp, run: RunId) {
        if self.understands(Kind::ResourceRelease) {
            let frame = answers::release(run, self.machine.vocabulary());
            // Should the session be full, what is kept goes by its own time.
            let _ = self.machine.send(now, frame);
        }
    }

    /// A person gave the work of a run to another worker. The coordinator sees to it that it goes
    /// there: a session that is too full to say so changes nothing.
    pub(super) fn rebind(&mut self, now: Timestamp, rebind: Rebind) {
        if self.understands(Kind::RunRebind) {
            self.named += 1;
            let mark = format!("{:016x}-{}", self.options.seed, self.named);
            let frame = answers::rebind(rebind, &mark, self.machine.vocabulary());
            let _ = self.machine.send(now, frame);
        }
    }

    /// A lease is over: its worker is to stop.
    pub(super) fn cancel(&mut self, now: Timestamp, lease: LeaseId, why: LostAuthority) {
        let vocabulary = self.machine.vocabulary();
        let Some(session) = &mut self.session else { return };
        if why == LostAuthority::Expired && session.is_unconfirmed(lease) {
            session.is_doubted = true;
            // A worker that lives answers at once.
            self.ping_at = now;
        }
        let was_held = session.release(lease);
        if why == LostAuthority::Reported || !was_held {
            return;
        }
        let wants_cancels = session.registered.understands.has(Kind::ExecCancel);
        self.machine.void(now, &lease.to_string());
        if wants_cancels {
            // Should the session be full, the next heartbeat of the worker says the same.
            let _ = self.machine.send(now, answers::cancel(lease, why, vocabulary));
        }
    }

    /// Asks the worker for a part of a resource; gives the number that [`read_number`] finds in the
    /// chunk that answers it. `None` where the session has no room for the question.
    pub fn read(
        &mut self,
        now: Timestamp,
        resource_id: String,
        (offset, length): (u64, u64),
    ) -> Option<u64> {
        if self.machine.is_full() {
            return None;
        }
        self.named += 1;
        let number = self.named;
        let request_id = format!("{READ_NAME}{number}");
        let (id, corr) = (format!("resource.{request_id}"), request_id.clone());
        let request = ReadRequest { request_id, resource_id, offset, length };
        let payload = Payload::ResourceReadRequest(request);
        let frame = BusinessFrame::saying(&payload, self.machine.vocabulary(), id, corr);
        self.machine.send(now, frame).is_ok().then_some(number)
    }
}

/// How reads of resources are named.
const READ_NAME: &str = "read-";

/// The number of the read that a chunk answers.
pub fn read_number(request_id: &str) -> Option<u64> {
    request_id.strip_prefix(READ_NAME)?.parse().ok()
}
