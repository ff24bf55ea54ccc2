//! One connection of a worker, as a machine without I/O.
//!
//! A link owns the session machine of its connection, the leases of the session, and how a session
//! is opened or resumed. Frames, answers, notices and the time come in; frames
//! ([`WorkerLink::poll_frame`]), questions ([`WorkerLink::poll_ask`]) and observations
//! ([`WorkerLink::poll_event`]) go out. Everything that has arrived is taken in before
//! [`WorkerLink::act`], so that one command carries what all frames of a turn ask for.
//!
//! Reading order: `handshake` (who may open a session), `session_leases` (what the worker holds),
//! `business` (what workers say), `work` (what goes between session and coordinator), `middleware`
//! (calls of `next`), `in_flight` (what is not answered yet); `convert`, `answers`, `next` and
//! `references` translate words.

mod answers;
mod business;
pub mod convert;
mod event;
mod handshake;
mod in_flight;
mod middleware;
mod next;
mod references;
pub mod session_leases;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Command, Question};
use model::{LeaseId, Report, Timestamp, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::session::envelope::{Envelope, SenderRole};
use protocol::session::event::ServerEvent;
use protocol::session::kind::Kind;
use protocol::session::payload::control::Drain;
use protocol::session::payload::exec::NextResponse;
use protocol::session::server_machine::{ServerMachine, ServerOptions};

pub use self::event::LinkEvent;
use self::handshake::Handshake;
pub use self::handshake::{
    Applicant, Authenticate, OPENING_WITHIN, Opening, Refusal, SessionAsk, SessionSeat,
    UNKNOWN_SESSION,
};
pub use self::in_flight::RequestId;
use self::in_flight::{InFlight, Reported};
use self::session_leases::{BEAT_EVERY, SessionLeases};
pub use self::work::read_number;
use crate::sessions::{Call, Carried, Notice};

/// The name in `sender.id` of everything that the server says.
const SENDER_ID: &str = "scheduler-control";
/// A peer that is silent for so many beats is taken for gone.
const SILENT_BEATS_MAX: u32 = 3;
/// Frames that cannot be read, and sessions that cannot be opened, on one connection.
pub const NONSENSE_MAX: u32 = 8;
/// How long a session that leaves its connection waits for what its frames have begun.
pub const SETTLE_WITHIN: Duration = Duration::from_secs(1);
/// Notices that wait until a session is open; further ones are dropped, and the next heartbeat says
/// the same.
const EARLY_NOTICES_MAX: usize = 4_096;

/// How a link works.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    /// How many frames may be out in each direction.
    pub window: u64,
    /// For jitter, and for names that must differ.
    pub seed: u64,
}

/// Something that the driver of a link is to do.
#[derive(Debug)]
pub enum LinkAsk {
    /// Ask the coordinator; the answer goes to [`WorkerLink::on_answer`].
    Ask {
        /// Names the question.
        request: RequestId,
        /// What is asked.
        question: Question,
    },
    /// A question is no longer wanted: take it back, and answer it with no leases.
    Withdraw {
        /// Which one.
        request: RequestId,
    },
    /// Give the coordinator an order that nobody waits for.
    Tell(Command),
    /// Ask those who know credentials, session tokens and connections.
    Session(SessionAsk),
}

/// Why a question to the coordinator got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It can be asked again in a moment.
    Unavailable,
    /// The server stops.
    Stopping,
}

/// Why a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// A newer connection speaks for the worker.
    Superseded,
    /// The peer did not prove who it is, was silent for too long, or talks nonsense.
    Overdue(&'static str),
}

/// One connection of a worker.
#[derive(Debug)]
pub struct WorkerLink {
    machine: ServerMachine,
    options: LinkOptions,
    handshake: Handshake,
    /// Who speaks on this connection, by the frame that began its session.
    sender_id: Option<String>,
    nonsense: u32,
    session: Option<SessionLeases>,
    in_flight: InFlight,
    reports: (Vec<Reported>, Vec<Report>),
    confirmed: Vec<LeaseId>,
    /// Answers to calls of `next` that the session had no room for yet.
    answers: VecDeque<(Arc<Call>, NextResponse)>,
    early_notices: Vec<Notice>,
    /// Counts what must be named apart: reads of resources, rebinds.
    named: u64,
    /// When a peer without a session is closed.
    open_by: Timestamp,
    heard_at: Timestamp,
    ping_at: Timestamp,
    leaving: Option<Leaving>,
    asks: VecDeque<LinkAsk>,
    events: VecDeque<LinkEvent>,
}

impl WorkerLink {
    /// A link for a connection that was just opened.
    pub fn new(now: Timestamp, options: LinkOptions) -> Self {
        let machine = ServerMachine::new(ServerOptions {
            sender_id: SENDER_ID.to_owned(),
            window: options.window,
            seed: options.seed,
        });
        Self {
            machine,
            options,
            handshake: Handshake::default(),
            sender_id: None,
            nonsense: 0,
            session: None,
            in_flight: InFlight::default(),
            reports: Default::default(),
            confirmed: Vec::new(),
            answers: VecDeque::new(),
            early_notices: Vec::new(),
            named: 0,
            open_by: now.after(OPENING_WITHIN),
            heard_at: now,
            ping_at: now.after(BEAT_EVERY),
            leaving: None,
            asks: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The worker whose session is open.
    pub fn worker(&self) -> Option<&WorkerId> {
        self.session.as_ref().map(|session| &session.owner.worker)
    }

    /// Why the link ends, if it does.
    pub fn is_leaving(&self) -> Option<Leaving> {
        self.leaving
    }

    // ----- what comes in

    /// A frame came.
    pub fn on_frame(&mut self, now: Timestamp, frame: Envelope) {
        self.on_heard(now);
        match self.misfit(&frame) {
            Some(why) => self.reset_for(now, why),
            None => self.machine.receive(now, frame),
        }
        self.take_events(now);
    }

    /// A frame came that cannot be read.
    pub fn on_unreadable(&mut self, now: Timestamp, why: &str) {
        self.on_heard(now);
        self.reset_for(now, why);
        self.take_events(now);
    }

    /// A ping or the answer to one came: the process lives, which is all that a lease wants to know
    /// between two heartbeats.
    pub fn on_pong(&mut self, now: Timestamp) {
        self.on_heard(now);
        let Some(session) = &self.session else { return };
        let (worker, leases) = (session.owner.worker.clone(), session.confirmed());
        self.beat(worker, leases, false);
    }

    fn on_heard(&mut self, now: Timestamp) {
        self.heard_at = now;
        if let Some(session) = &mut self.session {
            session.is_doubted = false;
        }
    }

    /// Why a frame cannot be its worker's, if so.
    fn misfit(&self, frame: &Envelope) -> Option<&'static str> {
        if frame.sender.role != SenderRole::Worker {
            return Some("frame.sender.role must be worker");
        }
        if self.sender_id.as_deref().is_none_or(|own| *own == *frame.sender.id) {
            return None;
        }
        let begins = matches!(Kind::from_name(&frame.kind), Some(Kind::Handshake | Kind::Resume));
        (!begins).then_some("frame.sender.id must be the one that began the session")
    }

    /// A frame that cannot be read ends the session openly: nobody knows what it said.
    fn reset_for(&mut self, now: Timestamp, why: &str) {
        self.events.push_back(LinkEvent::Unreadable { why: why.to_owned() });
        if self.is_nonsense("too many frames that cannot be read") {
            return;
        }
        self.release_claim();
        self.machine.tick(now);
        self.machine.reset(ErrorCode::RequestInvalid, why, None);
    }

    /// Counts what leads nowhere; too much of it ends the connection.
    fn is_nonsense(&mut self, why: &'static str) -> bool {
        self.nonsense += 1;
        if self.nonsense > NONSENSE_MAX {
            self.leaving = Some(Leaving::Overdue(why));
        }
        self.nonsense > NONSENSE_MAX
    }

    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.machine.poll_event() {
            self.take_event(now, event);
        }
    }

    fn take_event(&mut self, now: Timestamp, event: ServerEvent) {
        match event {
            ServerEvent::Handshake { tenant, sender_id, boot_id, payload } => {
                self.on_handshake(now, (tenant, sender_id, boot_id), &payload);
            }
            ServerEvent::Register { is_first: true, payload } => self.on_register(now, payload),
            ServerEvent::Register { is_first: false, payload } => self.on_refresh(&payload),
            ServerEvent::Resume { tenant, sender_id, payload, .. } => {
                self.on_resume(tenant, sender_id, payload);
            }
            ServerEvent::Heartbeat { payload } => self.on_heartbeat(&payload),
            ServerEvent::Delivered { token, frame } => self.on_business(now, token, &frame),
            ServerEvent::Acked { id } => {
                if let Ok(lease) = id.parse() {
                    self.confirmed.push(lease);
                }
            }
            // Its lease ends unconfirmed, by its own deadline.
            ServerEvent::GaveUp { id } => self.events.push_back(LinkEvent::GaveUp { id }),
            ServerEvent::SessionEnded { session_id, code, .. } => {
                self.on_session_ended(now, session_id, code);
            }
        }
    }

    /// Something was said to this connection from elsewhere.
    pub fn on_notice(&mut self, now: Timestamp, notice: Notice) {
        if self.handshake.is_opening() && self.session.is_none() {
            if self.early_notices.len() < EARLY_NOTICES_MAX {
                self.early_notices.push(notice);
            }
            return;
        }
        match notice {
            Notice::Revoked(revoked) => {
                for one in revoked {
                    self.cancel(now, one.lease, one.why);
                }
            }
            Notice::Drain { reason, deadline_ms } => {
                self.machine.drain(now, &Drain { reason, deadline_ms });
            }
            Notice::Undrain => self.machine.undrain(),
            Notice::RunEnded(run) => self.release(now, run),
            Notice::Rebound(rebind) => self.rebind(now, *rebind),
            Notice::CredentialGone => {
                self.machine.tick(now);
                self.machine.reset(
                    ErrorCode::AuthInvalidToken,
                    "the worker's token was revoked",
                    None,
                );
            }
        }
        self.take_events(now);
    }

    /// A newer connection speaks for the worker: nothing more is taken in here.
    pub fn on_superseded(&mut self) {
        self.leaving = Some(Leaving::Superseded);
    }

    // ----- time

    /// When `tick` has something to do next.
    pub fn next_deadline(&self) -> Timestamp {
        let opening = self.session.is_none().then_some(self.open_by);
        let deadlines = [
            self.machine.next_deadline(),
            opening,
            self.in_flight.next_deadline(),
            self.handshake.next_deadline(),
        ];
        deadlines.into_iter().flatten().fold(self.ping_at, Timestamp::min)
    }

    /// Acts on every deadline up to `now`; calling it early does nothing.
    pub fn tick(&mut self, now: Timestamp) {
        self.machine.tick(now);
        self.take_events(now);
        self.say_refusals(now);
        while let Some(request) = self.in_flight.next_due(now) {
            self.ask_again(request);
        }
        if self.session.is_none() && self.open_by <= now {
            self.leaving = Some(Leaving::Overdue("no session was opened in time"));
        }
        if self.ping_at <= now {
            self.ping(now);
        }
    }

    fn ping(&mut self, now: Timestamp) {
        let every = self.session.as_ref().map_or(BEAT_EVERY, |session| session.beat_every);
        let silence = now.since(self.heard_at);
        if silence >= every.max(BEAT_EVERY) * SILENT_BEATS_MAX {
            self.leaving = Some(Leaving::Overdue("the worker is silent"));
        }
        if self.session.is_some() && silence >= every + every / 2 {
            self.events.push_back(LinkEvent::MissedHeartbeat);
        }
        self.ping_at = now.after(every);
        self.events.push_back(LinkEvent::PingDue);
    }

    // ----- what goes out

    /// The next frame for the wire.
    pub fn poll_frame(&mut self) -> Option<Arc<Envelope>> {
        self.machine.poll_frame()
    }

    /// The next thing to do.
    pub fn poll_ask(&mut self) -> Option<LinkAsk> {
        self.asks.pop_front()
    }

    /// The next observation.
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    // ----- the end

    /// Whether everything that delivered frames have begun is done: they are not delivered again.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_settled()
    }

    /// The connection ends: what it carried is parked for the next one.
    ///
    /// Windows of a link that is not settled are dropped: the session goes on as after a restart,
    /// and the worker repeats what was not confirmed. With them it would be taken for delivered,
    /// and never confirmed.
    pub fn close(&mut self) {
        let is_settled = self.is_settled();
        let session = self.machine.take_session().filter(|_| is_settled);
        self.release_claim();
        if let Some(leases) = self.take_session() {
            let carried = Box::new(Carried { session, ..leases.carried() });
            self.asks.push_back(LinkAsk::Session(SessionAsk::Park { carried }));
        }
    }

    /// Takes the open session down, with everything that was asked for on its behalf.
    fn take_session(&mut self) -> Option<SessionLeases> {
        let session = self.session.take()?;
        for request in self.in_flight.of_session() {
            self.in_flight.remove(request);
            self.asks.push_back(LinkAsk::Withdraw { request });
        }
        self.events.push_back(LinkEvent::Closed);
        Some(session)
    }
}
