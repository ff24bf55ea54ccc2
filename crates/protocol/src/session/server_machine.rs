//! The server's end of one connection.
//!
//! A machine belongs to a connection, a [`Session`] moves from machine to machine. So a frame that
//! still arrives over an older connection meets a machine without a session, and is not applied.

mod receive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;

use super::codec::raw;
use super::control_queue::{ControlQueue, Named};
use super::envelope::{Envelope, SenderRole};
use super::event::{CommitToken, ServerEvent};
use super::frame::BusinessFrame;
use super::kind::{Kind, Payload, Vocabulary};
use super::outgoing::{Gap, SendError};
use super::payload::control::{Accept, Drain, Reset};
use super::server_session::{AskedResume, Session, SessionAccept};
use super::state::State;
use super::window::Windows;
use crate::error_code::ErrorCode;

/// A reset that a peer seems not to have heard is repeated no more often than this.
const RESET_INTERVAL: Duration = Duration::from_secs(1);

/// Whose frames those are that leave before anyone has named a tenant.
const NO_TENANT: &str = "unknown";

/// How the server's machine speaks.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The name in `sender.id`.
    pub sender_id: String,
    /// How many frames may be out in each direction, at most 64.
    pub window: u64,
    /// For jitter.
    pub seed: u64,
}

/// A question that the layer above has not answered.
#[derive(Debug)]
enum Question {
    Handshake(Named),
    Register(Named),
    Resume(Named, AskedResume),
}

impl Question {
    fn id(&self) -> &str {
        match self {
            Self::Handshake(named) | Self::Register(named) | Self::Resume(named, _) => &named.id,
        }
    }
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct ServerMachine {
    state: State,
    controls: ControlQueue,
    window: u64,
    tenant: Option<Arc<str>>,
    is_vocabulary_known: bool,
    session: Option<Session>,
    question: Option<Question>,
    /// The handshake that was accepted last.
    handshake: Option<Named>,
    /// A register that came before its handshake was judged.
    early_register: Option<Envelope>,
    /// What opened the session, and what was answered, for a worker that did not hear it.
    accepted: Option<(Named, Arc<Envelope>)>,
    last_reset: Option<(Timestamp, Reset)>,
    frames_ignored: u64,
    events: VecDeque<ServerEvent>,
}

impl ServerMachine {
    /// A machine for a connection that was just opened.
    pub fn new(options: ServerOptions) -> Self {
        let ServerOptions { sender_id, window, seed } = options;
        Self {
            state: State::New,
            controls: ControlQueue::new(NO_TENANT, SenderRole::Scheduler, &sender_id, seed),
            window,
            tenant: None,
            is_vocabulary_known: false,
            session: None,
            question: None,
            handshake: None,
            early_register: None,
            accepted: None,
            last_reset: None,
            frames_ignored: 0,
            events: VecDeque::new(),
        }
    }

    /// Where the session stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The session that this connection carries.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(Session::id)
    }

    /// The names that the peer uses, read off its first frame.
    pub fn vocabulary(&self) -> Vocabulary {
        self.controls.speaker.vocabulary
    }

    /// How many frames came that had nothing to say here: of the wrong role, after the end, or a
    /// control frame that only a server sends.
    pub fn frames_ignored(&self) -> u64 {
        self.frames_ignored
    }

    /// The credential is good.
    pub fn accept_handshake(&mut self, now: Timestamp) {
        self.controls.at(now);
        let question = self.question.take_if(|one| matches!(one, Question::Handshake(_)));
        if let Some(Question::Handshake(named)) = question {
            self.controls.ack(named.clone(), None);
            self.handshake = Some(named);
        }
        if let Some(register) = self.early_register.take() {
            self.on_register(register);
        }
    }

    /// Opens a new session for the worker that registered.
    pub fn accept(&mut self, now: Timestamp, accept: SessionAccept) {
        self.controls.at(now);
        let question = self.question.take_if(|one| matches!(one, Question::Register(_)));
        let Some(Question::Register(named)) = question else { return };
        self.end_session(ErrorCode::SessionStaleBinding);
        self.session = Some(Session {
            id: accept.session_id.as_str().into(),
            window: self.window,
            windows: Some(Windows::fresh(self.window)),
        });
        self.open(named, accept, false);
    }

    fn open(&mut self, opener: Named, accept: SessionAccept, is_resumed: bool) {
        let payload = Accept {
            session_id: accept.session_id,
            session_token: accept.session_token,
            worker_instance_id: accept.worker_instance_id,
            expires_at: accept.expires_at.map(|moment| moment.to_string()),
            resumed: Some(is_resumed),
        };
        let mut accept = self.controls.frame(Kind::Accept, raw(&payload));
        // Tells the worker which of its requests this answers, should an older answer be late.
        accept.corr = Some(opener.id.clone());
        let accept = Arc::new(accept);
        self.controls.ack(opener.clone(), None);
        self.controls.push(Arc::clone(&accept));
        self.accepted = Some((opener, accept));
        self.last_reset = None;
        self.state.step(State::Ready);
    }

    /// The token is good: goes on with the session, wherever it was carried before, or resets it
    /// openly if frames are missing that nobody has any more.
    pub fn resume(&mut self, now: Timestamp, mut session: Session, accept: SessionAccept) {
        let now = self.controls.at(now);
        let question = self.question.take_if(|one| matches!(one, Question::Resume(..)));
        let Some(Question::Resume(named, asked)) = question else { return };
        self.end_session(ErrorCode::SessionStaleBinding);
        let place = session.find_place(now, &asked, self.controls.speaker.vocabulary);
        self.session = Some(session);
        match place {
            Ok(confirmed) => {
                self.confirm(confirmed);
                self.open(named, accept, true);
            }
            Err(Gap) => {
                self.reset(ErrorCode::ResultSequenceGap, "frames of the session are lost", None);
            }
        }
    }

    /// Says no to the question that was asked last, and why. The connection stays open: workers
    /// close it themselves and come back.
    pub fn refuse(
        &mut self,
        now: Timestamp,
        code: ErrorCode,
        reason: &str,
        retry_after_ms: Option<u64>,
    ) {
        self.controls.at(now);
        self.reset(code, reason, retry_after_ms);
    }

    /// What a frame caused is durable: it may be acknowledged, with a word about it.
    pub fn commit(&mut self, now: Timestamp, token: CommitToken, answer: Option<String>) {
        self.controls.at(now);
        let Some(session) = &mut self.session else { return };
        if session.id != token.session {
            return;
        }
        if let Some(windows) = &mut session.windows {
            windows.commit(&mut self.controls, token.number, token.named, answer);
        }
    }

    /// Sends a business frame, after all that were sent before.
    pub fn send(&mut self, now: Timestamp, frame: BusinessFrame) -> Result<(), SendError> {
        self.controls.at(now);
        let windows = self.live_windows().ok_or(SendError::NoSession)?;
        windows.outgoing.push(frame)
    }

    /// Takes a frame back, so that it is not repeated; the worker may have it all the same.
    pub fn void(&mut self, now: Timestamp, id: &str) -> bool {
        let now = self.controls.at(now);
        let windows = self.session.as_mut().and_then(|session| session.windows.as_mut());
        windows.is_some_and(|windows| windows.outgoing.void(now, &mut self.controls.speaker, id))
    }

    /// Whether the worker has so much unconfirmed that it should be offered nothing more.
    pub fn is_full(&self) -> bool {
        let windows = self.session.as_ref().and_then(|session| session.windows.as_ref());
        windows.is_none_or(|windows| windows.outgoing.is_full())
    }

    /// Asks the worker to finish and take nothing new.
    pub fn drain(&mut self, now: Timestamp, drain: &Drain) {
        self.controls.at(now);
        if self.state == State::Ready {
            let frame = self.controls.frame(Kind::Drain, raw(drain));
            self.controls.push(frame);
            self.state.step(State::Draining);
        }
    }

    /// Offers the worker tasks again; it was only told to finish, so it need not be told.
    pub fn undrain(&mut self) {
        if self.state == State::Draining {
            self.state.step(State::Ready);
        }
    }

    /// Ends the session openly; the connection stays for the worker to close.
    pub fn reset(&mut self, code: ErrorCode, reason: &str, retry_after_ms: Option<u64>) {
        self.end_session(code);
        if self.state == State::Closed {
            return;
        }
        self.controls.clear();
        self.question = None;
        self.handshake = None;
        self.early_register = None;
        self.accepted = None;
        let (code, reason) = (code.name().to_owned(), reason.to_owned());
        self.say_reset(Reset { code, reason, retry_after_ms });
        self.state.step(State::New);
    }

    fn say_reset(&mut self, reset: Reset) {
        self.last_reset = Some((self.controls.now, reset.clone()));
        let (name, payload) = Payload::Reset(reset).encode_for(self.vocabulary());
        let frame = self.controls.named_frame(name, payload);
        self.controls.push(frame);
    }

    fn repeat_reset(&mut self) {
        let now = self.controls.now;
        if let Some((at, reset)) = &self.last_reset
            && now.since(*at) >= RESET_INTERVAL
        {
            let reset = reset.clone();
            self.say_reset(reset);
        }
    }

    fn end_session(&mut self, code: ErrorCode) {
        if let Some(session) = self.session.take() {
            self.events.push_back(ServerEvent::SessionEnded {
                session_id: session.id.to_string(),
                code,
                unconfirmed: session.into_unconfirmed(),
            });
        }
    }

    /// Hands the session over, to be carried on by another connection. Nothing that still arrives
    /// over this one is applied.
    pub fn take_session(&mut self) -> Option<Session> {
        let mut session = self.session.take()?;
        if let Some(windows) = &mut session.windows {
            windows.outgoing.pause();
        }
        self.accepted = None;
        Some(session)
    }

    /// The connection is gone.
    pub fn close(&mut self) {
        self.controls.clear();
        self.question = None;
        self.early_register = None;
        self.state.step(State::Closed);
    }

    fn live_windows(&mut self) -> Option<&mut Windows> {
        if !matches!(self.state, State::Ready | State::Draining) {
            return None;
        }
        self.session.as_mut()?.windows.as_mut()
    }

    /// When `tick` has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if !matches!(self.state, State::Ready | State::Draining) {
            return None;
        }
        let windows = self.session.as_ref()?.windows.as_ref()?;
        let deadlines = [windows.outgoing.next_deadline(), windows.incoming.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub fn tick(&mut self, now: Timestamp) {
        let now = self.controls.at(now);
        let Some(windows) = self.live_windows() else { return };
        let gave_up = windows.outgoing.tick(now);
        let wants_rotation = windows.outgoing.wants_rotation();
        let settled = windows.incoming.tick(now);
        if let Some(Session { windows: Some(windows), .. }) = &mut self.session {
            let deliveries = windows.deliveries(&mut self.controls, settled);
            self.deliver(deliveries);
        }
        if let Some(id) = gave_up {
            self.events.push_back(ServerEvent::GaveUp { id });
            self.reset(ErrorCode::Timeout, "frame was repeated and never confirmed", None);
        } else if wants_rotation {
            self.reset(ErrorCode::SessionRotated, "numbers of the session are used up", None);
        }
    }

    /// The next frame for the wire: control frames first.
    pub fn poll_frame(&mut self) -> Option<Arc<Envelope>> {
        let vocabulary = self.vocabulary();
        let receipt = self.live_windows().and_then(|windows| windows.receipt(vocabulary));
        if let Some(frame) = self.controls.poll(receipt) {
            return Some(frame);
        }
        if !matches!(self.state, State::Ready | State::Draining) {
            return None;
        }
        let windows = self.session.as_mut()?.windows.as_mut()?;
        windows.outgoing.poll(self.controls.now, &mut self.controls.speaker, &mut self.controls.rng)
    }

    /// The next event for the layer above.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// What must hold after every step.
    pub fn check_invariants(&self) {
        if let Some(Session { windows: Some(windows), .. }) = &self.session {
            windows.check_invariants();
        }
        let is_open = matches!(self.state, State::Ready | State::Draining);
        assert!(!is_open || self.accepted.is_some() || self.session.is_none(), "who is open?");
    }
}
