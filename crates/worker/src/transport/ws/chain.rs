//! Calls of `next`: out to the server, and back to the attempts that wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::session::kind::Kind;
use protocol::session::payload::exec::{NextRequest, NextResponse};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::frames::RESULT_BYTES_MAX;
use super::session::Link;
use crate::core::in_flight::{Admitted, LeasedTask, Number, Phase};
use crate::core::next::{Calling, ChainPlace, NextAnswer, NextFailure};

/// A call that no frame can carry.
const INVALID: &str = "next_invalid_request";

impl Link {
    pub(super) fn on_call(&mut self, number: Number, calling: Calling) {
        // Work that was stopped meanwhile is told so by its own token.
        if !self.in_flight.wait(number) {
            return;
        }
        let Some(entry) = self.in_flight.get(number) else { return };
        let Some(place) = entry.place.as_deref() else { return };
        let request = self.calls.open(number, &entry.leased, place, calling);
        self.call(number, &request);
    }

    /// Sends a call, for the first time or again: the server knows it by its name.
    fn call(&mut self, number: Number, request: &Arc<NextRequest>) {
        let Some(entry) = self.in_flight.get(number) else { return };
        let frame = self.namer.next(&entry.leased, request);
        let bytes = frame.payload.get().len();
        if bytes <= RESULT_BYTES_MAX {
            return self.post(frame);
        }
        let why = format!("a call of {bytes} bytes is more than the {RESULT_BYTES_MAX} of a frame");
        if let Some(number) = self.calls.refuse(request, NextFailure::new(INVALID, &why)) {
            self.on_answer(number);
        }
    }

    /// The server may have lost what it was told on the connection before.
    pub(super) fn call_again(&mut self) {
        self.backlog.retain(|frame| frame.kind != Kind::NextRequest.name());
        let unanswered: Vec<_> = self.calls.unanswered().map(|(n, r)| (n, Arc::clone(r))).collect();
        for (number, request) in unanswered {
            let entry = self.in_flight.get(number);
            if entry.is_some_and(|entry| matches!(entry.phase, Phase::Calling { .. })) {
                self.call(number, &request);
            }
        }
    }

    pub(super) fn on_next_response(&mut self, response: NextResponse) {
        if let Some(number) = self.calls.answer(response) {
            self.on_answer(number);
        } else {
            tracing::debug!("answer without an open call dropped");
        }
    }

    fn on_answer(&mut self, number: Number) {
        if self.in_flight.answered(number) {
            // It waits for more, or needs no slot: it hears this at once.
            self.calls.deliver(number);
        }
    }

    /// Gives free slots to those who wait for one: first those who come back from `next`.
    pub(super) fn admit(&mut self) {
        while let Some(admitted) = self.in_flight.admit() {
            match admitted {
                Admitted::Back(number) => self.calls.deliver(number),
                Admitted::Start(start) => {
                    self.tasks.spawn((*start).run());
                }
            }
        }
    }

    /// Forgets the calls of an attempt that is over.
    pub(super) fn end_calls(&mut self, number: Number) {
        let is_over = self.in_flight.get(number).is_none_or(|entry| {
            matches!(entry.phase, Phase::Ended { .. } | Phase::Stopping { .. })
        });
        if is_over {
            self.calls.forget(number);
        }
    }
}

/// Calls by their numbers, which rise as long as the process lives: the server recognises a call
/// that is made again by its name.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: BTreeMap<u64, Open>,
    next: u64,
}

#[derive(Debug)]
struct Open {
    attempt: Number,
    request: Arc<NextRequest>,
    reply: oneshot::Sender<NextAnswer>,
    /// The answer, where it came; the attempt hears it when it has a slot.
    answer: Option<NextAnswer>,
}

const NAME: &str = "next-";

impl Calls {
    /// Opens a call; gives what is to be sent.
    pub(crate) fn open(
        &mut self,
        attempt: Number,
        leased: &LeasedTask,
        place: &ChainPlace,
        calling: Calling,
    ) -> Arc<NextRequest> {
        let Calling { words, reply } = calling;
        let number = self.next;
        self.next += 1;
        let timeout = words.timeout.map(|timeout| timeout.as_millis().max(1));
        let request = Arc::new(NextRequest {
            request_id: format!("{NAME}{number}"),
            run_id: leased.run_id.clone(),
            node_id: place.host_node_id.clone(),
            middleware_id: leased.node_id.clone(),
            chain_index: place.index,
            host_ctx: None,
            middleware_ctx: None,
            payload: words.payload,
            timeout_ms: timeout.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        });
        let open = Open { attempt, request: Arc::clone(&request), reply, answer: None };
        self.open.insert(number, open);
        request
    }

    /// An answer came. Gives whose it is; `None` if nobody waits for it.
    pub(crate) fn answer(&mut self, response: NextResponse) -> Option<Number> {
        let number: u64 = response.request_id.strip_prefix(NAME)?.parse().ok()?;
        let open = self.open.get_mut(&number).filter(|open| open.answer.is_none())?;
        open.answer = Some(answer_of(response));
        Some(open.attempt)
    }

    /// The attempt goes on: it hears what was answered.
    pub(crate) fn deliver(&mut self, attempt: Number) {
        let is_due = |_: &u64, open: &mut Open| open.attempt == attempt && open.answer.is_some();
        for (_, open) in self.open.extract_if(.., is_due) {
            if let Some(answer) = open.answer {
                // Whoever went on without it does not mind.
                let _ = open.reply.send(answer);
            }
        }
    }

    /// A call that could not be sent is answered at once.
    pub(crate) fn refuse(&mut self, request: &NextRequest, failure: NextFailure) -> Option<Number> {
        let number: u64 = request.request_id.strip_prefix(NAME)?.parse().ok()?;
        let open = self.open.get_mut(&number)?;
        open.answer = Some(Err(failure));
        Some(open.attempt)
    }

    /// The attempt is over, and waits for nothing.
    pub(crate) fn forget(&mut self, attempt: Number) {
        self.open.retain(|_, open| open.attempt != attempt);
    }

    /// The calls without an answer, oldest first.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (Number, &Arc<NextRequest>)> {
        let open = self.open.values().filter(|open| open.answer.is_none());
        open.map(|open| (open.attempt, &open.request))
    }
}

fn answer_of(response: NextResponse) -> NextAnswer {
    #[derive(Deserialize)]
    struct Trace {
        code: Option<String>,
    }
    let result = response.result.map(protocol::session::codec::OpenObject::into_raw);
    let Some(error) = response.error else { return Ok(result.unwrap_or_default()) };
    let trace = response.trace.as_ref();
    let trace = trace.and_then(|trace| serde_json::from_str::<Trace>(trace.get()).ok());
    let cause = trace.and_then(|trace| trace.code);
    Err(NextFailure { code: error.code, message: error.message, cause, result })
}
