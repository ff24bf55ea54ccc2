//! The worker's end: one machine for the life of the process, over any number of connections.

mod receive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use serde_json::value::RawValue;

use super::backoff::Backoff;
use super::codec::raw;
use super::control;
use super::control_queue::ControlQueue;
use super::envelope::{AckMark, Envelope, SenderRole};
use super::event::WorkerEvent;
use super::frame::BusinessFrame;
use super::kind::Kind;
use super::outgoing::{REPEATS_MAX, SendError, repeat_delay};
use super::payload::control::{Accept, Resume};
use super::state::State;
use super::window::{Receipt, Windows};
use crate::error_code::ErrorCode;

/// How long the server may take from its ack to its accept.
pub const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two heartbeats that suits our server, before jitter.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Heartbeats are spread by up to this share of their interval.
pub const HEARTBEAT_JITTER_SHARE: u32 = 6;

/// After so many connections on which nobody answered a resume, the session is given up.
pub const RESUMES_UNANSWERED_MAX: u32 = 3;

/// The longest name of a boot that fits a flag.
pub const BOOT_ID_BYTES_MAX: usize = 200;

/// Who the worker is and how it speaks.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Whose worker it is.
    pub tenant: String,
    /// Its instance id.
    pub instance_id: String,
    /// The payload of its handshake.
    pub handshake: Box<RawValue>,
    /// The payload of its register.
    pub register: Box<RawValue>,
    /// How many frames may be out in each direction, at most 64.
    pub window: u64,
    /// The time between two heartbeats, before jitter; [`HEARTBEAT_INTERVAL`] suits our server.
    pub heartbeat_every: Duration,
    /// Names the boot of this machine to the server; none longer than [`BOOT_ID_BYTES_MAX`] is told.
    pub boot_id: Option<String>,
    /// For jitter.
    pub seed: u64,
}

/// Which connection of the process; frames of an older one are not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(u64);

/// A control frame that waits for its answer.
#[derive(Debug)]
struct Ask {
    kind: Kind,
    frame: Arc<Envelope>,
    repeats: u32,
    due: Timestamp,
    /// The ack came; the accept is still missing.
    is_acked: bool,
    /// Where the server was when it acknowledged a resume.
    receipt: Option<Receipt>,
}

/// A state with what belongs to it.
#[derive(Debug)]
enum Phase {
    New,
    Handshaking(Ask),
    Registered(Ask),
    Ready { since: Timestamp, heartbeat_at: Timestamp },
    Draining { since: Timestamp, heartbeat_at: Timestamp },
    Closed,
    Backoff { until: Timestamp },
}

/// The worker's end of a session.
#[derive(Debug)]
pub struct WorkerMachine {
    state: State,
    phase: Phase,
    connection: Connection,
    controls: ControlQueue,
    window: u64,
    handshake: Box<RawValue>,
    register: Box<RawValue>,
    heartbeat_every: Duration,
    boot_flag: Option<String>,
    session: Option<Accept>,
    windows: Windows,
    backoff: Backoff,
    /// Whether business frames got through since the session was last ready.
    had_business: bool,
    resumes_unanswered: u32,
    events: VecDeque<WorkerEvent>,
}

impl WorkerMachine {
    /// A machine that has not connected yet.
    pub fn new(options: WorkerOptions) -> Self {
        let WorkerOptions { handshake, register, window, heartbeat_every, .. } = options;
        let (tenant, id) = (options.tenant.as_str(), options.instance_id.as_str());
        let boot_id = options.boot_id.filter(|id| id.len() <= BOOT_ID_BYTES_MAX);
        Self {
            state: State::New,
            phase: Phase::New,
            connection: Connection(0),
            controls: ControlQueue::new(tenant, SenderRole::Worker, id, options.seed),
            window,
            handshake,
            register,
            heartbeat_every,
            boot_flag: boot_id.map(|id| format!("{}{id}", control::BOOT_FLAG)),
            session: None,
            windows: Windows::fresh(window),
            backoff: Backoff::default(),
            had_business: false,
            resumes_unanswered: 0,
            events: VecDeque::new(),
        }
    }

    /// Where the session stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The session that is open or can be resumed.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.session_id.as_str())
    }

    fn step(&mut self, phase: Phase) {
        self.state.step(match &phase {
            Phase::New => State::New,
            Phase::Handshaking(_) => State::Handshaking,
            Phase::Registered(_) => State::Registered,
            Phase::Ready { .. } => State::Ready,
            Phase::Draining { .. } => State::Draining,
            Phase::Closed => State::Closed,
            Phase::Backoff { .. } => State::Backoff,
        });
        self.phase = phase;
    }

    /// A connection was opened: asks to go on with the session, or for a new one.
    pub fn connected(&mut self, now: Timestamp) -> Connection {
        let now = self.controls.at(now);
        match self.state {
            State::Closed => return self.connection,
            State::New => {}
            State::Backoff => self.step(Phase::New),
            State::Handshaking | State::Registered | State::Ready | State::Draining => {
                self.lose_connection(now, None);
                self.step(Phase::New);
            }
        }
        self.connection.0 += 1;
        self.controls.clear();
        if self.resumes_unanswered >= RESUMES_UNANSWERED_MAX {
            self.lose_session(ErrorCode::Timeout.name(), "nobody answers the resume");
        }
        let ask = if let Some(session) = self.session.clone() {
            self.ask_resume(session)
        } else {
            let flags: Vec<String> = self.boot_flag.iter().cloned().collect();
            self.ask(Kind::Handshake, self.handshake.clone(), flags)
        };
        self.step(Phase::Handshaking(ask));
        self.connection
    }

    fn ask_resume(&mut self, session: Accept) -> Ask {
        self.resumes_unanswered += 1;
        // The server may give the numbers of frames that are held here to others, if it lost
        // them; so what is held is forgotten before the place is told.
        self.windows.incoming.resume();
        let payload = Resume {
            session_id: session.session_id,
            session_token: session.session_token,
            last_seen_seq: Some(self.windows.incoming.delivered()),
        };
        let base = format!("{}{}", control::SEND_BASE_FLAG, self.windows.outgoing.base());
        let flags = std::iter::once(base).chain(self.boot_flag.clone()).collect();
        self.ask(Kind::Resume, raw(&payload), flags)
    }

    fn ask(&mut self, kind: Kind, payload: Box<RawValue>, flags: Vec<String>) -> Ask {
        let mut frame = self.controls.frame(kind, payload);
        frame.ack = Some(AckMark { of: None, request: Some(true) });
        frame.flags = (!flags.is_empty()).then_some(flags);
        let frame = Arc::new(frame);
        self.controls.push(Arc::clone(&frame));
        let due = self.controls.now.after(repeat_delay(0, &mut self.controls.rng));
        Ask { kind, frame, repeats: 0, due, is_acked: false, receipt: None }
    }

    /// No connection came about.
    pub fn connect_failed(&mut self, now: Timestamp) {
        let now = self.controls.at(now);
        if matches!(self.state, State::New | State::Backoff) {
            let until = now.after(self.backoff.next_delay(&mut self.controls.rng, None));
            self.step(Phase::Backoff { until });
        }
    }

    /// A connection is gone; the session stays, to be resumed.
    pub fn disconnected(&mut self, now: Timestamp, connection: Connection) {
        let now = self.controls.at(now);
        if connection == self.connection && self.is_connected() {
            self.lose_connection(now, None);
        }
    }

    fn is_connected(&self) -> bool {
        match self.state {
            State::Handshaking | State::Registered | State::Ready | State::Draining => true,
            State::New | State::Closed | State::Backoff => false,
        }
    }

    fn lose_connection(&mut self, now: Timestamp, asked: Option<Duration>) {
        if let Phase::Ready { since, .. } | Phase::Draining { since, .. } = self.phase {
            self.backoff.session_lasted(now.since(since), self.had_business);
        }
        self.controls.clear();
        self.windows.outgoing.pause();
        let until = now.after(self.backoff.next_delay(&mut self.controls.rng, asked));
        self.step(Phase::Backoff { until });
    }

    fn drop_connection(&mut self, reason: &str, asked: Option<Duration>) {
        let event =
            WorkerEvent::Disconnect { connection: self.connection, reason: reason.to_owned() };
        self.events.push_back(event);
        self.lose_connection(self.controls.now, asked);
    }

    /// Forgets the session, and says so: what was not confirmed goes back to the upper layer.
    fn lose_session(&mut self, code: &str, reason: &str) {
        self.session = None;
        self.resumes_unanswered = 0;
        let windows = std::mem::replace(&mut self.windows, Windows::fresh(self.window));
        self.events.push_back(WorkerEvent::SessionLost {
            code: code.to_owned(),
            reason: reason.to_owned(),
            unconfirmed: windows.outgoing.into_frames(),
        });
    }

    fn next_heartbeat(&mut self) -> Timestamp {
        let jitter = self.controls.rng.up_to(self.heartbeat_every / HEARTBEAT_JITTER_SHARE);
        self.controls.now.after(self.heartbeat_every + jitter)
    }

    /// Sends a business frame, after all that were sent before; without a connection it waits.
    pub fn send(&mut self, now: Timestamp, frame: BusinessFrame) -> Result<(), SendError> {
        self.controls.at(now);
        if self.state == State::Closed {
            return Err(SendError::NoSession);
        }
        self.windows.outgoing.push(frame)
    }

    /// Whether so much is unconfirmed that nothing more is taken.
    pub fn is_full(&self) -> bool {
        self.windows.outgoing.is_full()
    }

    /// Says that the worker lives.
    pub fn heartbeat(&mut self, now: Timestamp, payload: Box<RawValue>) {
        self.controls.at(now);
        if matches!(self.state, State::Ready | State::Draining) {
            let frame = self.controls.frame(Kind::Heartbeat, payload);
            self.controls.push(frame);
        }
    }

    /// What the worker can do has changed.
    pub fn refresh(&mut self, now: Timestamp, register: Box<RawValue>) {
        self.controls.at(now);
        if matches!(self.state, State::Ready | State::Draining) {
            let frame = self.controls.frame(Kind::Register, register.clone());
            self.controls.push(frame);
        }
        self.register = register;
    }

    /// The process leaves.
    pub fn close(&mut self) {
        self.controls.clear();
        self.windows.outgoing.pause();
        self.step(Phase::Closed);
    }

    /// When `tick` has something to do next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::New | Phase::Closed => None,
            Phase::Handshaking(ask) | Phase::Registered(ask) => Some(ask.due),
            Phase::Backoff { until } => Some(*until),
            Phase::Ready { heartbeat_at, .. } | Phase::Draining { heartbeat_at, .. } => {
                let windows = &self.windows;
                let deadlines = [windows.outgoing.next_deadline(), Some(*heartbeat_at)];
                deadlines.into_iter().flatten().min()
            }
        }
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub fn tick(&mut self, now: Timestamp) {
        let now = self.controls.at(now);
        match self.state {
            State::New | State::Closed => {}
            State::Backoff => {
                if self.next_deadline().is_some_and(|until| until <= now) {
                    self.step(Phase::New);
                    self.events.push_back(WorkerEvent::ConnectDue);
                }
            }
            State::Handshaking | State::Registered => self.tick_ask(now),
            State::Ready | State::Draining => self.tick_open(now),
        }
    }

    fn tick_ask(&mut self, now: Timestamp) {
        let (Phase::Handshaking(ask) | Phase::Registered(ask)) = &mut self.phase else { return };
        if ask.due > now {
            return;
        }
        if ask.is_acked && ask.kind == Kind::Resume && ask.repeats < REPEATS_MAX {
            // The accept was lost; the server gives it again to whoever repeats the question.
            ask.is_acked = false;
        }
        if ask.repeats >= REPEATS_MAX {
            return self.drop_connection("the server does not answer", None);
        }
        ask.repeats += 1;
        ask.due = now.after(repeat_delay(ask.repeats, &mut self.controls.rng));
        self.controls.push(Arc::clone(&ask.frame));
    }

    fn tick_open(&mut self, now: Timestamp) {
        let (Phase::Ready { heartbeat_at, .. } | Phase::Draining { heartbeat_at, .. }) = self.phase
        else {
            return;
        };
        if heartbeat_at <= now {
            let next = self.next_heartbeat();
            if let Phase::Ready { heartbeat_at, .. } | Phase::Draining { heartbeat_at, .. } =
                &mut self.phase
            {
                *heartbeat_at = next;
            }
            self.events.push_back(WorkerEvent::HeartbeatDue);
        }
        if let Some(id) = self.windows.outgoing.tick(now) {
            self.events.push_back(WorkerEvent::GaveUp { id });
            self.lose_session(ErrorCode::Timeout.name(), "frame was never confirmed");
            self.drop_connection("frame was repeated and never confirmed", None);
        } else if self.windows.outgoing.wants_rotation() {
            self.lose_session(ErrorCode::SessionRotated.name(), "numbers are used up");
            self.drop_connection("numbers of the session are used up", None);
        }
    }

    /// The next frame for the wire: control frames first.
    pub fn poll_frame(&mut self) -> Option<Arc<Envelope>> {
        let is_open = matches!(self.state, State::Ready | State::Draining);
        let receipt = self.windows.receipt(self.controls.speaker.vocabulary).filter(|_| is_open);
        if let Some(frame) = self.controls.poll(receipt) {
            return Some(frame);
        }
        if !is_open {
            return None;
        }
        self.windows.outgoing.poll(
            self.controls.now,
            &mut self.controls.speaker,
            &mut self.controls.rng,
        )
    }

    /// The next event for the layer above.
    pub fn poll_event(&mut self) -> Option<WorkerEvent> {
        self.events.pop_front()
    }

    /// What must hold after every step.
    pub fn check_invariants(&self) {
        self.windows.check_invariants();
        let is_open = matches!(self.state, State::Ready | State::Draining);
        assert!(!is_open || self.session.is_some(), "an open session is known");
    }
}
