//! How a session is opened, or gone on with.
//!
//! ```text
//! Idle     --> Asked    a register or a resume came: the worker is claimed
//! Asked    --> Claimed  no other connection speaks for the worker any more
//! Asked    --> Idle     refused, or begun anew
//! Claimed  --> Idle     the session is open, refused, or begun anew
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use coordinator::{Command, DrainCause, Question};
use model::{ShardId, TenantId, Timestamp, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::session::kind::decode_as;
use protocol::session::payload::control::{Handshake as HandshakePayload, Resume};
use protocol::session::server_session::{Session, SessionAccept};
use serde_json::value::RawValue;

use super::convert::{Registered, registered};
use super::event::LinkEvent;
use super::in_flight::Waiting;
use super::session_leases::{Owner, SessionLeases};
use super::{LinkAsk, WorkerLink};
use crate::sessions::{Carried, Claimed, SessionClaim, SessionRecord};

/// Limit: from the connection to its handshake.
pub const OPENING_WITHIN: Duration = Duration::from_secs(5);
/// Limit: how late a refusal is told.
const REFUSAL_DELAY: Duration = Duration::from_secs(1);

/// Why a worker is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code that the worker is told.
    pub code: ErrorCode,
    /// The same for people.
    pub reason: String,
    /// When it may try again.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal for good.
    pub fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), retry_after: None }
    }
}

/// A worker that proved who it is.
#[derive(Clone, Debug)]
pub struct Applicant {
    /// Whose worker it is.
    pub tenant: TenantId,
    /// The credential that it came with.
    pub token_id: Option<String>,
    /// The identity that survives reconnects.
    pub instance_id: String,
    /// The name in `sender.id` of its frames.
    pub sender_id: String,
    /// Which process of it, where the worker says so.
    pub boot_id: Option<String>,
    /// The name that it gave itself.
    pub name: String,
    /// The one worker that its token was made for.
    pub bound: Option<WorkerId>,
    /// Its version, as it says.
    pub version: String,
    /// The host that it runs on, as it says.
    pub hostname: String,
}

/// A handshake to be judged.
#[derive(Debug)]
pub struct Authenticate {
    /// The tenant that the frame names.
    pub tenant: String,
    /// The sender that the frame names.
    pub sender_id: String,
    /// Which process it is, where the worker says so.
    pub boot_id: Option<String>,
    /// The credential and the names.
    pub handshake: HandshakePayload,
}

/// What a link asks of those who know credentials, session tokens and connections. Answers carry
/// the attempt, so that one that comes too late is recognised.
#[derive(Debug)]
pub enum SessionAsk {
    /// Judge a credential. Answered by [`WorkerLink::on_authenticated`].
    Authenticate {
        /// Which attempt.
        attempt: u64,
        /// What is judged.
        authenticate: Box<Authenticate>,
    },
    /// Make this connection the one that speaks for a worker. Answered by
    /// [`WorkerLink::on_claimed`] or [`WorkerLink::on_refused`].
    Claim {
        /// Which attempt.
        attempt: u64,
        /// Whose worker.
        tenant: TenantId,
        /// The claim.
        claim: SessionClaim,
    },
    /// Check a session token, and claim its worker. Answered as a claim is.
    Resume {
        /// Which attempt.
        attempt: u64,
        /// The tenant that the frame names.
        tenant: String,
        /// The sender that the frame names.
        instance_id: String,
        /// Which session, and the token.
        resume: Resume,
    },
    /// Make a session durable and sign its token. Answered by [`WorkerLink::on_accepted`] or
    /// [`WorkerLink::on_refused`].
    Accept {
        /// Which attempt.
        attempt: u64,
        /// Which session.
        opening: Opening,
    },
    /// The session is over: nobody can go on with it.
    End {
        /// Which session.
        session_id: String,
    },
    /// This connection no longer speaks for its worker; what it carried waits for the next one. Also
    /// takes back a claim that is not granted yet.
    Park {
        /// What it carried.
        carried: Box<Carried>,
    },
}

/// The session that is to be accepted.
#[derive(Clone, Debug)]
pub enum Opening {
    /// A new one.
    New(Box<SessionRecord>),
    /// One that goes on.
    Resumed(Box<SessionRecord>),
}

/// Where a claimed worker's session is to be.
#[derive(Clone, Debug)]
pub struct SessionSeat {
    /// The shard of its tenant.
    pub shard: ShardId,
    /// A fresh id, used if the session is new.
    pub session_id: String,
}

/// How far the opening of a session is.
#[derive(Debug, Default)]
enum Step {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The worker is being claimed.
    Asked(Registering),
    /// The claim is granted; the session is being made durable.
    Claimed(Box<Seated>),
}

/// What opens a session.
#[derive(Debug)]
enum Registering {
    New(Box<NewSession>),
    Resumed,
}

/// What a worker says that opens a new session.
#[derive(Debug)]
struct NewSession {
    applicant: Applicant,
    registered: Registered,
    register: Box<RawValue>,
}

/// A session that may begin as soon as it is durable.
#[derive(Debug)]
struct Seated {
    owner: Owner,
    registered: Registered,
    process: Process,
    carried: Carried,
    /// The session from before, where it goes on.
    session: Option<Session>,
}

/// Whether a worker that opens a session is the process that had the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// It is: what it works on is still its own.
    Same,
    /// It is not: whatever the process before worked on is lost.
    New,
    /// It does not say; its heartbeats will tell what it works on.
    Unknown,
}

impl Process {
    fn of(claimed: &Claimed, boot_id: Option<&String>) -> Self {
        let former = claimed.record.as_ref().and_then(|record| record.boot_id.as_ref());
        match former.zip(boot_id) {
            _ if claimed.is_successor => Self::New,
            Some((former, boot_id)) if former == boot_id => Self::Same,
            Some(_) => Self::New,
            None => Self::Unknown,
        }
    }
}

/// The opening of sessions on one connection.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    attempt: u64,
    applicant: Option<Applicant>,
    step: Step,
    /// Refusals that wait until they are said.
    refusals: VecDeque<(Timestamp, Refusal)>,
}

impl Handshake {
    /// Whether a worker is claimed, or about to be, whose session is not open.
    pub(super) fn is_opening(&self) -> bool {
        !matches!(self.step, Step::Idle)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.refusals.front().map(|(at, _)| *at)
    }

    fn next_attempt(&mut self) -> u64 {
        self.attempt += 1;
        self.attempt
    }
}

impl WorkerLink {
    pub(super) fn on_handshake(
        &mut self,
        now: Timestamp,
        (tenant, sender_id, boot_id): (String, String, Option<String>),
        payload: &RawValue,
    ) {
        self.release_claim();
        let attempt = self.handshake.next_attempt();
        let handshake = match decode_as(payload) {
            Ok(handshake) => handshake,
            Err(error) => return self.refuse_later(now, malformed(error.to_string())),
        };
        let authenticate = Box::new(Authenticate { tenant, sender_id, boot_id, handshake });
        self.ask_session(SessionAsk::Authenticate { attempt, authenticate });
    }

    /// A credential was judged.
    pub fn on_authenticated(
        &mut self,
        now: Timestamp,
        attempt: u64,
        applicant: Result<Applicant, Refusal>,
    ) {
        if attempt != self.handshake.attempt {
            return;
        }
        match applicant {
            Ok(applicant) => {
                self.sender_id = Some(applicant.sender_id.clone());
                self.handshake.applicant = Some(applicant);
                self.machine.accept_handshake(now);
            }
            Err(refusal) => self.refuse_later(now, refusal),
        }
        self.take_events(now);
    }

    pub(super) fn on_register(&mut self, now: Timestamp, register: Box<RawValue>) {
        self.release_claim();
        let Some(applicant) = self.handshake.applicant.clone().map(Box::new) else { return };
        let registered = match read_register(&register) {
            Ok(registered) => registered,
            Err(refusal) => return self.refuse_later(now, refusal),
        };
        self.leave_other(&applicant.instance_id);
        let claim = SessionClaim {
            instance_id: applicant.instance_id.clone(),
            given_name: applicant.name.clone(),
            bound: applicant.bound.clone(),
            resumes: None,
            token_id: applicant.token_id.clone(),
            revoked: None,
        };
        let attempt = self.handshake.next_attempt();
        let tenant = applicant.tenant.clone();
        self.handshake.step = Step::Asked(Registering::New(Box::new(NewSession {
            applicant: *applicant,
            registered,
            register,
        })));
        self.ask_session(SessionAsk::Claim { attempt, tenant, claim });
    }

    pub(super) fn on_resume(&mut self, tenant: String, instance_id: String, resume: Resume) {
        self.release_claim();
        self.sender_id = Some(instance_id.clone());
        self.leave_other(&instance_id);
        let attempt = self.handshake.next_attempt();
        self.handshake.step = Step::Asked(Registering::Resumed);
        self.ask_session(SessionAsk::Resume { attempt, tenant, instance_id, resume });
    }

    /// A connection that becomes another worker no longer speaks for the one before.
    fn leave_other(&mut self, instance_id: &str) {
        let is_other =
            self.session.as_ref().is_some_and(|open| open.owner.instance_id != instance_id);
        if is_other && let Some(leases) = self.take_session() {
            let carried = Box::new(leases.carried());
            self.ask_session(SessionAsk::Park { carried });
        }
    }

    /// What a link whose shard was rebuilt claims, so that it goes on to speak for its worker.
    pub fn attach_claim(&self) -> Option<SessionClaim> {
        let owner = &self.session.as_ref()?.owner;
        Some(SessionClaim {
            instance_id: owner.instance_id.clone(),
            given_name: owner.worker.to_string(),
            bound: None,
            resumes: Some(owner.session_id.clone()),
            token_id: None,
            revoked: None,
        })
    }

    /// No other connection speaks for the worker any more: its session is made durable.
    pub fn on_claimed(
        &mut self,
        now: Timestamp,
        attempt: u64,
        claimed: Claimed,
        seat: SessionSeat,
    ) {
        let step = std::mem::take(&mut self.handshake.step);
        let asked = match step {
            Step::Asked(asked) if attempt == self.handshake.attempt => asked,
            other => {
                self.handshake.step = other;
                return;
            }
        };
        let opening = match asked {
            Registering::New(new) => Ok(self.seat_new(now, *new, claimed, seat)),
            Registering::Resumed => self.seat_resumed(claimed, seat.shard),
        };
        match opening {
            Ok(opening) => self.ask_session(SessionAsk::Accept { attempt, opening }),
            Err(refusal) => self.refuse_later(now, refusal),
        }
    }

    fn seat_new(
        &mut self,
        now: Timestamp,
        new: NewSession,
        claimed: Claimed,
        seat: SessionSeat,
    ) -> Opening {
        let NewSession { applicant, registered, register } = new;
        let process = Process::of(&claimed, applicant.boot_id.as_ref());
        let worker = claimed.worker;
        if process == Process::New {
            self.asks.push_back(LinkAsk::Tell(Command::LoseWorker { worker: worker.clone() }));
        }
        // A worker that said it would leave has come back. Without an answer it is drained until
        // its next heartbeat, no longer.
        self.set_drain(&worker, DrainCause::Leaving, false);
        self.set_drain(&worker, DrainCause::Pressure, false);
        let record = SessionRecord {
            session_id: seat.session_id.clone(),
            instance_id: applicant.instance_id.clone(),
            boot_id: applicant.boot_id,
            worker: worker.to_string(),
            given_name: applicant.name,
            hostname: applicant.hostname,
            version: applicant.version,
            token_id: applicant.token_id,
            accepted_at: now.as_millis(),
            renewed_at: None,
            slots: u64::from(registered.slots),
            register,
        };
        let carried = if process == Process::New { Carried::default() } else { claimed.carried };
        let owner = Owner {
            instance_id: applicant.instance_id,
            worker,
            session_id: seat.session_id,
            shard: seat.shard,
        };
        let seated = Seated { owner, registered, process, carried, session: None };
        self.handshake.step = Step::Claimed(Box::new(seated));
        Opening::New(Box::new(record))
    }

    fn seat_resumed(&mut self, mut claimed: Claimed, shard: ShardId) -> Result<Opening, Refusal> {
        let unknown = || Refusal::new(ErrorCode::SessionUnknown, UNKNOWN_SESSION);
        let carried = std::mem::take(&mut claimed.carried);
        let Some(record) = claimed.record else {
            self.park(carried);
            return Err(unknown());
        };
        let registered = match read_register(&record.register) {
            Ok(registered) => registered,
            Err(refusal) => {
                self.park(carried);
                return Err(refusal);
            }
        };
        let owner = Owner {
            instance_id: record.instance_id.clone(),
            worker: claimed.worker,
            session_id: record.session_id.clone(),
            shard,
        };
        let mut carried = carried;
        let session = carried.session_or_restored(&record.session_id, self.options.window);
        let process = Process::Same;
        let seated = Seated { owner, registered, process, carried, session: Some(session) };
        self.handshake.step = Step::Claimed(Box::new(seated));
        Ok(Opening::Resumed(Box::new(record)))
    }

    /// The session is durable, and its token signed: it begins.
    pub fn on_accepted(&mut self, now: Timestamp, attempt: u64, accept: SessionAccept) {
        if attempt != self.handshake.attempt {
            return;
        }
        let Step::Claimed(seated) = std::mem::take(&mut self.handshake.step) else { return };
        let Seated { owner, registered, process, mut carried, session } = *seated;
        let is_same = process == Process::Same;
        // What this connection held for an earlier session of the same process is still held.
        if let Some(former) = self.take_session().filter(|_| process != Process::New) {
            carried = former.carried();
        }
        let calls = if is_same { std::mem::take(&mut carried.calls) } else { Vec::new() };
        self.events.push_back(LinkEvent::Opened {
            worker: owner.worker.clone(),
            instance_id: owner.instance_id.clone(),
            session_id: owner.session_id.clone(),
            is_resumed: session.is_some(),
        });
        self.session = Some(SessionLeases::new(owner, registered, &carried, is_same));
        match session {
            Some(session) => self.resume_machine(now, session, accept),
            None => self.machine.accept(now, accept),
        }
        self.answers.clear();
        for call in &calls {
            self.open_call(now, call);
        }
        self.ping_at = now;
        for notice in std::mem::take(&mut self.early_notices) {
            self.on_notice(now, notice);
        }
        self.take_events(now);
        // The worker may have taken its question back, or been reset, while it was answered.
        let unheard = self.session.as_ref().filter(|_| self.machine.session_id().is_none());
        if let Some(session_id) = unheard.map(|session| session.owner.session_id.clone()) {
            self.on_session_ended(now, session_id, ErrorCode::SessionStaleBinding);
        }
    }

    fn resume_machine(&mut self, now: Timestamp, session: Session, accept: SessionAccept) {
        // A session that this very connection carries goes on with the windows that it has.
        let is_own = self.machine.session_id() == Some(session.id());
        let own = if is_own { self.machine.take_session() } else { None };
        self.machine.resume(now, own.unwrap_or(session), accept);
    }

    /// A claim or a session was refused.
    pub fn on_refused(&mut self, now: Timestamp, attempt: u64, refusal: Refusal) {
        if attempt == self.handshake.attempt {
            self.release_claim();
            self.refuse_later(now, refusal);
        }
    }

    /// Gives up what was claimed for a session that does not come about.
    pub(super) fn release_claim(&mut self) {
        self.early_notices.clear();
        match std::mem::take(&mut self.handshake.step) {
            Step::Idle => {}
            // The worker is spoken for by the session that is open.
            Step::Asked(_) | Step::Claimed(_) if self.session.is_some() => {}
            // The claim may be granted before it is taken back, with what another connection left.
            Step::Asked(_) => self.park(Carried::default()),
            Step::Claimed(seated) => {
                let Seated { carried, session, .. } = *seated;
                self.park(Carried { session, ..carried });
            }
        }
        self.handshake.attempt += 1;
    }

    fn park(&mut self, carried: Carried) {
        self.ask_session(SessionAsk::Park { carried: Box::new(carried) });
    }

    pub(super) fn on_session_ended(&mut self, now: Timestamp, session_id: String, code: ErrorCode) {
        self.open_by = now.after(OPENING_WITHIN);
        let is_own =
            self.session.as_ref().is_some_and(|session| session.owner.session_id == session_id);
        self.events.push_back(LinkEvent::Ended { session_id: session_id.clone(), code });
        if is_own && let Some(leases) = self.take_session() {
            self.ask_session(SessionAsk::End { session_id });
            self.park(leases.carried());
        }
    }

    pub(super) fn refuse_later(&mut self, now: Timestamp, refusal: Refusal) {
        if !self.is_nonsense("too many attempts to open a session") {
            self.open_by = now.after(OPENING_WITHIN);
            self.handshake.refusals.push_back((now.after(REFUSAL_DELAY), refusal));
        }
    }

    pub(super) fn say_refusals(&mut self, now: Timestamp) {
        let is_due = |waiting: &mut (Timestamp, Refusal)| waiting.0 <= now;
        while let Some((_, refusal)) = self.handshake.refusals.pop_front_if(is_due) {
            let retry_after_ms = refusal.retry_after.map(|pause| pause.as_millis());
            let retry_after_ms = retry_after_ms.and_then(|ms| u64::try_from(ms).ok());
            self.machine.refuse(now, refusal.code, &refusal.reason, retry_after_ms);
            let Refusal { code, reason, .. } = refusal;
            self.events.push_back(LinkEvent::Refused { code, reason });
            self.take_events(now);
        }
    }

    pub(super) fn on_refresh(&mut self, payload: &RawValue) {
        match read_register(payload) {
            Ok(registered) => {
                if let Some(session) = &mut self.session {
                    session.refresh(registered);
                }
            }
            Err(refusal) => {
                let why = refusal.reason;
                self.events.push_back(LinkEvent::Misread { what: "register", why });
            }
        }
    }

    pub(super) fn set_drain(&mut self, worker: &WorkerId, cause: DrainCause, on: bool) {
        let request = self.in_flight.new_id();
        self.in_flight.add(request, Waiting::Drain);
        let question = Question::SetDrain { worker: worker.clone(), cause, on };
        self.asks.push_back(LinkAsk::Ask { request, question });
    }

    fn ask_session(&mut self, ask: SessionAsk) {
        self.asks.push_back(LinkAsk::Session(ask));
    }
}

/// One sentence for whatever is wrong with a session token, so that nobody learns which sessions,
/// workers or keys exist.
pub const UNKNOWN_SESSION: &str = "this session cannot be resumed; begin anew";

fn malformed(why: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::RequestInvalid, why)
}

fn read_register(register: &RawValue) -> Result<Registered, Refusal> {
    let register = decode_as(register).map_err(|error| malformed(error.to_string()))?;
    registered(&register).map_err(malformed)
}
