//! The server's end of a connection: drives the real link as the production driver does.

use coordinator::{Answer, Command, Question, Ticket};
use model::{Timestamp, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::session::envelope::Reader;
use protocol::session::server_session::SessionAccept;
use shard::sessions::{
    Carried, ClaimError, Claimed, LinkId, LinkMessage, LinkWord, Notice, SessionClaim,
    SessionRecord,
};
use shard::worker_link::{
    Applicant, LinkAsk, LinkEvent, LinkOptions, Opening, Refusal, RequestId, SETTLE_WITHIN,
    SessionAsk, SessionSeat, UNKNOWN_SESSION, Unanswered, WorkerLink,
};

use super::wire::{Direction, Sent};
use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::message::{Call, DrainWish};
use crate::server::{Asker, Inbound, ShardAt};
use crate::store::tenant_id;
use crate::world::{World, shard_of};

/// How soon a connection whose shard was rebuilt asks for its place again.
const ATTACH_AFTER: u64 = 500;

/// One connection of a worker.
#[derive(Debug)]
pub(crate) struct Link {
    machine: WorkerLink,
    at: ShardAt,
    reader: Reader,
    /// A claim that was made and is not granted yet.
    claiming: Option<Claiming>,
    /// The session that is made durable, under which attempt.
    opening: Option<(u64, Box<SessionRecord>)>,
    /// The connection has ended; what delivered frames have begun is finished until then.
    leaves_by: Option<Timestamp>,
    alarm: u64,
    alarm_at: Option<u64>,
}

/// Why a connection claims its worker.
#[derive(Clone, Copy, Debug)]
enum Claiming {
    /// A session is to be opened or resumed.
    Attempt(u64),
    /// The session that is open asks for its place again.
    Attach,
}

impl Claiming {
    fn attempt(self) -> Option<u64> {
        match self {
            Self::Attempt(attempt) => Some(attempt),
            Self::Attach => None,
        }
    }
}

impl Link {
    pub(crate) fn new(now: Timestamp, seed: u64, at: ShardAt) -> Self {
        Self {
            machine: WorkerLink::new(now, LinkOptions { window: 8, seed }),
            at,
            reader: Reader::default(),
            claiming: None,
            opening: None,
            leaves_by: None,
            alarm: 0,
            alarm_at: None,
        }
    }

    fn next_deadline(&self) -> Timestamp {
        let due = self.machine.next_deadline();
        self.leaves_by.map_or(due, |leaves_by| leaves_by.min(due))
    }
}

/// The token of a session: in this world nobody forges one.
fn token_of(session_id: &str) -> String {
    format!("token of {session_id}")
}

fn trouble(what: &str) -> Refusal {
    let retry_after = Some(std::time::Duration::from_secs(1));
    Refusal { retry_after, ..Refusal::new(ErrorCode::SessionDenied, what) }
}

impl World {
    fn with_link(&mut self, server: usize, id: LinkId, act: impl FnOnce(&mut Link, Timestamp)) {
        let now = self.server_now(server);
        if let Some(link) = self.servers[server].links.get_mut(&id) {
            act(link, now);
        }
        self.drive_link(server, id);
    }

    pub(crate) fn link_receives(&mut self, server: usize, id: LinkId, sent: Sent) {
        self.with_link(server, id, |link, now| match sent {
            _ if link.leaves_by.is_some() => {}
            Sent::Frame(text) => match link.reader.read_text(&text) {
                Ok(frame) => link.machine.on_frame(now, frame),
                Err(error) => link.machine.on_unreadable(now, &error.to_string()),
            },
            Sent::Ping | Sent::Pong => link.machine.on_pong(now),
        });
    }

    /// The connection ended: what it carries waits for the next one.
    pub(crate) fn link_gone(&mut self, server: usize, id: LinkId) {
        self.with_link(server, id, |link, now| {
            link.leaves_by.get_or_insert(now.after(SETTLE_WITHIN));
        });
    }

    pub(crate) fn link_tick(&mut self, server: usize, id: LinkId, alarm: u64) {
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::LinkTick { server, link: id, alarm });
        }
        self.with_link(server, id, |link, now| {
            if link.alarm == alarm {
                link.alarm_at = None;
                link.machine.tick(now);
            }
        });
    }

    pub(crate) fn set_link_alarm(&mut self, server: usize, id: LinkId) {
        let it = &mut self.servers[server];
        let clock = it.clock;
        let Some(link) = it.links.get_mut(&id) else { return };
        let due = clock.true_time_of(link.next_deadline(), self.clock).max(self.clock.now + 1);
        if link.alarm_at.is_some_and(|at| at <= due && at > self.clock.now) {
            return;
        }
        link.alarm += 1;
        link.alarm_at = Some(due);
        let event = Event::LinkTick { server, link: id, alarm: link.alarm };
        self.agenda.plan(due, event);
    }

    /// Does what the link asks for, sends what it has to say, and ends it when it is done.
    fn drive_link(&mut self, server: usize, id: LinkId) {
        let now = self.server_now(server);
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        if link.leaves_by.is_none() {
            link.machine.act(now);
        }
        self.perform(server, id);
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        let mut frames = Vec::new();
        while let Some(frame) = link.machine.poll_frame() {
            frames.push(frame.to_text().expect("our own frames are JSON"));
        }
        let leaves = link.machine.is_leaving().is_some() && link.leaves_by.is_none();
        if leaves {
            link.leaves_by = Some(now.after(SETTLE_WITHIN));
        }
        let is_over =
            link.leaves_by.is_some_and(|leaves_by| link.machine.is_settled() || leaves_by <= now);
        for frame in frames {
            self.send_on(id, Direction::Down, &Sent::Frame(frame));
        }
        if leaves {
            self.cut_line(id);
        }
        if is_over {
            return self.finish_link(server, id);
        }
        self.set_link_alarm(server, id);
    }

    fn finish_link(&mut self, server: usize, id: LinkId) {
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        if !link.machine.is_settled() {
            self.notes.happened(Consequence::WindowDroppedUnsettled);
        }
        link.machine.close();
        self.perform(server, id);
        // Also where the link had nothing to park: no claim outlives its connection.
        self.park(server, id, Carried::default());
        self.servers[server].links.remove(&id);
    }

    fn perform(&mut self, server: usize, id: LinkId) {
        let now = self.server_now(server);
        loop {
            let Some(link) = self.servers[server].links.get_mut(&id) else { return };
            if let Some(event) = link.machine.poll_event() {
                match event {
                    LinkEvent::PingDue => self.send_on(id, Direction::Down, &Sent::Ping),
                    LinkEvent::Feedback { request, .. } => link.machine.on_stored(now, request),
                    LinkEvent::HeartbeatRejected { lease, violation } => {
                        self.notes.broken("P3", || {
                            format!("{lease} of an honest session was REJECTED: {violation:?}")
                        });
                    }
                    LinkEvent::Unreadable { why } | LinkEvent::FrameRefused { why, .. } => {
                        self.notes.broken("P7", || format!("a good frame was refused: {why}"));
                    }
                    _ => {}
                }
                continue;
            }
            let at = link.at;
            match link.machine.poll_ask() {
                Some(LinkAsk::Ask { request, question }) => {
                    self.link_asks(at, id, request, question);
                }
                Some(LinkAsk::Withdraw { request }) => self.link_withdraws(at, id, request),
                Some(LinkAsk::Tell(command)) => self.tell_shard(at, Inbound::Own(command)),
                Some(LinkAsk::Session(ask)) => self.link_asks_session(now, (at, id), ask),
                None => return,
            }
        }
    }

    /// Gives a live shard something that nobody waits for.
    fn tell_shard(&mut self, at: ShardAt, inbound: Inbound) {
        if self.served(at).live.is_some() {
            self.server_hears(at, inbound);
        }
    }

    fn link_asks(&mut self, at: ShardAt, id: LinkId, request: RequestId, question: Question) {
        if self.served(at).live.is_some() {
            let sent_at = self.clock.now;
            let inbound = Inbound::Link { asker: (id, request), question, sent_at };
            return self.server_hears(at, inbound);
        }
        let now = self.server_now(at.server);
        if let Some(link) = self.servers[at.server].links.get_mut(&id) {
            link.machine.on_unanswered(now, request, Unanswered::Unavailable);
        }
    }

    /// A question that is taken back while it waits was granted nothing.
    fn link_withdraws(&mut self, at: ShardAt, id: LinkId, request: RequestId) {
        let now = self.server_now(at.server);
        let served = self.served(at);
        let asker = Asker::Link(id, request);
        let waits = |inbound: &Inbound| matches!(inbound, Inbound::Link { asker: own, .. } if *own == (id, request));
        let n_before = served.inbox.len();
        served.inbox.retain(|inbound| !waits(inbound));
        let was_queued = served.inbox.len() < n_before;
        let ticket: Option<Ticket> = served.live.as_mut().and_then(|live| {
            let ticket = live.askers.iter().find(|(_, own)| **own == asker).map(|(to, _)| *to)?;
            live.askers.remove(&ticket);
            Some(ticket)
        });
        if let Some(ticket) = ticket {
            self.server_hears(at, Inbound::Own(Command::Withdraw { ticket }));
        }
        if let Some(link) = self.servers[at.server].links.get_mut(&id)
            && (was_queued || ticket.is_some())
        {
            link.machine.on_answer(now, request, Answer::Leases(Vec::new()));
        }
    }

    fn link_asks_session(&mut self, now: Timestamp, (at, id): (ShardAt, LinkId), ask: SessionAsk) {
        let server = at.server;
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        match ask {
            SessionAsk::Authenticate { attempt, authenticate } => {
                let worker = authenticate.handshake.worker;
                let sender_id = authenticate.sender_id;
                let applicant = Applicant {
                    tenant: tenant_id(at.tenant),
                    token_id: None,
                    instance_id: worker.worker_instance_id.unwrap_or_else(|| sender_id.clone()),
                    sender_id,
                    boot_id: authenticate.boot_id,
                    name: worker.worker_name,
                    bound: None,
                    version: worker.version,
                    hostname: worker.hostname,
                };
                link.machine.on_authenticated(now, attempt, Ok(applicant));
            }
            SessionAsk::Claim { attempt, claim, .. } => {
                self.link_claims(at, id, (Claiming::Attempt(attempt), claim));
            }
            SessionAsk::Resume { attempt, instance_id, resume, .. } => {
                if resume.session_token != token_of(&resume.session_id) {
                    let refusal = Refusal::new(ErrorCode::SessionUnknown, UNKNOWN_SESSION);
                    return link.machine.on_refused(now, attempt, refusal);
                }
                let claim = SessionClaim {
                    instance_id,
                    given_name: String::new(),
                    bound: None,
                    resumes: Some(resume.session_id),
                    token_id: None,
                    revoked: None,
                };
                self.link_claims(at, id, (Claiming::Attempt(attempt), claim));
            }
            SessionAsk::Accept { attempt, opening } => {
                let (record, message) = match opening {
                    Opening::New(record) => (record.clone(), LinkMessage::Open(record)),
                    Opening::Resumed(record) => (record, LinkMessage::Renew),
                };
                link.opening = Some((attempt, record));
                self.tell_link_message(at, id, message);
            }
            SessionAsk::End { session_id } => {
                self.tell_link_message(at, id, LinkMessage::End { session_id });
            }
            SessionAsk::Park { carried } => self.park(server, id, *carried),
        }
    }

    fn tell_link_message(&mut self, at: ShardAt, id: LinkId, message: LinkMessage) {
        if self.served(at).live.is_some() {
            return self.server_hears(at, Inbound::LinkMessage(id, message));
        }
        let now = self.server_now(at.server);
        if let Some(link) = self.servers[at.server].links.get_mut(&id)
            && let Some((attempt, _)) = link.opening.take()
        {
            link.machine.on_refused(now, attempt, trouble("the store cannot answer"));
        }
    }

    fn link_claims(
        &mut self,
        at: ShardAt,
        id: LinkId,
        (claiming, claim): (Claiming, SessionClaim),
    ) {
        let now = self.server_now(at.server);
        let is_live = self.served(at).live.is_some();
        let Some(link) = self.servers[at.server].links.get_mut(&id) else { return };
        match claiming {
            _ if is_live => {
                link.claiming = Some(claiming);
                self.server_hears(at, Inbound::LinkMessage(id, LinkMessage::Claim(claim)));
            }
            Claiming::Attempt(attempt) => {
                link.machine.on_refused(now, attempt, trouble("no shard"));
            }
            Claiming::Attach => {
                let event = Event::LinkAttaches { server: at.server, link: id };
                self.agenda.plan(self.clock.now + ATTACH_AFTER, event);
            }
        }
    }

    /// Gives a worker up: whatever was claimed for it, granted or not, and what it carried.
    fn park(&mut self, server: usize, id: LinkId, carried: Carried) {
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        (link.claiming, link.opening) = (None, None);
        let at = link.at;
        self.tell_shard(at, Inbound::LinkMessage(id, LinkMessage::Park(Box::new(carried))));
    }

    // ----- what the shard says

    /// An answer of the coordinator. Gives it back if its link is gone.
    pub(crate) fn link_is_answered(
        &mut self,
        server: usize,
        (id, request): (LinkId, RequestId),
        answer: Answer,
    ) -> Option<Answer> {
        if !self.servers[server].links.contains_key(&id) {
            return Some(answer);
        }
        self.with_link(server, id, |link, now| link.machine.on_answer(now, request, answer));
        None
    }

    pub(crate) fn link_is_unanswered(&mut self, server: usize, id: LinkId, request: RequestId) {
        self.with_link(server, id, |link, now| {
            link.machine.on_unanswered(now, request, Unanswered::Unavailable);
        });
    }

    /// A word of the shard. Gives back a claim that found nobody.
    pub(crate) fn link_is_told(
        &mut self,
        at: ShardAt,
        id: LinkId,
        word: LinkWord,
    ) -> Option<Box<Claimed>> {
        self.last_session += 1;
        let session_id = format!("session {}", self.last_session);
        let seat = SessionSeat { shard: shard_of(at.tenant), session_id };
        let now = self.server_now(at.server);
        let links = &mut self.servers[at.server].links;
        let Some(link) = links.get_mut(&id).filter(|link| link.at == at) else {
            return if let LinkWord::Claimed(claimed) = word { Some(claimed) } else { None };
        };
        match word {
            LinkWord::Claimed(claimed) => match link.claiming.take() {
                None => return Some(claimed),
                Some(Claiming::Attempt(attempt)) => {
                    if claimed.carried.session.is_some() {
                        self.notes.happened(Consequence::WindowHandedOver);
                    } else if claimed.record.is_some() {
                        self.notes.happened(Consequence::ParkedWindowLost);
                    }
                    link.machine.on_claimed(now, attempt, *claimed, seat);
                }
                // The session goes on with the windows that it has.
                Some(Claiming::Attach) => self.notes.happened(Consequence::LinkReattached),
            },
            LinkWord::NotClaimed(error) => match link.claiming.take().and_then(Claiming::attempt) {
                Some(attempt) => link.machine.on_refused(now, attempt, not_claimed(&error)),
                // Another connection was faster: it speaks for the worker.
                None => link.machine.on_superseded(),
            },
            LinkWord::Opened { is_held } => {
                if let Some((attempt, record)) = link.opening.take() {
                    if is_held {
                        link.machine.on_accepted(now, attempt, accept(&record));
                    } else {
                        link.machine.on_refused(now, attempt, trouble("taken over"));
                    }
                }
            }
            LinkWord::HandOver => {
                self.notes.happened(Consequence::HandOver);
                link.machine.on_superseded();
            }
            LinkWord::Notice(notice) => link.machine.on_notice(now, notice),
        }
        self.drive_link(at.server, id);
        None
    }

    /// The door tells a worker that a person drained it, or no longer does.
    pub(crate) fn worker_is_notified(
        &mut self,
        tenant: usize,
        worker: &WorkerId,
        wish: Option<DrainWish>,
    ) {
        let at = ShardAt { server: self.tenants[tenant].front, tenant };
        let live = self.served(at).live.as_ref();
        let Some(link) = live.and_then(|live| live.shard.sessions().link_of(worker)) else {
            return;
        };
        let notice = match wish {
            None => Notice::Undrain,
            Some(DrainWish { gone_in }) => {
                let deadline_ms = gone_in.and_then(|time| u64::try_from(time.as_millis()).ok());
                Notice::Drain { reason: None, deadline_ms }
            }
        };
        self.with_link(at.server, link, |link, now| link.machine.on_notice(now, notice));
    }

    /// The shard was rebuilt and knows nothing of its connections.
    pub(crate) fn links_detach(&mut self, at: ShardAt) {
        let links = &self.servers[at.server].links;
        let own = links.iter().filter(|(_, link)| link.at == at).map(|(id, _)| *id);
        for id in own.collect::<Vec<_>>() {
            self.with_link(at.server, id, |link, now| {
                let opening = link.opening.take().map(|(attempt, _)| attempt);
                let claiming = link.claiming.take().and_then(Claiming::attempt);
                for attempt in [opening, claiming].into_iter().flatten() {
                    link.machine.on_refused(now, attempt, trouble("the store cannot answer"));
                }
            });
            let event = Event::LinkAttaches { server: at.server, link: id };
            self.agenda.plan(self.clock.now + ATTACH_AFTER, event);
        }
    }

    /// A link whose shard was rebuilt asks for its place again.
    pub(crate) fn link_attaches(&mut self, server: usize, id: LinkId) {
        let Some(link) = self.servers[server].links.get_mut(&id) else { return };
        let is_free = link.claiming.is_none() && link.leaves_by.is_none();
        let claim = link.machine.attach_claim().filter(|_| is_free);
        let at = link.at;
        if let Some(claim) = claim {
            self.link_claims(at, id, (Claiming::Attach, claim));
        }
    }

    /// Who asked something of a shard that is gone.
    pub(crate) fn refuse_asker(&mut self, server: usize, asker: Asker) -> Option<Call> {
        match asker {
            Asker::Call(call) => Some(call),
            Asker::Link(id, request) => {
                self.link_is_unanswered(server, id, request);
                None
            }
        }
    }
}

fn accept(record: &SessionRecord) -> SessionAccept {
    SessionAccept {
        session_id: record.session_id.clone(),
        session_token: token_of(&record.session_id),
        worker_instance_id: record.instance_id.clone(),
        expires_at: None,
    }
}

fn not_claimed(error: &ClaimError) -> Refusal {
    let code = match error {
        ClaimError::UnknownSession => ErrorCode::SessionUnknown,
        _ => ErrorCode::SessionDenied,
    };
    trouble_with(code, &format!("{error:?}"))
}

fn trouble_with(code: ErrorCode, what: &str) -> Refusal {
    Refusal { code, ..trouble(what) }
}
