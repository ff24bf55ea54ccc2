//! A worker and a server on a wire that fails as it is told, with a judge who knows what was sent.

mod cost;
mod faults;
mod server_end;
mod wire;
mod worker_end;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use model::Timestamp;
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::server_machine::{ServerMachine, ServerOptions};
use protocol::session::server_session::Session;
use protocol::session::state::State;
use protocol::session::token::KeyRing;
use protocol::session::worker_machine::{Connection, WorkerMachine, WorkerOptions};
use serde_json::value::RawValue;

use self::cost::Cost;
pub(crate) use self::faults::{Blow, Faults};
use self::wire::InFlight;

/// What one direction of one session was given and gave, in order.
#[derive(Debug, Default)]
struct Ledger {
    sent: Vec<String>,
    /// What the sender knows to have come.
    acked: BTreeSet<String>,
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
    /// Drains that the worker heard of.
    pub(crate) drains: u64,
    /// Frames that an ack said were held, out of order.
    pub(crate) held: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.resumes += other.resumes;
        self.sessions += other.sessions;
        self.gave_up += other.gave_up;
        self.resets += other.resets;
        self.drains += other.drains;
        self.held += other.held;
    }
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    faults: Faults,
    dice: u64,
    pub(crate) worker: WorkerMachine,
    link: Option<(Connection, usize)>,
    links: Vec<Option<Connection>>,
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
    /// What of it was confirmed.
    up_acked: BTreeSet<String>,
    /// A connection that only the server's side has left, and until when.
    leaving: Option<(Timestamp, Connection)>,
    down_waiting: VecDeque<BusinessFrame>,
    up_waiting: VecDeque<BusinessFrame>,
    token_ids: BTreeMap<u64, String>,
    pub(crate) durable: BTreeSet<String>,
    pub(crate) received: BTreeSet<String>,
    voided: BTreeSet<String>,
    /// When the worker is offered frames again.
    undrain_at: Option<Timestamp>,
    cost: Cost,
    pub(crate) counts: Counts,
}

pub(crate) fn business(id: String) -> BusinessFrame {
    BusinessFrame {
        kind: "biz.test".into(),
        corr: Some(id.clone()),
        id,
        seq: None,
        wants_ack: true,
        payload: RawValue::from_string("{}".to_owned()).expect("JSON"),
    }
}

fn new_worker(seed: u64, window: u64) -> WorkerMachine {
    let empty = RawValue::from_string("{}".to_owned()).expect("JSON");
    WorkerMachine::new(WorkerOptions {
        tenant: "t".to_owned(),
        instance_id: "w".to_owned(),
        handshake: empty.clone(),
        register: empty,
        window,
        heartbeat_every: Duration::from_secs(30),
        boot_id: Some("boot-1".to_owned()),
        seed,
    })
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let worker = new_worker(seed, faults.window);
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
            keys: KeyRing::new("k1", &[7; 32]).expect("a long secret"),
            sessions_known: BTreeSet::new(),
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            up_pending: Vec::new(),
            up_acked: BTreeSet::new(),
            leaving: None,
            down_waiting: down,
            up_waiting: up,
            token_ids: BTreeMap::new(),
            durable: BTreeSet::new(),
            received: BTreeSet::new(),
            voided: BTreeSet::new(),
            undrain_at: None,
            cost: Cost::default(),
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
        loop {
            self.settle();
            if self.is_done() {
                return;
            }
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
        let is_told = self.up_pending.iter().all(|id| self.up_acked.contains(id));
        let is_durable = ids("up").iter().all(|id| self.durable.contains(id));
        is_told && is_durable && ids("down").iter().all(has_down)
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let servers = self.servers.values().filter_map(ServerMachine::next_deadline);
        let wire = self.wire.keys().next().map(|(at, _)| *at);
        let commit = self.commits.keys().next().map(|(at, _)| *at);
        let worker = self.worker.next_deadline();
        let leaving = self.leaving.map(|(at, _)| at);
        let later = leaving.into_iter().chain(self.undrain_at);
        servers.chain(wire).chain(commit).chain(worker).chain(later).min()
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
        self.leave();
        self.undrain();
        self.worker.tick(self.now);
        for server in self.servers.values_mut() {
            server.tick(self.now);
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
                self.up.get_mut(session).expect("known").sent.push(frame.id.clone());
            }
            self.worker.send(self.now, frame).expect("room");
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
            let (id, session) =
                (frame.id.clone(), server.session_id().expect("a session").to_owned());
            server.send(self.now, frame).expect("room");
            self.down.get_mut(&session).expect("known").sent.push(id.clone());
            let number: usize =
                id.strip_prefix("down-").expect("a frame down").parse().expect("a number");
            if self.faults.voids.contains(&number) && server.void(self.now, &id) {
                self.voided.insert(id);
            }
            is_busy = true;
        }
        is_busy
    }

    fn connect(&mut self) {
        let connection = self.worker.connected(self.now);
        let number = self.links.len();
        self.links.push(Some(connection));
        self.link = Some((connection, number));
        let options = ServerOptions {
            sender_id: "scheduler-control".to_owned(),
            window: self.faults.window,
            seed: self.dice,
        };
        self.servers.insert(number, ServerMachine::new(options));
    }
}
