//! Calls of `next`: out to the server, and back to the attempts that wait.

use std::sync::Arc;

use protocol::session::kind::Kind;
use protocol::session::payload::next::{NextRequest, NextResponse};

use super::Link;
use crate::next::{Calling, NextFailure};
use crate::session::attempt::Number;
use crate::session::desk::{Admitted, Phase};
use crate::session::frames::RESULT_BYTES_MAX;

/// A call that no frame can carry.
const INVALID: &str = "next_invalid_request";

impl Link {
    pub(super) fn on_call(&mut self, number: Number, calling: Calling) {
        // Work that was stopped meanwhile is told so by its own token.
        if !self.parts.desk.wait(number) {
            return;
        }
        let Some(entry) = self.parts.desk.get(number) else { return };
        let Some(place) = entry.place.as_deref() else { return };
        let request = self.calls.open(number, &entry.errand, place, calling);
        self.call(number, &request);
    }

    /// Sends a call, for the first time or again: the server knows it by its name.
    fn call(&mut self, number: Number, request: &Arc<NextRequest>) {
        let Some(entry) = self.parts.desk.get(number) else { return };
        let frame = self.namer.next(&entry.errand, request);
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
            let entry = self.parts.desk.get(number);
            if entry.is_some_and(|entry| matches!(entry.phase, Phase::Calling { .. })) {
                self.call(number, &request);
            }
        }
    }

    pub(super) fn on_next_response(&mut self, response: NextResponse) {
        if let Some(number) = self.calls.answer(response) {
            self.on_answer(number);
        } else {
            tracing::debug!("an answer came that nobody waits for");
        }
    }

    fn on_answer(&mut self, number: Number) {
        if self.parts.desk.answered(number) {
            // It waits for more, or needs no slot: it hears this at once.
            self.calls.deliver(number);
        }
    }

    /// Gives free slots to those who wait for one: first those who come back from `next`.
    pub(super) fn admit(&mut self) {
        while let Some(admitted) = self.parts.desk.admit() {
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
        let is_over = self.parts.desk.get(number).is_none_or(|entry| {
            matches!(entry.phase, Phase::Ended { .. } | Phase::Stopping { .. })
        });
        if is_over {
            self.calls.forget(number);
        }
    }
}
