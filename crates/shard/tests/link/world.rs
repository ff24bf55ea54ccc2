//! One worker, its connections and the server's end of each, over a wire that a schedule drives.
//!
//! The machines are real: `WorkerMachine` on one side, `WorkerLink` and `SessionTable` on the
//! other. The coordinator is a stand-in that grants leases and remembers what became of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Command, Grant, HeartbeatVerdict, Judgement, Question, Renewal, StateWord, Verdict,
};
use model::{Demand, LeaseId, ShardId, TaskId, TaskSpec, Timestamp, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::session::envelope::Envelope;
use protocol::session::event::WorkerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::server_session::SessionAccept;
use protocol::session::state::State;
use protocol::session::worker_machine::{Connection, WorkerMachine, WorkerOptions};
use serde_json::value::RawValue;
use shard::sessions::{ClaimError, LinkId, Notice, SessionClaim, SessionEffect, SessionTable};
use shard::worker_link::{
    Applicant, Leaving, LinkAsk, LinkEvent, LinkOptions, Opening, Refusal, RequestId, SessionAsk,
    SessionSeat, WorkerLink,
};

const INSTANCE: &str = "i-1";
const SLOTS: u64 = 4;

/// One connection, both ends.
struct Wire {
    link: WorkerLink,
    worker_side: Option<Connection>,
    up: VecDeque<Arc<Envelope>>,
    down: VecDeque<Arc<Envelope>>,
    /// What the link asked for and nobody did yet.
    asks: VecDeque<LinkAsk>,
    /// Questions for leases that wait at the coordinator.
    waiting: BTreeSet<RequestId>,
    /// Answers that are on their way to the link.
    answers: VecDeque<(RequestId, Answer)>,
    notices: VecDeque<Notice>,
    is_superseded: bool,
    /// The worker closed the connection.
    is_hung_up: bool,
    /// A claim that was made under this attempt.
    claiming: Option<u64>,
}

/// What became of a lease that was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) delivered: u32,
    pub(crate) returned: u32,
    pub(crate) reported: u32,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    random: u64,
    pub(crate) worker: WorkerMachine,
    pub(crate) table: SessionTable,
    wires: BTreeMap<LinkId, Wire>,
    next_link: u64,
    next_task: u64,
    sessions: u64,
    pub(crate) fates: BTreeMap<LeaseId, Fate>,
    pub(crate) n_resumed: u64,
    pub(crate) n_superseded: u64,
    pub(crate) n_drains: u64,
    pub(crate) n_rows: u64,
    /// Sessions that went on without their windows, or ended: dispatches in them may be lost, and
    /// their leases end by their own deadline.
    pub(crate) n_windows_lost: u64,
    /// What the links told their driver.
    pub(crate) told: Vec<LinkEvent>,
    /// The leases of each heartbeat that reached the coordinator.
    pub(crate) beats: Vec<Vec<LeaseId>>,
    /// What the worker heard about its frames, by their ids.
    pub(crate) answered: Vec<(String, Option<String>)>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Timestamp::from_millis(1_790_000_000_000),
            random: seed,
            worker: new_worker(seed),
            table: SessionTable::default(),
            wires: BTreeMap::new(),
            next_link: 0,
            next_task: 0,
            sessions: 0,
            fates: BTreeMap::new(),
            n_resumed: 0,
            n_superseded: 0,
            n_drains: 0,
            n_rows: 0,
            n_windows_lost: 0,
            told: Vec::new(),
            beats: Vec::new(),
            answered: Vec::new(),
        }
    }

    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % below.max(1) as u64).expect("small")
    }

    // ----- what a schedule can do

    /// The worker opens a connection, whether it has one or not.
    pub(crate) fn connect(&mut self) -> LinkId {
        let connection = self.worker.connected(self.now);
        self.next_link += 1;
        let id = LinkId(self.next_link);
        let options = LinkOptions { window: 8, seed: self.random ^ self.next_link };
        let wire = Wire {
            link: WorkerLink::new(self.now, options),
            worker_side: Some(connection),
            up: VecDeque::new(),
            down: VecDeque::new(),
            asks: VecDeque::new(),
            waiting: BTreeSet::new(),
            answers: VecDeque::new(),
            notices: VecDeque::new(),
            is_superseded: false,
            is_hung_up: false,
            claiming: None,
        };
        for other in self.wires.values_mut() {
            other.worker_side = None;
        }
        self.wires.insert(id, wire);
        self.pump();
        id
    }

    pub(crate) fn links(&self) -> Vec<LinkId> {
        self.wires.keys().copied().collect()
    }

    /// The connection breaks: the server's end parks, the worker's hears of it if it still has it.
    pub(crate) fn cut(&mut self, id: LinkId) {
        let Some(mut wire) = self.wires.remove(&id) else { return };
        self.n_windows_lost += u64::from(!wire.link.is_settled());
        wire.link.close();
        self.take_asks(&mut wire);
        for ask in std::mem::take(&mut wire.asks) {
            match ask {
                LinkAsk::Session(SessionAsk::Park { carried }) => {
                    self.table.park(self.now, id, *carried);
                }
                LinkAsk::Session(SessionAsk::End { session_id }) => self.table.end(id, &session_id),
                LinkAsk::Tell(command) => self.tell(command),
                // Whoever waited for an answer is gone, and takes its question with it.
                LinkAsk::Ask { .. } | LinkAsk::Withdraw { .. } | LinkAsk::Session(_) => {}
            }
        }
        // A grant that crosses with the end of the connection goes back.
        for (_, answer) in std::mem::take(&mut wire.answers) {
            self.take_back(&answer);
        }
        self.table.on_link_gone(self.now, id);
        self.take_effects();
        if let Some(connection) = wire.worker_side {
            self.worker.disconnected(self.now, connection);
        }
        self.pump();
    }

    /// The worker says something of its own accord.
    pub(crate) fn say(&mut self, kind: &'static str, payload: &str) {
        let frame = BusinessFrame {
            kind: kind.into(),
            id: kind.to_owned(),
            corr: None,
            seq: None,
            wants_ack: true,
            payload: raw(payload),
        };
        self.worker.send(self.now, frame).expect("room");
        self.pump();
    }

    /// The server's end of a connection.
    pub(crate) fn link(&mut self, id: LinkId) -> &mut WorkerLink {
        &mut self.wires.get_mut(&id).expect("it is open").link
    }

    /// Delivers the next frame to the server.
    pub(crate) fn deliver_up(&mut self, id: LinkId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        let Some(frame) = wire.up.pop_front() else { return false };
        wire.link.on_frame(self.now, Envelope::clone(&frame));
        wire.link.act(self.now);
        self.pump();
        true
    }

    /// Delivers the next frame to the worker.
    pub(crate) fn deliver_down(&mut self, id: LinkId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        let Some(frame) = wire.down.pop_front() else { return false };
        if let Some(connection) = wire.worker_side {
            self.worker.receive(self.now, connection, Envelope::clone(&frame));
        }
        self.pump();
        true
    }

    /// Does the next thing that a link asked for.
    pub(crate) fn perform(&mut self, id: LinkId) -> bool {
        let Some(mut wire) = self.wires.remove(&id) else { return false };
        let ask = wire.asks.pop_front();
        let is_some = ask.is_some();
        if let Some(ask) = ask {
            self.do_ask(id, &mut wire, ask);
        }
        self.wires.insert(id, wire);
        self.take_effects();
        self.pump();
        is_some
    }

    /// The coordinator grants a lease to a question that waits; the grant is on its way then.
    pub(crate) fn grant(&mut self, id: LinkId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        let Some(request) = wire.waiting.pop_first() else { return false };
        self.next_task += 1;
        let grant = grant(self.next_task, self.now);
        self.fates.insert(grant.lease, Fate::default());
        wire.answers.push_back((request, Answer::Leases(vec![grant])));
        true
    }

    /// An answer reaches its link.
    pub(crate) fn answer(&mut self, id: LinkId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        let Some((request, answer)) = wire.answers.pop_front() else { return false };
        wire.link.on_answer(self.now, request, answer);
        wire.link.act(self.now);
        self.pump();
        true
    }

    /// A person drains the worker, and takes it back.
    pub(crate) fn drain(&mut self) -> bool {
        let link = self.table.link_of(&worker_name());
        let Some(wire) = link.and_then(|link| self.wires.get_mut(&link)) else { return false };
        wire.notices.push_back(Notice::Drain { reason: None, deadline_ms: None });
        true
    }

    /// A notice reaches its link, or the news that a newer connection speaks for the worker.
    pub(crate) fn notice(&mut self, id: LinkId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else { return false };
        if let Some(notice) = wire.notices.pop_front() {
            wire.link.on_notice(self.now, notice);
            wire.link.act(self.now);
        } else if std::mem::take(&mut wire.is_superseded) {
            wire.link.on_superseded();
            assert_eq!(wire.link.is_leaving(), Some(Leaving::Superseded));
            self.n_superseded += 1;
            return self.leave(id);
        } else {
            return false;
        }
        self.pump();
        true
    }

    /// What a driver does when its link leaves: answers that frames wait for, then the end.
    pub(crate) fn leave(&mut self, id: LinkId) -> bool {
        while self.wires.get(&id).is_some_and(|wire| !wire.link.is_settled()) {
            if !self.answer(id) && !self.perform(id) {
                break;
            }
        }
        self.cut(id);
        true
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.worker.tick(self.now);
        self.table.tick(self.now);
        for wire in self.wires.values_mut() {
            wire.link.tick(self.now);
            wire.link.act(self.now);
        }
        self.take_effects();
        let overdue = self.wires.iter().filter(|(_, wire)| wire.link.is_leaving().is_some());
        let overdue: Vec<_> = overdue.map(|(id, _)| *id).collect();
        for id in overdue {
            self.leave(id);
        }
        self.pump();
    }

    // ----- the layers above

    fn pump(&mut self) {
        let ids = self.links();
        for id in ids {
            let Some(mut wire) = self.wires.remove(&id) else { continue };
            self.take_asks(&mut wire);
            while let Some(frame) = wire.link.poll_frame() {
                wire.down.push_back(frame);
            }
            self.wires.insert(id, wire);
        }
        while let Some(event) = self.worker.poll_event() {
            self.hear(event);
        }
        let own = self.wires.values_mut().find(|wire| wire.worker_side.is_some());
        if let Some(wire) = own {
            while let Some(frame) = self.worker.poll_frame() {
                wire.up.push_back(frame);
            }
        }
        self.worker.check_invariants();
        self.table.check_invariants();
        let hung_up = self.wires.iter().find(|(_, wire)| wire.is_hung_up).map(|(id, _)| *id);
        if let Some(id) = hung_up {
            self.cut(id);
        }
    }

    fn hear(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Delivered { frame } => {
                let Ok(lease) = frame.id.parse::<LeaseId>() else { return };
                self.fates.get_mut(&lease).expect("it was granted").delivered += 1;
                let result = format!(
                    r#"{{"run_id":"r","task_id":"{}","status":"SUCCEEDED","result":{{}}}}"#,
                    lease.task
                );
                let frame = BusinessFrame {
                    kind: "biz.exec.result".into(),
                    id: format!("result-{lease}"),
                    corr: Some(lease.to_string()),
                    seq: None,
                    wants_ack: true,
                    payload: raw(&result),
                };
                // A worker whose session is full keeps its result; the world never fills one.
                self.worker.send(self.now, frame).expect("room");
            }
            WorkerEvent::Ready { is_resumed } => self.n_resumed += u64::from(is_resumed),
            WorkerEvent::Drain { .. } => self.n_drains += 1,
            WorkerEvent::SessionLost { unconfirmed, .. } => {
                self.n_windows_lost += 1;
                for frame in unconfirmed {
                    self.worker.send(self.now, frame).expect("room");
                }
            }
            WorkerEvent::HeartbeatDue => {
                let beat = raw(r#"{"healthy":true,"metrics":{"inflight":0}}"#);
                self.worker.heartbeat(self.now, beat);
            }
            WorkerEvent::Disconnect { connection, .. } => {
                let is_it = |wire: &&mut Wire| wire.worker_side == Some(connection);
                if let Some(wire) = self.wires.values_mut().find(is_it) {
                    wire.worker_side = None;
                    wire.is_hung_up = true;
                }
            }
            WorkerEvent::ConnectDue | WorkerEvent::Acked { .. } | WorkerEvent::GaveUp { .. } => {}
            WorkerEvent::Answered { id, info } => self.answered.push((id, info)),
        }
    }

    fn take_asks(&mut self, wire: &mut Wire) {
        while let Some(event) = wire.link.poll_event() {
            match event {
                LinkEvent::Feedback { .. } => panic!("the worker reports no progress"),
                LinkEvent::Unreadable { why }
                | LinkEvent::Misread { why, .. }
                | LinkEvent::FrameRefused { why, .. } => panic!("{why}"),
                LinkEvent::Ended { .. } => self.n_windows_lost += 1,
                LinkEvent::Refused { code: ErrorCode::RequestInvalid, reason } => {
                    panic!("{reason}")
                }
                other => self.told.push(other),
            }
        }
        while let Some(ask) = wire.link.poll_ask() {
            wire.asks.push_back(ask);
        }
    }

    fn do_ask(&mut self, id: LinkId, wire: &mut Wire, ask: LinkAsk) {
        match ask {
            LinkAsk::Ask { request, question } => self.ask(wire, request, question),
            LinkAsk::Withdraw { request } => {
                wire.waiting.remove(&request);
                // What was granted to it meanwhile goes back.
                for (other, answer) in &mut wire.answers {
                    if *other == request {
                        let answer = std::mem::replace(answer, Answer::Leases(Vec::new()));
                        self.take_back(&answer);
                    }
                }
                wire.answers.push_back((request, Answer::Leases(Vec::new())));
            }
            LinkAsk::Tell(command) => self.tell(command),
            LinkAsk::Session(ask) => self.ask_session(id, wire, ask),
        }
    }

    fn ask(&mut self, wire: &mut Wire, request: RequestId, question: Question) {
        let answer = match question {
            Question::RequestLeases { .. } => {
                wire.waiting.insert(request);
                return;
            }
            Question::Report { reports } => {
                for report in &reports {
                    self.fates.get_mut(&report.lease).expect("granted").reported += 1;
                }
                let judgement = Judgement {
                    verdict: Verdict::Committed,
                    task_state: Some(StateWord::Completed),
                };
                Answer::Judgements(vec![judgement; reports.len()])
            }
            Question::Heartbeat { leases: Renewal::Listed(leases), .. } => {
                let extended = HeartbeatVerdict::Extended { expires_at: self.now };
                let verdicts = vec![extended; leases.len()];
                self.beats.push(leases);
                Answer::Heartbeats { verdicts, drain: None }
            }
            Question::SetDrain { .. } => Answer::DrainSet,
            other => panic!("a link without middlewares does not ask {other:?}"),
        };
        wire.answers.push_back((request, answer));
    }

    fn tell(&mut self, command: Command) {
        match command {
            Command::ReturnLeases { leases } => {
                for lease in leases {
                    self.fates.get_mut(&lease).expect("it was granted").returned += 1;
                }
            }
            Command::LoseWorker { .. } => panic!("the process is the same"),
            _ => {}
        }
    }

    fn take_back(&mut self, answer: &Answer) {
        if let Answer::Leases(grants) = answer {
            let leases = grants.iter().map(|grant| grant.lease).collect();
            self.tell(Command::ReturnLeases { leases });
        }
    }

    fn ask_session(&mut self, id: LinkId, wire: &mut Wire, ask: SessionAsk) {
        match ask {
            SessionAsk::Authenticate { attempt, authenticate } => {
                let applicant = Applicant {
                    tenant: "t".parse().expect("a name"),
                    token_id: None,
                    instance_id: INSTANCE.to_owned(),
                    sender_id: authenticate.sender_id,
                    boot_id: authenticate.boot_id,
                    name: "w".to_owned(),
                    bound: Some("w".parse().expect("a name")),
                    version: "1".to_owned(),
                    hostname: "h".to_owned(),
                };
                wire.link.on_authenticated(self.now, attempt, Ok(applicant));
            }
            SessionAsk::Claim { attempt, claim, .. } => self.claim(id, wire, attempt, &claim),
            SessionAsk::Resume { attempt, resume, .. } => {
                let claim = SessionClaim {
                    instance_id: INSTANCE.to_owned(),
                    given_name: String::new(),
                    bound: None,
                    resumes: Some(resume.session_id),
                    token_id: None,
                    revoked: None,
                };
                self.claim(id, wire, attempt, &claim);
            }
            SessionAsk::Accept { attempt, opening } => self.accept(id, wire, attempt, opening),
            SessionAsk::End { session_id } => self.table.end(id, &session_id),
            SessionAsk::Park { carried } => {
                wire.claiming = None;
                wire.notices.clear();
                wire.is_superseded = false;
                self.table.park(self.now, id, *carried);
            }
        }
    }

    fn claim(&mut self, id: LinkId, wire: &mut Wire, attempt: u64, claim: &SessionClaim) {
        wire.claiming = Some(attempt);
        if let Err(error) = self.table.claim(self.now, id, claim) {
            let code = match error {
                ClaimError::UnknownSession => ErrorCode::SessionUnknown,
                _ => ErrorCode::SessionDenied,
            };
            wire.link.on_refused(self.now, attempt, Refusal::new(code, "not claimed"));
        }
    }

    fn accept(&mut self, id: LinkId, wire: &mut Wire, attempt: u64, opening: Opening) {
        let (record, is_held) = match opening {
            Opening::New(record) => {
                // What a session before it had on its way is gone with it.
                self.n_windows_lost += u64::from(
                    self.table.view(&worker_name()).is_some_and(|view| view.record.is_some()),
                );
                let is_held = self.table.open(id, (*record).clone());
                (record, is_held)
            }
            Opening::Resumed(record) => (record, self.table.renew(self.now, id)),
        };
        if is_held {
            let accept = SessionAccept {
                session_id: record.session_id.clone(),
                session_token: "token".to_owned(),
                worker_instance_id: record.instance_id.clone(),
                expires_at: None,
            };
            wire.link.on_accepted(self.now, attempt, accept);
        } else {
            wire.link.on_refused(self.now, attempt, Refusal::new(ErrorCode::SessionDenied, "late"));
        }
        wire.link.act(self.now);
    }

    fn take_effects(&mut self) {
        while let Some(effect) = self.table.poll_effect() {
            match effect {
                SessionEffect::HandOver { link } => {
                    if let Some(wire) = self.wires.get_mut(&link) {
                        wire.is_superseded = true;
                    }
                }
                SessionEffect::Claimed { link, claimed } => {
                    self.sessions += 1;
                    let shard = shard();
                    let seat = SessionSeat { shard, session_id: format!("s-{}", self.sessions) };
                    let wire = self.wires.get_mut(&link);
                    let attempt = wire.as_ref().and_then(|wire| wire.claiming);
                    match (wire, attempt) {
                        (Some(wire), Some(attempt)) => {
                            wire.link.on_claimed(self.now, attempt, *claimed, seat);
                        }
                        // Granted to a connection that has gone.
                        _ => self.table.put_back(self.now, link, *claimed),
                    }
                }
                SessionEffect::Keep(_) | SessionEffect::Forget { .. } => self.n_rows += 1,
                SessionEffect::KeepMember { .. } | SessionEffect::ForgetMember { .. } => {
                    panic!("every worker here has a session")
                }
            }
        }
    }

    // ----- the end of a schedule

    /// Lets everything happen until nothing more does.
    pub(crate) fn quiesce(&mut self) {
        for _ in 0..2_000 {
            let mut is_busy = false;
            for id in self.links() {
                is_busy |= self.perform(id);
                is_busy |= self.notice(id);
                is_busy |= self.answer(id);
                is_busy |= self.deliver_up(id);
                is_busy |= self.deliver_down(id);
            }
            if !is_busy {
                return;
            }
        }
        panic!("it never ends");
    }

    /// The wire is good from here on: the worker comes back if it must, and all is settled.
    pub(crate) fn heal(&mut self) {
        for round in 0..1_000 {
            self.quiesce();
            let is_open = matches!(self.worker.state(), State::Ready | State::Draining);
            // Frames that were lost with a window are not waited for, after some time.
            let may_be_lost = self.n_windows_lost > 0 && round > 40;
            let is_settled = self.fates.values().all(|fate| {
                (may_be_lost || fate.delivered + fate.returned > 0)
                    && fate.reported >= fate.delivered
            });
            if is_open && is_settled {
                return;
            }
            if !is_open && self.wires.values().all(|wire| wire.worker_side.is_none()) {
                self.pass(Duration::from_secs(1));
                self.connect();
            } else {
                self.pass(Duration::from_millis(250));
            }
        }
        panic!("no peace: {:?} {:?}", self.worker.state(), self.fates);
    }

    /// What must be true when all is settled.
    pub(crate) fn check(&self) {
        for (lease, fate) in &self.fates {
            assert!(fate.delivered <= 1, "{lease} was dispatched twice: {fate:?}");
            assert!(fate.returned <= 1, "{lease} was returned twice: {fate:?}");
            let n_fates = fate.delivered + fate.returned;
            assert!(n_fates <= 1, "{lease} was returned and dispatched: {fate:?}");
            assert!(n_fates == 1 || self.n_windows_lost > 0, "{lease} is lost: {fate:?}");
        }
        let speakers = self.wires.values().filter(|wire| wire.link.worker().is_some()).count();
        assert_eq!(speakers, 1, "one connection speaks for the worker");
        assert!(self.table.counts().known == 1);
    }
}

fn new_worker(seed: u64) -> WorkerMachine {
    let handshake = r#"{"protocol":1,
        "worker":{"worker_instance_id":"i-1","worker_name":"w","version":"1","hostname":"h"},
        "auth":{"mode":"token","token":"secret"}}"#;
    let register = format!(
        r#"{{"capabilities":{{"concurrency":{{"max_parallel":{SLOTS}}},"runtimes":["builtin"],
        "features":[]}},"packages":[],"payload_types":[]}}"#
    );
    WorkerMachine::new(WorkerOptions {
        tenant: "t".to_owned(),
        instance_id: INSTANCE.to_owned(),
        handshake: raw(handshake),
        register: raw(&register),
        window: 8,
        heartbeat_every: Duration::from_secs(10),
        boot_id: Some("boot-1".to_owned()),
        seed,
    })
}

fn raw(json: &str) -> Box<RawValue> {
    serde_json::from_str(json).expect("JSON")
}

fn worker_name() -> WorkerId {
    "w".parse().expect("a name")
}

fn shard() -> ShardId {
    ShardId::new(1).expect("fits")
}

fn grant(number: u64, now: Timestamp) -> Grant {
    let demand = Demand {
        queue: "default".parse().expect("a name"),
        task_type: "core.noop".parse().expect("a name"),
        tools: [].into(),
        tags: BTreeMap::new(),
        package: None,
    };
    let spec = TaskSpec {
        demand,
        priority: 0,
        lease_ttl: Duration::from_secs(30),
        timeout: None,
        retry: model::RetryPolicy::default(),
    };
    Grant {
        lease: LeaseId { task: TaskId::of(shard(), number), epoch: 1 },
        attempt: 1,
        spec: Arc::new(spec),
        parameters: Bytes::from_static(b"{}"),
        run: None,
        concurrency_key: None,
        link: None,
        chain: None,
        fact: None,
        expires_at: now.after(Duration::from_secs(30)),
        heartbeat_every: Duration::from_secs(10),
    }
}
