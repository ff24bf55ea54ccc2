//! A worker and a server on a wire that fails as it is told, with a judge who knows what was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use protocol::session::control::ResetCode;
use protocol::session::envelope::Envelope;
use protocol::session::event::{CommitToken, ServerEvent, WorkerEvent};
use protocol::session::frame::BusinessFrame;
use protocol::session::payload::control::Resume;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::server_session::{Grant, Session};
use protocol::session::state::State;
use protocol::session::token::{Bearer, KeyRing};
use protocol::session::worker_machine::{Connection, WorkerMachine, WorkerOptions};
use serde_json::value::RawValue;

/// What happens when so many frames were handed to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The connection is cut, and both ends notice.
    Cut,
    /// The worker's side is cut; the server still hears what was on its way, and goes on talking.
    HalfOpen,
    /// The server's process dies and comes back without its buffers.
    Restart,
}

/// How the wire fails.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) loss_percent: u64,
    pub(crate) duplicate_percent: u64,
    /// Every frame takes from 1 to so many milliseconds, and passes others if it is quicker.
    pub(crate) delay_ms_max: u64,
    pub(crate) blows: BTreeMap<u64, Blow>,
    /// Frames that the server takes back right after it sent them.
    pub(crate) voids: BTreeSet<usize>,
    pub(crate) commit_delay_ms_max: u64,
    /// When loss and duplication end.
    pub(crate) heals_at_ms: u64,
    pub(crate) window: u64,
    pub(crate) frames: usize,
}

impl Faults {
    /// A wire that does not fail.
    pub(crate) fn none() -> Self {
        Self {
            loss_percent: 0,
            duplicate_percent: 0,
            delay_ms_max: 1,
            blows: BTreeMap::new(),
            voids: BTreeSet::new(),
            commit_delay_ms_max: 1,
            heals_at_ms: u64::MAX,
            window: 4,
            frames: 6,
        }
    }
}

/// What one direction of one session was given and gave, in order.
#[derive(Debug, Default)]
struct Ledger {
    sent: Vec<String>,
    delivered: usize,
    /// The receiver forgot its place: what is durable may come again, nothing may be left out.
    may_rewind: bool,
}

/// What the schedule brought about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) resumes: u64,
    pub(crate) sessions: u64,
    pub(crate) gave_up: u64,
    pub(crate) resets: u64,
}

struct InFlight {
    connection: usize,
    to_server: bool,
    frame: Arc<Envelope>,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    faults: Faults,
    dice: u64,
    pub(crate) worker: WorkerMachine,
    link: Option<(Connection, usize)>,
    links: Vec<Connection>,
    servers: BTreeMap<usize, ServerMachine>,
    parked: Option<Session>,
    wire: BTreeMap<(Timestamp, u64), InFlight>,
    commits: BTreeMap<(Timestamp, u64), CommitToken>,
    keys: KeyRing,
    sessions_known: BTreeSet<String>,
    /// By session: what the worker sent, and what the server was given.
    up: BTreeMap<String, Ledger>,
    down: BTreeMap<String, Ledger>,
    /// What the worker handed to its machine since its last session was lost.
    up_pending: Vec<String>,
    down_waiting: VecDeque<BusinessFrame>,
    up_waiting: VecDeque<BusinessFrame>,
    token_ids: BTreeMap<u64, String>,
    pub(crate) durable: BTreeSet<String>,
    pub(crate) received: BTreeSet<String>,
    voided: BTreeSet<String>,
    pub(crate) counts: Counts,
}

pub(crate) fn business(id: String) -> BusinessFrame {
    BusinessFrame {
        kind: "biz.test".into(),
        corr: Some(id.clone()),
        id,
        seq: None,
        wants_ack: true,
        payload: RawValue::from_string("{}".to_owned()).unwrap(),
    }
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let empty = RawValue::from_string("{}".to_owned()).unwrap();
        let worker = WorkerMachine::new(WorkerOptions {
            tenant: "t".to_owned(),
            instance_id: "w".to_owned(),
            handshake: empty.clone(),
            register: empty,
            window: faults.window,
            heartbeat_every: Duration::from_secs(30),
            boot_id: Some("boot-1".to_owned()),
            seed,
        });
        let up = (0..faults.frames).map(|n| business(format!("up-{n}"))).collect();
        let down = (0..faults.frames).map(|n| business(format!("down-{n}"))).collect();
        Self {
            now: Timestamp::from_millis(1_000_000),
            faults,
            dice: seed ^ 0x5eed,
            worker,
            link: None,
            links: Vec::new(),
            servers: BTreeMap::new(),
            parked: None,
            wire: BTreeMap::new(),
            commits: BTreeMap::new(),
            keys: KeyRing::new("k1", &[7; 32]).unwrap(),
            sessions_known: BTreeSet::new(),
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            up_pending: Vec::new(),
            down_waiting: down,
            up_waiting: up,
            token_ids: BTreeMap::new(),
            durable: BTreeSet::new(),
            received: BTreeSet::new(),
            voided: BTreeSet::new(),
            counts: Counts::default(),
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.dice ^ (self.dice >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % below.max(1)
    }

    fn after(&mut self, millis_max: u64) -> (Timestamp, u64) {
        let delay = 1 + self.roll(millis_max);
        let tie = if millis_max > 1 { self.roll(u64::MAX) } else { self.counts.frames };
        (self.now.after(Duration::from_millis(delay)), tie)
    }

    /// Runs until all is delivered and confirmed; panics if it takes longer.
    pub(crate) fn run(&mut self, limit: Duration) {
        let end = self.now.after(limit);
        self.connect();
        while !self.is_done() {
            self.settle();
            let Some(next) = self.next_moment() else { panic!("nothing is due, nothing is done") };
            assert!(next <= end, "no progress: {:?} {:?}", self.durable, self.received);
            self.now = next.max(self.now);
            self.step();
        }
    }

    fn is_done(&self) -> bool {
        let ids = |way: &str| -> Vec<String> {
            (0..self.faults.frames).map(|n| format!("{way}-{n}")).collect()
        };
        let has_down = |id: &String| self.received.contains(id) || self.voided.contains(id);
        ids("up").iter().all(|id| self.durable.contains(id)) && ids("down").iter().all(has_down)
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let servers = self.servers.values().filter_map(ServerMachine::next_deadline);
        let wire = self.wire.keys().next().map(|(at, _)| *at);
        let commit = self.commits.keys().next().map(|(at, _)| *at);
        let worker = self.worker.next_deadline();
        servers.chain(wire).chain(commit).chain(worker).min()
    }

    fn step(&mut self) {
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now
        {
            let (_, flight) = entry.remove_entry();
            self.arrive(flight);
        }
        while let Some(entry) = self.commits.first_entry()
            && entry.key().0 <= self.now
        {
            let ((_, tie), token) = entry.remove_entry();
            self.commit(tie, token);
        }
        self.worker.tick(self.now);
        for server in self.servers.values_mut() {
            server.tick(self.now);
        }
    }

    fn arrive(&mut self, flight: InFlight) {
        let InFlight { connection, to_server, frame } = flight;
        let frame = Envelope::clone(&frame);
        if to_server {
            if let Some(server) = self.servers.get_mut(&connection) {
                server.receive(self.now, frame);
            }
        } else {
            self.worker.receive(self.now, self.links[connection], frame);
        }
    }

    /// Durable first, then told.
    fn commit(&mut self, tie: u64, token: CommitToken) {
        let id = self.token_ids.remove(&tie).unwrap();
        self.durable.insert(id.clone());
        let session_id = Some(token.session_id().to_owned());
        let carrier =
            self.servers.values_mut().find(|server| server.session_id() == session_id.as_deref());
        let answer = Some(format!("COMMITTED {id}"));
        if let Some(server) = carrier {
            server.commit(self.now, token, answer);
        } else if let Some(session) = &mut self.parked {
            session.commit(&token, answer);
        }
    }

    /// Lets both ends speak until they have nothing to say.
    fn settle(&mut self) {
        loop {
            self.worker.check_invariants();
            self.servers.values().for_each(ServerMachine::check_invariants);
            let mut is_busy = self.hear_worker() || self.hear_servers();
            is_busy |= self.feed();
            is_busy |= self.transmit();
            if !is_busy {
                return;
            }
        }
    }

    fn feed(&mut self) -> bool {
        let mut is_busy = false;
        if !self.worker.is_full()
            && let Some(frame) = self.up_waiting.pop_front()
        {
            self.up_pending.push(frame.id.clone());
            if let Some(session) = self.worker.session_id() {
                self.up.get_mut(session).unwrap().sent.push(frame.id.clone());
            }
            self.worker.send(self.now, frame).unwrap();
            is_busy = true;
        }
        let server = self
            .servers
            .values_mut()
            .find(|server| server.session_id().is_some() && matches!(server.state(), State::Ready));
        if let Some(server) = server
            && !server.is_full()
            && let Some(frame) = self.down_waiting.pop_front()
        {
            let (id, session) = (frame.id.clone(), server.session_id().unwrap().to_owned());
            server.send(self.now, frame).unwrap();
            self.down.get_mut(&session).unwrap().sent.push(id.clone());
            let number: usize = id.strip_prefix("down-").unwrap().parse().unwrap();
            if self.faults.voids.contains(&number) && server.void(self.now, &id) {
                self.voided.insert(id);
            }
            is_busy = true;
        }
        is_busy
    }

    fn transmit(&mut self) -> bool {
        let mut out: Vec<InFlight> = Vec::new();
        while let Some(frame) = self.worker.poll_frame() {
            if let Some((_, connection)) = self.link {
                out.push(InFlight { connection, to_server: true, frame });
            }
        }
        for (&connection, server) in &mut self.servers {
            while let Some(frame) = server.poll_frame() {
                out.push(InFlight { connection, to_server: false, frame });
            }
        }
        let is_busy = !out.is_empty();
        for flight in out {
            self.launch(flight);
        }
        is_busy
    }

    fn launch(&mut self, flight: InFlight) {
        self.counts.frames += 1;
        let heals_at = self.faults.heals_at_ms.saturating_add(1_000_000);
        let is_healed = self.now.as_millis() >= heals_at;
        let chance = |percent: u64| if is_healed { 0 } else { percent };
        let (loss, duplicate) =
            (chance(self.faults.loss_percent), chance(self.faults.duplicate_percent));
        if self.roll(100) < duplicate {
            let key = self.after(self.faults.delay_ms_max);
            let frame = Arc::clone(&flight.frame);
            self.wire.insert(key, InFlight { frame, ..flight });
        }
        if self.roll(100) >= loss {
            let key = self.after(self.faults.delay_ms_max);
            self.wire.insert(key, flight);
        }
        if let Some(blow) = self.faults.blows.remove(&self.counts.frames) {
            self.strike(blow);
        }
    }

    fn strike(&mut self, blow: Blow) {
        let Some((connection, number)) = self.link.take() else { return };
        match blow {
            Blow::Cut => self.cut(number),
            Blow::HalfOpen => {}
            Blow::Restart => self.restart(),
        }
        self.worker.disconnected(self.now, connection);
    }

    fn cut(&mut self, number: usize) {
        self.wire.retain(|_, flight| flight.connection != number);
        self.hear_server(number);
        if let Some(mut server) = self.servers.remove(&number)
            && let Some(session) = server.take_session()
        {
            self.parked = Some(session);
        }
    }

    fn restart(&mut self) {
        self.wire.clear();
        self.servers.clear();
        self.parked = None;
        self.commits.clear();
        self.token_ids.clear();
        for ledger in self.up.values_mut() {
            ledger.may_rewind = true;
        }
        // What the coordinator knows to be undelivered it offers again.
        let ids = (0..self.faults.frames).map(|n| format!("down-{n}"));
        let open = ids.filter(|id| !self.received.contains(id) && !self.voided.contains(id));
        self.down_waiting = open.map(business).collect();
    }

    fn hear_worker(&mut self) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.worker.poll_event() {
            is_busy = true;
            self.on_worker_event(event);
        }
        is_busy
    }

    fn on_worker_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::ConnectDue => self.connect(),
            WorkerEvent::Disconnect { connection, .. } => {
                if let Some((_, number)) = self.link.take_if(|(link, _)| *link == connection) {
                    self.cut(number);
                }
            }
            WorkerEvent::Ready { is_resumed } => {
                let session = self.worker.session_id().unwrap().to_owned();
                if is_resumed {
                    self.counts.resumes += 1;
                } else {
                    let sent = self.up_pending.clone();
                    self.up.insert(session, Ledger { sent, ..Ledger::default() });
                }
            }
            WorkerEvent::HeartbeatDue => {
                let payload = RawValue::from_string("{}".to_owned()).unwrap();
                self.worker.heartbeat(self.now, payload);
            }
            WorkerEvent::Delivered { frame } => self.judge_down(frame.id),
            WorkerEvent::Acked { id } => {
                assert!(self.durable.contains(&id), "{id} is confirmed, but not durable");
            }
            WorkerEvent::Answered { id, info } => {
                assert!(self.durable.contains(&id), "{id} is answered, but not durable");
                assert_eq!(info, Some(format!("COMMITTED {id}")), "the answer is kept");
            }
            WorkerEvent::GaveUp { .. } => self.counts.gave_up += 1,
            WorkerEvent::SessionLost { unconfirmed, .. } => {
                self.counts.resets += 1;
                self.up_pending.clear();
                unconfirmed.into_iter().rev().for_each(|frame| self.up_waiting.push_front(frame));
            }
            WorkerEvent::Drain { .. } => {}
        }
    }

    fn judge_down(&mut self, id: String) {
        let ledger = self.down.get_mut(self.worker.session_id().unwrap()).unwrap();
        while ledger.sent[ledger.delivered] != id {
            let skipped = &ledger.sent[ledger.delivered];
            assert!(self.voided.contains(skipped), "{id} came, {skipped} was left out");
            ledger.delivered += 1;
        }
        ledger.delivered += 1;
        self.received.insert(id);
    }

    fn judge_up(&mut self, session: &str, id: &str) {
        let ledger = self.up.get_mut(session).unwrap();
        if std::mem::take(&mut ledger.may_rewind) {
            let position = ledger.sent.iter().position(|sent| sent == id).unwrap();
            assert!(
                position <= ledger.delivered,
                "{id} came after a restart, others were left out"
            );
            let skipped = &ledger.sent[..position];
            assert!(skipped.iter().all(|id| self.durable.contains(id)), "a frame was left out");
            ledger.delivered = position;
        }
        assert_eq!(
            ledger.sent.get(ledger.delivered).map(String::as_str),
            Some(id),
            "in order, once"
        );
        ledger.delivered += 1;
    }

    fn hear_servers(&mut self) -> bool {
        let numbers: Vec<usize> = self.servers.keys().copied().collect();
        numbers.into_iter().fold(false, |is_busy, number| self.hear_server(number) || is_busy)
    }

    fn hear_server(&mut self, number: usize) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.servers.get_mut(&number).and_then(ServerMachine::poll_event) {
            is_busy = true;
            self.on_server_event(number, event);
        }
        is_busy
    }

    fn on_server_event(&mut self, number: usize, event: ServerEvent) {
        let now = self.now;
        match event {
            ServerEvent::Handshake { .. } => self.server(number).accept_handshake(now),
            ServerEvent::Register { is_first: true, .. } => self.open_session(number),
            ServerEvent::Resume { payload, .. } => self.resume_session(number, &payload),
            ServerEvent::Delivered { token, frame } => {
                self.judge_up(token.session_id(), &frame.id);
                let key = self.after(self.faults.commit_delay_ms_max);
                let key = (key.0, self.roll(u64::MAX));
                self.token_ids.insert(key.1, frame.id);
                self.commits.insert(key, token);
            }
            ServerEvent::Acked { id } => {
                let is_known = self.received.contains(&id) || self.voided.contains(&id);
                assert!(is_known, "{id} is confirmed, but never came");
            }
            ServerEvent::GaveUp { .. } => self.counts.gave_up += 1,
            ServerEvent::SessionEnded { session_id, unconfirmed, .. } => {
                self.sessions_known.remove(&session_id);
                self.offer_again(unconfirmed);
            }
            ServerEvent::Register { is_first: false, .. } | ServerEvent::Heartbeat { .. } => {}
        }
    }

    fn offer_again(&mut self, unconfirmed: Vec<BusinessFrame>) {
        let open = unconfirmed.into_iter().filter(|frame| !self.voided.contains(&frame.id));
        let open: Vec<_> = open.collect();
        open.into_iter().rev().for_each(|frame| self.down_waiting.push_front(frame));
    }

    fn server(&mut self, number: usize) -> &mut ServerMachine {
        self.servers.get_mut(&number).unwrap()
    }

    fn grant(&mut self, session_id: &str) -> Grant {
        let bearer = Bearer { session_id, worker_instance_id: "w", tenant: "t" };
        let expires_at = self.now.after(Duration::from_hours(1));
        Grant {
            session_id: session_id.to_owned(),
            session_token: self.keys.issue(bearer, self.now, expires_at),
            worker_instance_id: "w".to_owned(),
            expires_at: Some(expires_at),
        }
    }

    /// The session leaves every connection but this one; those stay, for frames still on the way.
    fn unbind(&mut self, number: usize) -> Option<Session> {
        let mut found = self.parked.take();
        let others: Vec<usize> = self.servers.keys().copied().filter(|n| *n != number).collect();
        for other in others {
            self.hear_server(other);
            let server = self.server(other);
            found = server.take_session().or(found);
            server.close();
        }
        self.server(number).take_session().or(found)
    }

    fn open_session(&mut self, number: usize) {
        if let Some(old) = self.unbind(number) {
            self.sessions_known.remove(old.id());
            self.offer_again(old.into_unconfirmed());
        }
        let session_id = format!("s{:04}", self.counts.sessions);
        self.counts.sessions += 1;
        let grant = self.grant(&session_id);
        self.down.insert(session_id.clone(), Ledger::default());
        self.sessions_known.insert(session_id);
        let now = self.now;
        self.server(number).accept(now, grant);
    }

    fn resume_session(&mut self, number: usize, asked: &Resume) {
        let id = asked.session_id.as_str();
        let bearer = Bearer { session_id: id, worker_instance_id: "w", tenant: "t" };
        self.keys.verify(&asked.session_token, bearer, self.now).unwrap();
        let found = self.unbind(number);
        let now = self.now;
        if !self.sessions_known.contains(id) {
            self.parked = found;
            return self.server(number).refuse(
                now,
                ResetCode::UnknownSession,
                "no session with this id",
                None,
            );
        }
        let session = found.unwrap_or_else(|| {
            let ledger = self.down.get_mut(id).unwrap();
            ledger.sent.truncate(ledger.delivered);
            Session::restored(id, self.faults.window)
        });
        assert_eq!(session.id(), id);
        let grant = self.grant(id);
        self.server(number).resume(now, session, grant);
    }

    fn connect(&mut self) {
        let connection = self.worker.connected(self.now);
        let number = self.links.len();
        self.links.push(connection);
        self.link = Some((connection, number));
        let options = ServerOptions {
            sender_id: "scheduler-control".to_owned(),
            window: self.faults.window,
            seed: self.dice,
        };
        self.servers.insert(number, ServerMachine::new(options));
    }
}
