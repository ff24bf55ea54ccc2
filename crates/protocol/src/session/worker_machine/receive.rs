//! What the worker's machine does with each frame that comes in.

use std::time::Duration;

use model::Timestamp;

use super::super::control_queue::{Named, acked_name};
use super::super::envelope::{Envelope, SenderRole};
use super::super::event::WorkerEvent;
use super::super::frame::asks_for_ack;
use super::super::kind::{Kind, Payload, decode_as};
use super::super::outgoing::Gap;
use super::super::payload::control::{Accept, Ack, Drain, Reset};
use super::super::state::State;
use super::super::window::{Delivery, Receipt};
use super::{ACCEPT_TIMEOUT, Connection, Phase, WorkerMachine};
use crate::error_code::ErrorCode;

impl WorkerMachine {
    /// Takes a frame that came over a connection.
    pub fn receive(&mut self, now: Timestamp, connection: Connection, frame: Envelope) {
        self.controls.at(now);
        let is_current = connection == self.connection && self.is_connected();
        if !is_current || frame.sender.role != SenderRole::Scheduler {
            return;
        }
        if frame.tenant != self.controls.speaker.tenant {
            return;
        }
        match Kind::from_name(&frame.kind) {
            Some(Kind::Ack) => self.on_ack(&frame),
            Some(Kind::Accept) => self.on_accept(&frame),
            // Seed 001 turns workers away by an error; servers have no other use for one.
            Some(Kind::Reset | Kind::ExecError) => self.on_reset(&frame),
            Some(Kind::Drain) => self.on_drain(&frame),
            Some(Kind::Handshake | Kind::Register | Kind::Resume | Kind::Heartbeat) => {
                self.ack_if_asked(&frame);
            }
            None if frame.kind.starts_with("control.") => self.ack_if_asked(&frame),
            // Business frames, known and unknown, are carried without being looked into.
            _ => self.on_business(frame),
        }
    }

    fn ack_if_asked(&mut self, frame: &Envelope) {
        if asks_for_ack(frame) {
            self.controls.ack(Named::of(frame), None);
        }
    }

    fn on_ack(&mut self, frame: &Envelope) {
        let Ok(ack) = Ack::of_frame(&frame.payload) else { return };
        let receipt = Receipt::of_ack(&ack);
        let name = acked_name(frame, &ack);
        match self.state {
            State::Handshaking => self.on_handshake_ack(name.as_deref(), receipt),
            State::Registered => self.on_register_ack(name.as_deref()),
            State::Ready | State::Draining => self.on_business_ack(name, receipt, ack.info),
            State::New | State::Closed | State::Backoff => {}
        }
    }

    fn on_handshake_ack(&mut self, name: Option<&str>, receipt: Option<Receipt>) {
        let Phase::Handshaking(ask) = &mut self.phase else { return };
        if name != Some(ask.frame.id.as_str()) || ask.is_acked {
            return;
        }
        if ask.kind == Kind::Resume {
            ask.is_acked = true;
            ask.receipt = receipt;
            ask.due = self.controls.now.after(ACCEPT_TIMEOUT);
            return;
        }
        let ask = self.ask(Kind::Register, self.register.clone(), Vec::new());
        self.step(Phase::Registered(ask));
    }

    fn on_register_ack(&mut self, name: Option<&str>) {
        let Phase::Registered(ask) = &mut self.phase else { return };
        if name == Some(ask.frame.id.as_str()) && !ask.is_acked {
            ask.is_acked = true;
            ask.due = self.controls.now.after(ACCEPT_TIMEOUT);
        }
    }

    fn on_business_ack(
        &mut self,
        name: Option<String>,
        receipt: Option<Receipt>,
        info: Option<String>,
    ) {
        let now = self.controls.now;
        let confirmed = match (receipt, &name) {
            (Some(receipt), _) => self.windows.outgoing.on_receipt(now, receipt),
            (None, Some(id)) => self.windows.outgoing.on_named(now, id),
            (None, None) => return,
        };
        // Late acks of the handshake and its kin say nothing to the layer above.
        if let Some(id) = name.filter(|id| !id.starts_with("control.")) {
            self.events.push_back(WorkerEvent::Answered { id, info });
        }
        self.had_business |= !confirmed.is_empty();
        self.confirm(confirmed);
    }

    fn confirm(&mut self, confirmed: Vec<String>) {
        self.events.extend(confirmed.into_iter().map(|id| WorkerEvent::Acked { id }));
    }

    fn on_accept(&mut self, frame: &Envelope) {
        let Ok(accept) = decode_as::<Accept>(&frame.payload) else { return };
        let (Phase::Handshaking(ask) | Phase::Registered(ask)) = &self.phase else { return };
        // An answer to an older question must not open a session that the server has replaced.
        if frame.corr.as_ref().is_some_and(|corr| *corr != ask.frame.id) {
            return;
        }
        if ask.kind == Kind::Handshake {
            return;
        }
        let is_resumed = ask.kind == Kind::Resume && accept.resumed == Some(true);
        let place = ask.receipt.map(|receipt| receipt.ack_seq);
        if is_resumed {
            match self.windows.outgoing.resume(place) {
                Ok(confirmed) => self.confirm(confirmed),
                Err(Gap) => return self.lose_place(),
            }
        } else if self.session.is_some() {
            self.lose_session(ErrorCode::SessionUnknown.name(), "the server began a new session");
        }
        self.session = Some(accept);
        self.resumes_unanswered = 0;
        self.had_business = false;
        let now = self.controls.now;
        let heartbeat_at = self.next_heartbeat();
        self.step(Phase::Ready { since: now, heartbeat_at });
        self.events.push_back(WorkerEvent::Ready { is_resumed });
        // The server learns at once how the worker is.
        self.events.push_back(WorkerEvent::HeartbeatDue);
    }

    /// Frames are missing that nobody has any more: begins anew, openly.
    fn lose_place(&mut self) {
        self.lose_session(ErrorCode::ResultSequenceGap.name(), "frames of the session are lost");
        self.drop_connection("frames of the session are lost", None);
    }

    fn on_reset(&mut self, frame: &Envelope) {
        let reset = read_reset(frame);
        self.lose_session(&reset.code, &reset.reason);
        let asked = reset.retry_after_ms.map(Duration::from_millis);
        self.drop_connection(&reset.reason, asked);
    }

    fn on_drain(&mut self, frame: &Envelope) {
        self.ack_if_asked(frame);
        // Whatever it says, it is a drain.
        let drain: Drain = decode_as(&frame.payload).unwrap_or_default();
        if let Phase::Ready { since, heartbeat_at } = self.phase {
            self.step(Phase::Draining { since, heartbeat_at });
            let deadline = drain.deadline_ms.map(Duration::from_millis);
            self.events.push_back(WorkerEvent::Drain { reason: drain.reason, deadline });
        }
    }

    fn on_business(&mut self, frame: Envelope) {
        // Before the accept nobody knows to which session it belongs; the server repeats it.
        if !matches!(self.state, State::Ready | State::Draining) {
            return;
        }
        let Ok(deliveries) = self.windows.receive(&mut self.controls, frame) else {
            return self.lose_place();
        };
        for Delivery { number, named, frame } in deliveries {
            self.had_business = true;
            self.windows.commit(&mut self.controls, number, named, None);
            self.events.push_back(WorkerEvent::Delivered { frame });
        }
    }
}

/// A reset in either vocabulary. One that cannot be read is a reset all the same.
fn read_reset(frame: &Envelope) -> Reset {
    let kind = Kind::from_name(&frame.kind).unwrap_or(Kind::Reset);
    match Payload::decode(kind, &frame.payload) {
        Ok(Payload::Reset(reset)) => reset,
        Ok(Payload::ExecError(error)) => {
            Reset { code: error.code, reason: error.message, retry_after_ms: None }
        }
        Ok(_) | Err(_) => Reset {
            code: ErrorCode::RequestInvalid.name().to_owned(),
            reason: "reset cannot be read".to_owned(),
            retry_after_ms: None,
        },
    }
}
