//! The worker's end: one machine for the life of the process, over any number of connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::backoff::Backoff;
use super::control;
use super::envelope::{AckMark, Envelope, SenderRole};
use super::event::WorkerEvent;
use super::frame::{BusinessFrame, asks_for_ack};
use super::lane::{Lane, Named, acked_name};
use super::outgoing::{Gap, REPEATS_MAX, SendError, repeat_delay};
use super::state::State;
use super::window::Receipt;
use super::windows::{Delivery, Windows};

/// How long the server may take from its ack to its accept.
pub const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time between two heartbeats, before jitter.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// By how much heartbeats are spread.
pub const HEARTBEAT_JITTER_MAX: Duration = Duration::from_secs(5);

/// After so many connections on which nobody answered a resume, the session is given up.
pub const RESUMES_UNANSWERED_MAX: u32 = 3;

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
    /// For jitter.
    pub seed: u64,
}

/// Which connection of the process; frames of an older one are not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(u64);

/// A control frame that waits for its answer.
#[derive(Debug)]
struct Ask {
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
    lane: Lane,
    window: u64,
    handshake: Box<RawValue>,
    register: Box<RawValue>,
    session: Option<control::Accept>,
    windows: Windows,
    backoff: Backoff,
    resumes_unanswered: u32,
    events: VecDeque<WorkerEvent>,
}

impl WorkerMachine {
    /// A machine that has not connected yet.
    pub fn new(options: WorkerOptions) -> Self {
        let WorkerOptions { tenant, instance_id, handshake, register, window, seed } = options;
        Self {
            state: State::New,
            phase: Phase::New,
            connection: Connection(0),
            lane: Lane::new(tenant, SenderRole::Worker, instance_id, seed),
            window,
            handshake,
            register,
            session: None,
            windows: Windows::fresh(window),
            backoff: Backoff::default(),
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
        let now = self.lane.at(now);
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
        self.lane.clear();
        if self.resumes_unanswered >= RESUMES_UNANSWERED_MAX {
            self.lose_session("E.TIMEOUT", "nobody answers the resume");
        }
        let ask = match self.session.clone() {
            Some(session) => self.ask_resume(session),
            None => self.ask(control::HANDSHAKE, self.handshake.clone(), None),
        };
        self.step(Phase::Handshaking(ask));
        self.connection
    }

    fn ask_resume(&mut self, session: control::Accept) -> Ask {
        self.resumes_unanswered += 1;
        // The server may give the numbers of frames that are held here to others, if it lost
        // them; so what is held is forgotten before the place is told.
        self.windows.incoming.resume();
        let payload = control::Resume {
            session_id: session.session_id,
            session_token: session.session_token,
            last_seen_seq: Some(self.windows.incoming.delivered()),
        };
        let flag = format!("{}{}", control::SEND_BASE_FLAG, self.windows.outgoing.base());
        self.ask(control::RESUME, control::raw(&payload), Some(vec![flag]))
    }

    fn ask(&mut self, kind: &str, payload: Box<RawValue>, flags: Option<Vec<String>>) -> Ask {
        let mut frame = self.lane.frame(kind, payload);
        frame.ack = Some(AckMark { of: None, request: Some(true) });
        frame.flags = flags;
        let frame = Arc::new(frame);
        self.lane.push(Arc::clone(&frame));
        let due = self.lane.now.after(repeat_delay(0, &mut self.lane.dice));
        Ask { frame, repeats: 0, due, is_acked: false, receipt: None }
    }

    /// No connection came about.
    pub fn connect_failed(&mut self, now: Timestamp) {
        let now = self.lane.at(now);
        if matches!(self.state, State::New | State::Backoff) {
            let until = now.after(self.backoff.next_delay(&mut self.lane.dice, None));
            self.step(Phase::Backoff { until });
        }
    }

    /// A connection is gone; the session stays, to be resumed.
    pub fn disconnected(&mut self, now: Timestamp, connection: Connection) {
        let now = self.lane.at(now);
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
            self.backoff.session_lasted(now.since(since));
        }
        self.lane.clear();
        self.windows.outgoing.pause();
        let until = now.after(self.backoff.next_delay(&mut self.lane.dice, asked));
        self.step(Phase::Backoff { until });
    }

    fn drop_connection(&mut self, reason: &str, asked: Option<Duration>) {
        let event =
            WorkerEvent::Disconnect { connection: self.connection, reason: reason.to_owned() };
        self.events.push_back(event);
        self.lose_connection(self.lane.now, asked);
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

    /// Takes a frame that came over a connection.
    pub fn receive(&mut self, now: Timestamp, connection: Connection, frame: Envelope) {
        self.lane.at(now);
        let is_current = connection == self.connection && self.is_connected();
        if !is_current || frame.sender.role != SenderRole::Scheduler {
            return;
        }
        if frame.tenant != self.lane.speaker.tenant {
            return;
        }
        match frame.kind.as_str() {
            control::ACK => self.on_ack(&frame),
            control::ACCEPT => self.on_accept(&frame),
            control::RESET => self.on_reset(&frame),
            control::DRAIN => self.on_drain(&frame),
            kind if control::is_control(kind) => self.ack_if_asked(&frame),
            _ => self.on_business(frame),
        }
    }

    fn ack_if_asked(&mut self, frame: &Envelope) {
        if asks_for_ack(frame) {
            self.lane.ack(Named::of(frame), None);
        }
    }

    fn on_ack(&mut self, frame: &Envelope) {
        let Some(ack) = parse::<control::Ack>(frame) else { return };
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
        if ask.frame.kind == control::RESUME {
            ask.is_acked = true;
            ask.receipt = receipt;
            ask.due = self.lane.now.after(ACCEPT_TIMEOUT);
            return;
        }
        let ask = self.ask(control::REGISTER, self.register.clone(), None);
        self.step(Phase::Registered(ask));
    }

    fn on_register_ack(&mut self, name: Option<&str>) {
        let Phase::Registered(ask) = &mut self.phase else { return };
        if name == Some(ask.frame.id.as_str()) && !ask.is_acked {
            ask.is_acked = true;
            ask.due = self.lane.now.after(ACCEPT_TIMEOUT);
        }
    }

    fn on_business_ack(
        &mut self,
        name: Option<String>,
        receipt: Option<Receipt>,
        info: Option<String>,
    ) {
        let now = self.lane.now;
        let confirmed = match (receipt, &name) {
            (Some(receipt), _) => self.windows.outgoing.on_receipt(now, receipt),
            (None, Some(id)) => self.windows.outgoing.on_named(now, id),
            (None, None) => return,
        };
        // Late acks of the handshake and its kin say nothing to the layer above.
        if let Some(id) = name.filter(|id| !control::is_control(id)) {
            self.events.push_back(WorkerEvent::Answered { id, info });
        }
        self.confirm(confirmed);
    }

    fn confirm(&mut self, confirmed: Vec<String>) {
        self.events.extend(confirmed.into_iter().map(|id| WorkerEvent::Acked { id }));
    }

    fn on_accept(&mut self, frame: &Envelope) {
        let Some(accept) = parse::<control::Accept>(frame) else { return };
        let (Phase::Handshaking(ask) | Phase::Registered(ask)) = &self.phase else { return };
        // An answer to an older question must not open a session that the server has replaced.
        if frame.corr.as_ref().is_some_and(|corr| *corr != ask.frame.id) {
            return;
        }
        if ask.frame.kind == control::HANDSHAKE {
            return;
        }
        let is_resumed = ask.frame.kind == control::RESUME && accept.resumed == Some(true);
        let place = ask.receipt.map(|receipt| receipt.ack_seq);
        if is_resumed {
            match self.windows.outgoing.resume(place) {
                Ok(confirmed) => self.confirm(confirmed),
                Err(Gap) => return self.lose_place(),
            }
        } else if self.session.is_some() {
            self.lose_session("E.SESSION.UNKNOWN", "the server began a new session");
        }
        self.session = Some(accept);
        self.resumes_unanswered = 0;
        let now = self.lane.now;
        let heartbeat_at = self.next_heartbeat();
        self.step(Phase::Ready { since: now, heartbeat_at });
        self.events.push_back(WorkerEvent::Ready { is_resumed });
    }

    /// Frames are missing that nobody has any more: begins anew, openly.
    fn lose_place(&mut self) {
        self.lose_session(control::ResetCode::Gap.name(), "frames of the session are lost");
        self.drop_connection("frames of the session are lost", None);
    }

    fn next_heartbeat(&mut self) -> Timestamp {
        let jitter = self.lane.dice.up_to(HEARTBEAT_JITTER_MAX);
        self.lane.now.after(HEARTBEAT_INTERVAL + jitter)
    }

    fn on_reset(&mut self, frame: &Envelope) {
        let reset = parse::<control::Reset>(frame).unwrap_or_else(|| control::Reset {
            code: control::ResetCode::Malformed.name().to_owned(),
            reason: "reset cannot be read".to_owned(),
            retry_after_ms: None,
        });
        self.lose_session(&reset.code, &reset.reason);
        let asked = reset.retry_after_ms.map(Duration::from_millis);
        self.drop_connection(&reset.reason, asked);
    }

    fn on_drain(&mut self, frame: &Envelope) {
        self.ack_if_asked(frame);
        let drain = parse::<control::Drain>(frame).unwrap_or_default();
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
        let Ok(deliveries) = self.windows.receive(&mut self.lane, frame) else {
            return self.lose_place();
        };
        for Delivery { number, named, frame } in deliveries {
            self.windows.commit(&mut self.lane, number, named, None);
            self.events.push_back(WorkerEvent::Delivered { frame });
        }
    }

    /// Sends a business frame, after all that were sent before; without a connection it waits.
    pub fn send(&mut self, now: Timestamp, frame: BusinessFrame) -> Result<(), SendError> {
        self.lane.at(now);
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
        self.lane.at(now);
        if matches!(self.state, State::Ready | State::Draining) {
            let frame = self.lane.frame(control::HEARTBEAT, payload);
            self.lane.push(frame);
        }
    }

    /// What the worker can do has changed.
    pub fn refresh(&mut self, now: Timestamp, register: Box<RawValue>) {
        self.lane.at(now);
        if matches!(self.state, State::Ready | State::Draining) {
            let frame = self.lane.frame(control::REGISTER, register.clone());
            self.lane.push(frame);
        }
        self.register = register;
    }

    /// The process leaves.
    pub fn close(&mut self) {
        self.lane.clear();
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
        let now = self.lane.at(now);
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
        if ask.is_acked && ask.frame.kind == control::RESUME && ask.repeats < REPEATS_MAX {
            // The accept was lost; the server gives it again to whoever repeats the question.
            ask.is_acked = false;
        }
        if ask.repeats >= REPEATS_MAX {
            return self.drop_connection("the server does not answer", None);
        }
        ask.repeats += 1;
        ask.due = now.after(repeat_delay(ask.repeats, &mut self.lane.dice));
        self.lane.push(Arc::clone(&ask.frame));
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
            self.lose_session(control::ResetCode::Unconfirmed.name(), "frame was never confirmed");
            self.drop_connection("frame was repeated and never confirmed", None);
        } else if self.windows.outgoing.wants_rotation() {
            self.lose_session(control::ResetCode::Exhausted.name(), "numbers are used up");
            self.drop_connection("numbers of the session are used up", None);
        }
    }

    /// The next frame for the wire: control frames first.
    pub fn poll_frame(&mut self) -> Option<Arc<Envelope>> {
        let is_open = matches!(self.state, State::Ready | State::Draining);
        let receipt = if is_open { self.windows.incoming.receipt() } else { None };
        if let Some(frame) = self.lane.poll(receipt) {
            return Some(frame);
        }
        if !is_open {
            return None;
        }
        self.windows.outgoing.poll(self.lane.now, &self.lane.speaker, &mut self.lane.dice)
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

fn parse<'a, T: Deserialize<'a>>(frame: &'a Envelope) -> Option<T> {
    serde_json::from_str(frame.payload.get()).ok()
}
