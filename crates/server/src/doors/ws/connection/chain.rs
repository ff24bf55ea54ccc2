//! Middlewares: a call of `next` goes to the coordinator, its answer comes back, however long
//! that takes and however often the connection changes meanwhile.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{Answer, Command, NextCall, NextEnd};
use model::{LeaseId, WorkerId};
use protocol::session::decode::NAME_CHARS_MAX;
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::payload::next::NextRequest;
use tokio_util::sync::CancellationToken;

use super::super::desk::ChainPlace;
use super::super::desk::calls::Opening;
use super::super::next::{self, Words};
use super::{ASK_AGAIN_AFTER, Connection, Done};
use crate::handle::{AskError, CoordinatorHandle};
use crate::sessions::Call;

impl Connection {
    /// The frame is confirmed at once, for its answer may take hours. Should this process end
    /// before the call is durable, the worker makes it again when it is back.
    pub(super) fn on_next(
        &mut self,
        token: CommitToken,
        frame: &BusinessFrame,
        request: &NextRequest,
    ) {
        self.machine.commit(self.now(), token, None);
        let lease = self.find_caller(frame, request);
        let call = match lease.and_then(|lease| self.read_call(lease, request)) {
            Ok(call) => Arc::new(call),
            Err(words) => return self.say(&next::refusal(request, words)),
        };
        let Some(desk) = &mut self.desk else { return };
        // Who calls has its dispatch, whatever became of the ack.
        self.confirmed.push(call.lease);
        desk.keep(call.lease);
        self.open_call(&call);
    }

    /// By the dispatch that it answers or by its task; where it names neither, by itself.
    fn find_caller(&self, frame: &BusinessFrame, request: &NextRequest) -> Result<LeaseId, Words> {
        let by_frame = self.find_lease(frame, None).ok();
        let by_name = || {
            let desk = self.desk.as_ref()?;
            desk.lease_of_middleware(&request.run_id, &request.middleware_id)
        };
        by_frame.or_else(by_name).ok_or(next::NO_CALLER)
    }

    fn read_call(&self, lease: LeaseId, request: &NextRequest) -> Result<Call, Words> {
        if request.request_id.chars().count() > NAME_CHARS_MAX {
            return Err(next::LONG_NAME);
        }
        let place = self.desk.as_ref().and_then(|desk| desk.place_of(lease));
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
            until: until.map(|ms| self.now().after(Duration::from_millis(ms))),
        })
    }

    /// Asks for a call, unless that is under way.
    pub(super) fn open_call(&mut self, call: &Arc<Call>) {
        let Some(desk) = &mut self.desk else { return };
        match desk.calls.open(call) {
            Opening::Open(stop) => {
                let (handle, worker) = (desk.handle.clone(), desk.worker.clone());
                let asking = ask(handle, worker, Arc::clone(call), stop);
                self.later(asking);
            }
            Opening::Known => {}
            Opening::TooMany => self.say(&next::answer(
                call,
                &NextEnd::NotAllowed {
                    code: "next_unavailable",
                    reason: "this middleware has too many calls open; await some of them first",
                },
            )),
        }
    }

    /// The next in line has come to its end. The answer is kept until the session takes it.
    pub(super) fn take_next(&mut self, call: &Arc<Call>, end: &NextEnd) {
        // A middleware that is done, or an earlier session, waits for nothing any more.
        if self.desk.as_ref().is_some_and(|desk| desk.calls.is_open(call)) {
            self.answers.push_back((Arc::clone(call), next::answer(call, end)));
            self.say_answers();
        }
    }

    /// Sends what has an answer, as far as the session has room. Until then the call is open: a
    /// worker that comes back over another connection is answered there.
    pub(super) fn say_answers(&mut self) {
        let now = self.now();
        while let Some(desk) = &mut self.desk
            && !self.machine.is_full()
            && let Some((call, response)) = self.answers.pop_front()
        {
            if !desk.calls.is_open(&call) {
                continue;
            }
            let vocabulary = self.machine.vocabulary();
            let sent = self.machine.send(now, next::frame(&response, vocabulary));
            match sent {
                Ok(()) => desk.calls.close(&call),
                Err(error) if error.is_too_large() => {
                    let response = next::too_large(&call);
                    self.answers.push_front((call, response));
                }
                Err(_) => return self.answers.push_front((call, response)),
            }
        }
    }

    /// Says something that need not be kept: its worker asks again.
    fn say(&mut self, response: &next::Response) {
        let frame = next::frame(response, self.machine.vocabulary());
        let _ = self.machine.send(self.now(), frame);
    }
}

/// Asks until there is an answer. The coordinator recognises a call that it has seen.
async fn ask(
    handle: CoordinatorHandle,
    worker: WorkerId,
    call: Arc<Call>,
    stop: CancellationToken,
) -> Done {
    loop {
        let next = NextCall {
            lease: call.lease,
            worker: worker.clone(),
            request: Arc::clone(&call.request),
            payload: call.payload.clone(),
            until: call.until,
        };
        let asking = handle.ask(|ticket| Command::Next { ticket, call: Box::new(next) });
        let answer = tokio::select! {
            answer = asking => answer,
            () = stop.cancelled() => return Done::Nothing,
        };
        match answer {
            Ok(Answer::Next(end)) => return Done::Next { call, end },
            Err(AskError::Stopping) => return Done::Nothing,
            Ok(_) | Err(AskError::Overloaded | AskError::Unavailable) => {
                tokio::select! {
                    () = tokio::time::sleep(ASK_AGAIN_AFTER) => {}
                    () = stop.cancelled() => return Done::Nothing,
                }
            }
        }
    }
}
