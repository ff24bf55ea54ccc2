//! Middlewares: a call of `next` goes to the coordinator, its answer comes back, however long
//! that takes and however often the connection changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{NextCall, NextEnd, Question};
use model::{LeaseId, Timestamp, WorkerId};
use protocol::session::codec::NAME_CHARS_MAX;
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::payload::exec::{NextRequest, NextResponse};

use super::in_flight::Waiting;
use super::next::{self, Words};
use super::session_leases::ChainPlace;
use super::session_leases::calls::Opening;
use super::{LinkAsk, WorkerLink};
use crate::sessions::Call;

impl WorkerLink {
    /// The frame is confirmed at once, for its answer may take hours. Should this process end
    /// before the call is durable, the worker makes it again when it is back.
    pub(super) fn on_next(
        &mut self,
        now: Timestamp,
        token: CommitToken,
        frame: &BusinessFrame,
        request: &NextRequest,
    ) {
        self.machine.commit(now, token, None);
        let lease = self.find_caller(frame, request);
        let call = match lease.and_then(|lease| self.read_call(now, lease, request)) {
            Ok(call) => Arc::new(call),
            Err(words) => return self.say(now, &next::refusal(request, words)),
        };
        let Some(session) = &mut self.session else { return };
        // Who calls has its dispatch, whatever became of the ack.
        self.confirmed.push(call.lease);
        session.keep(call.lease);
        self.open_call(now, &call);
    }

    /// By the dispatch that it answers or by its task; where it names neither, by itself.
    fn find_caller(&self, frame: &BusinessFrame, request: &NextRequest) -> Result<LeaseId, Words> {
        let by_frame = self.find_lease(frame, None).ok();
        let by_name = || {
            let session = self.session.as_ref()?;
            session.lease_of_middleware(&request.run_id, &request.middleware_id)
        };
        by_frame.or_else(by_name).ok_or(next::NO_CALLER)
    }

    fn read_call(
        &self,
        now: Timestamp,
        lease: LeaseId,
        request: &NextRequest,
    ) -> Result<Call, Words> {
        if request.request_id.chars().count() > NAME_CHARS_MAX {
            return Err(next::LONG_NAME);
        }
        let place = self.session.as_ref().and_then(|session| session.place_of(lease));
        // Where the place in the chain is not known, the caller is believed.
        let is_for_host = place.is_none_or(ChainPlace::is_before_host);
        let until = request.timeout_ms.filter(|ms| *ms > 0);
        Ok(Call {
            lease,
            request: request.request_id.as_str().into(),
            run_id: request.run_id.clone(),
            node_id: request.node_id.clone(),
            middleware_id: request.middleware_id.clone(),
            payload: next::merged(request, is_for_host).ok_or(next::BAD_PAYLOAD)?,
            until: until.map(|ms| now.after(Duration::from_millis(ms))),
        })
    }

    /// Asks for a call, unless that is under way.
    pub(super) fn open_call(&mut self, now: Timestamp, call: &Arc<Call>) {
        let request = self.in_flight.new_id();
        let Some(session) = &mut self.session else { return };
        match session.calls.open(call, request) {
            Opening::Open => {
                let worker = session.owner.worker.clone();
                let question = question(call, &worker);
                self.in_flight.add(request, Waiting::Next { call: Arc::clone(call), worker });
                self.asks.push_back(LinkAsk::Ask { request, question });
            }
            Opening::Known => {}
            Opening::TooMany => {
                let refused = NextEnd::NotAllowed {
                    code: "next_unavailable",
                    reason: "this middleware has too many calls open; await some of them first",
                };
                self.say(now, &next::answer(call, &refused));
            }
        }
    }

    /// The next in line has come to its end. The answer is kept until the session takes it.
    pub(super) fn take_next(&mut self, now: Timestamp, call: &Arc<Call>, end: &NextEnd) {
        if self.waits_for(call) {
            self.answers.push_back((Arc::clone(call), next::answer(call, end)));
            self.say_answers(now);
        }
    }

    /// A middleware that is done, or an earlier session, waits for nothing any more.
    pub(super) fn waits_for(&self, call: &Arc<Call>) -> bool {
        self.session.as_ref().is_some_and(|session| session.calls.is_open(call))
    }

    /// Sends what has an answer, as far as the session has room. Until then the call is open: a
    /// worker that comes back over another connection is answered there.
    pub(super) fn say_answers(&mut self, now: Timestamp) {
        while let Some(session) = &mut self.session
            && !self.machine.is_full()
            && let Some((call, response)) = self.answers.pop_front()
        {
            if !session.calls.is_open(&call) {
                continue;
            }
            let vocabulary = self.machine.vocabulary();
            let sent = self.machine.send(now, next::frame(&response, vocabulary));
            match sent {
                Ok(()) => session.calls.close(&call),
                Err(error) if error.is_too_large() => {
                    let response = next::too_large(&call);
                    self.answers.push_front((call, response));
                }
                Err(_) => return self.answers.push_front((call, response)),
            }
        }
    }

    /// Says something that need not be kept: its worker asks again.
    fn say(&mut self, now: Timestamp, response: &NextResponse) {
        let frame = next::frame(response, self.machine.vocabulary());
        let _ = self.machine.send(now, frame);
    }
}

/// The question for a call. The coordinator recognises one that it has seen.
pub(super) fn question(call: &Call, worker: &WorkerId) -> Question {
    let call = NextCall {
        lease: call.lease,
        worker: worker.clone(),
        request: Arc::clone(&call.request),
        payload: call.payload.clone(),
        until: call.until,
    };
    Question::Next { call: Box::new(call) }
}
