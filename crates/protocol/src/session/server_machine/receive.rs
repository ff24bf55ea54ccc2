//! What the server's machine does with each frame that comes in.

use std::sync::Arc;

use model::Timestamp;

use super::super::control;
use super::super::control_queue::{Named, acked_name};
use super::super::envelope::{Envelope, SenderRole};
use super::super::event::{CommitToken, ServerEvent};
use super::super::frame::asks_for_ack;
use super::super::kind::{Kind, Vocabulary, decode_as};
use super::super::payload::control::{Ack, Register, Resume};
use super::super::server_session::AskedResume;
use super::super::state::State;
use super::super::window::{Delivery, Receipt};
use super::{Question, ServerMachine};
use crate::error_code::ErrorCode;

impl ServerMachine {
    /// Takes a frame that came over the connection.
    pub fn receive(&mut self, now: Timestamp, frame: Envelope) {
        self.controls.at(now);
        if self.state == State::Closed || frame.sender.role != SenderRole::Worker {
            self.frames_ignored += 1;
            return;
        }
        if self.tenant.as_ref().is_some_and(|tenant| *tenant != frame.tenant) {
            self.reset(ErrorCode::SessionTenantMismatch, "frame names another tenant", None);
            return;
        }
        if !self.is_vocabulary_known {
            self.is_vocabulary_known = true;
            self.controls.speaker.vocabulary = Vocabulary::of_first_frame(&frame.kind);
        }
        match Kind::from_name(&frame.kind) {
            Some(Kind::Handshake) => self.on_handshake(frame),
            Some(Kind::Register) => self.on_register(frame),
            Some(Kind::Resume) => self.on_resume(&frame),
            Some(Kind::Ack) => self.on_ack(&frame),
            Some(Kind::Heartbeat) => self.on_heartbeat(frame),
            Some(Kind::Accept | Kind::Reset | Kind::Drain) => self.on_idle_control(&frame),
            None if frame.kind.starts_with("control.") => self.on_idle_control(&frame),
            // Business frames, known and unknown, are carried without being looked into.
            _ => self.on_business(frame),
        }
    }

    /// A frame of the session that has nothing to say to a server.
    fn on_idle_control(&mut self, frame: &Envelope) {
        self.frames_ignored += 1;
        if asks_for_ack(frame) {
            self.controls.ack(Named::of(frame), None);
        }
    }

    fn on_handshake(&mut self, frame: Envelope) {
        let named = Named::of(&frame);
        if self.handshake.as_ref() == Some(&named) {
            self.controls.ack(named, None);
            return;
        }
        if self.question.as_ref().is_some_and(|question| question.id() == named.id) {
            return;
        }
        self.bind(&frame);
        self.handshake = None;
        self.early_register = None;
        self.question = Some(Question::Handshake(named));
        self.state.step(State::Handshaking);
        self.events.push_back(ServerEvent::Handshake {
            tenant: frame.tenant.to_string(),
            sender_id: frame.sender.id.to_string(),
            boot_id: control::flag(&frame, control::BOOT_FLAG).map(str::to_owned),
            payload: frame.payload,
        });
    }

    /// The first to speak decides for whom the connection speaks.
    fn bind(&mut self, frame: &Envelope) {
        self.tenant = Some(Arc::clone(&frame.tenant));
        self.controls.speaker.tenant = Arc::clone(&frame.tenant);
    }

    pub(super) fn on_register(&mut self, frame: Envelope) {
        let named = Named::of(&frame);
        if self.repeats_accept(&named) {
            return;
        }
        match self.state {
            State::Handshaking if self.handshake.is_none() => self.early_register = Some(frame),
            State::Handshaking | State::Registered => {
                self.state.step(State::Registered);
                let is_asked = self.question.as_ref().is_some_and(|asked| asked.id() == named.id);
                self.question = Some(Question::Register(named));
                if !is_asked {
                    let payload = frame.payload;
                    self.events.push_back(ServerEvent::Register { is_first: true, payload });
                }
            }
            State::Ready | State::Draining => {
                // What cannot be read changes nothing, and the worker hears so.
                let misread = decode_as::<Register>(&frame.payload).err();
                let info = misread.map(|error| format!("{} {error}", error.code().entry().name));
                let is_read = info.is_none();
                self.controls.ack(named, info);
                if is_read {
                    let payload = frame.payload;
                    self.events.push_back(ServerEvent::Register { is_first: false, payload });
                }
            }
            State::New | State::Closed | State::Backoff => {
                self.reset(
                    ErrorCode::AuthHandshakeRequired,
                    "register came before handshake",
                    None,
                );
            }
        }
    }

    /// A worker that asks again did not hear that it was accepted. Says whether it is one.
    fn repeats_accept(&mut self, named: &Named) -> bool {
        let accepted = self.accepted.as_ref().filter(|(opener, _)| opener == named);
        let Some(accept) = accepted.map(|(_, accept)| Arc::clone(accept)) else { return false };
        self.controls.ack(named.clone(), None);
        self.controls.push(accept);
        true
    }

    fn on_resume(&mut self, frame: &Envelope) {
        let named = Named::of(frame);
        let is_asked = self.question.as_ref().is_some_and(|asked| asked.id() == named.id);
        if self.repeats_accept(&named) || is_asked {
            return;
        }
        let payload: Resume = match decode_as(&frame.payload) {
            Ok(payload) => payload,
            Err(error) => return self.reset(ErrorCode::RequestInvalid, &error.to_string(), None),
        };
        self.bind(frame);
        let send_base = control::flag(frame, control::SEND_BASE_FLAG);
        let send_base = send_base.and_then(|base| base.parse().ok());
        let boot_id = control::flag(frame, control::BOOT_FLAG).map(str::to_owned);
        let asked = AskedResume { last_seen: payload.last_seen_seq, send_base };
        self.question = Some(Question::Resume(named, asked));
        self.state.step(State::Handshaking);
        let (tenant, sender_id) = (frame.tenant.to_string(), frame.sender.id.to_string());
        self.events.push_back(ServerEvent::Resume { tenant, sender_id, boot_id, payload });
    }

    fn on_ack(&mut self, frame: &Envelope) {
        let now = self.controls.now;
        let Ok(ack) = Ack::of_frame(&frame.payload) else {
            self.frames_ignored += 1;
            return;
        };
        let Some(windows) = self.live_windows() else { return };
        let mut confirmed = Vec::new();
        if let Some(receipt) = Receipt::of_ack(&ack) {
            confirmed.extend(windows.outgoing.on_receipt(now, receipt));
        }
        // A peer that counts from 0 says 0 for its first frame, as others do for none: the name
        // leaves no doubt.
        if let Some(id) = acked_name(frame, &ack) {
            confirmed.extend(windows.outgoing.on_named(now, &id));
        }
        self.confirm(confirmed);
    }

    pub(super) fn confirm(&mut self, confirmed: Vec<String>) {
        self.events.extend(confirmed.into_iter().map(|id| ServerEvent::Acked { id }));
    }

    fn on_heartbeat(&mut self, frame: Envelope) {
        if asks_for_ack(&frame) {
            self.controls.ack(Named::of(&frame), None);
        }
        match self.state {
            State::Ready | State::Draining => {
                self.events.push_back(ServerEvent::Heartbeat { payload: frame.payload });
            }
            // Workers start their heartbeats with the connection, before the handshake.
            State::New => self.repeat_reset(),
            State::Handshaking | State::Registered | State::Closed | State::Backoff => {}
        }
    }

    fn on_business(&mut self, frame: Envelope) {
        if self.state == State::New {
            if self.last_reset.is_some() {
                self.repeat_reset();
            } else {
                self.reset(ErrorCode::AuthHandshakeRequired, "frame came before handshake", None);
            }
            return;
        }
        if !matches!(self.state, State::Ready | State::Draining) {
            return;
        }
        let Some(session) = &mut self.session else { return };
        let Some(windows) = &mut session.windows else { return };
        match windows.receive(&mut self.controls, frame) {
            Ok(deliveries) => self.deliver(deliveries),
            Err(_) => self.reset(
                ErrorCode::ResultSequenceGap,
                "numbers of frames contradict each other",
                None,
            ),
        }
    }

    pub(super) fn deliver(&mut self, deliveries: Vec<Delivery>) {
        let Some(session) = &self.session else { return };
        for Delivery { number, named, frame } in deliveries {
            let token = CommitToken { session: Arc::clone(&session.id), number, named };
            self.events.push_back(ServerEvent::Delivered { token, frame });
        }
    }
}
