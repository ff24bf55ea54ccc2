//! A worker process that holds a session: it executes what it is dispatched, and reports.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{LeaseId, Report, ReportedOutcome, Timestamp, WorkerId};
use protocol::session::codec::OpenObject;
use protocol::session::envelope::Reader;
use protocol::session::event::WorkerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload, Vocabulary};
use protocol::session::payload::exec::{
    Dispatch, ExecResult, NextRequest, NextResponse, ResultError, ResultStatus,
};
use protocol::session::worker_machine::{Connection, WorkerMachine, WorkerOptions};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shard::report_key::content_key;
use shard::sessions::LinkId;

use super::wire::{Direction, Sent};
use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::rng::{Dice, scatter};
use crate::runs::{Step, StepMove};
use crate::store::tenant_id;
use crate::workload::Fate;
use crate::world::{World, tenant_of};

/// Frames that may be out in each direction: few, so that sessions are full at times.
const WINDOW: u64 = 8;
/// How often a heartbeat is due: shorter than most leases.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);

/// A worker process and its machine.
#[derive(Debug)]
pub(crate) struct SessionWorker {
    pub(crate) tenant: usize,
    pub(crate) id: WorkerId,
    instance_id: String,
    pub(crate) process: u64,
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    clock: ProcessClock,
    machine: WorkerMachine,
    reader: Reader,
    pub(crate) line: Option<LinkId>,
    pub(crate) jobs: BTreeMap<LeaseId, SessionJob>,
    /// Results that are not answered yet, by the frame's id.
    reports: BTreeMap<String, Report>,
    alarm: u64,
    alarm_at: Option<u64>,
    slots: u64,
    /// Calls that were sent.
    sent: u64,
    dice: Dice,
}

/// One dispatch that the worker works on.
#[derive(Debug)]
pub(crate) struct SessionJob {
    work: SessionWork,
    dispatch: Box<Dispatch>,
    is_reporting: bool,
    /// It waits for the next in line.
    is_calling: bool,
}

#[derive(Debug)]
enum SessionWork {
    Wish { intent: u64, fate: Fate },
    Step(Step),
}

/// What wakes the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionTimer {
    Start,
    Tick(u64),
    Done(LeaseId),
    Die(LeaseId),
    Disconnected(Connection),
}

impl SessionWorker {
    pub(crate) fn is_reporting(&self) -> bool {
        !self.reports.is_empty()
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).expect("JSON")
}

fn object(value: &Value) -> OpenObject {
    OpenObject::new(raw(value)).expect("an object")
}

fn machine(
    tenant: usize,
    instance_id: &str,
    name: &str,
    slots: u64,
    process: u64,
) -> WorkerMachine {
    let handshake = json!({
        "protocol": 1,
        "worker": { "worker_instance_id": instance_id, "worker_name": name, "version": "1", "hostname": "h" },
        "auth": { "mode": "token", "token": "secret" }
    });
    let features = ["tool:git", "tool:ffmpeg", "tag:gpu=yes"];
    let register = json!({
        "capabilities": { "concurrency": { "max_parallel": slots }, "runtimes": ["builtin"], "features": features },
        "packages": [{ "name": "pdf", "version": "1.2.0", "status": "installed" }],
        "payload_types": ["biz.exec.cancel"]
    });
    WorkerMachine::new(WorkerOptions {
        tenant: tenant_id(tenant).to_string(),
        instance_id: instance_id.to_owned(),
        handshake: raw(&handshake),
        register: raw(&register),
        window: WINDOW,
        heartbeat_every: HEARTBEAT_EVERY,
        boot_id: Some(format!("boot-{process}")),
        seed: scatter(process),
    })
}

impl World {
    pub(crate) fn spawn_session_workers(&mut self) {
        let mut dice = Dice::for_purpose(self.seed, "session workers");
        for (tenant, count) in [dice.between(1, 2), 1].into_iter().enumerate() {
            for number in 0..count {
                let name = format!("session-{number}");
                let instance_id = format!("instance-{tenant}-{number}");
                let slots = dice.between(1, 3);
                self.session_workers.push(SessionWorker {
                    tenant,
                    id: name.parse().expect("a name"),
                    process: 0,
                    is_alive: false,
                    paused_until: 0,
                    clock: ProcessClock::start(self.clock),
                    machine: machine(tenant, &instance_id, &name, slots, 0),
                    instance_id,
                    reader: Reader::default(),
                    line: None,
                    jobs: BTreeMap::new(),
                    reports: BTreeMap::new(),
                    alarm: 0,
                    alarm_at: None,
                    slots,
                    sent: 0,
                    dice: Dice::of_parts(self.seed, scatter(number), 31 + tenant as u64),
                });
                let worker = self.session_workers.len() - 1;
                self.kill_session_worker(worker, dice.below(500));
            }
        }
    }

    pub(crate) fn session_worker_paused(&self, worker: usize) -> Option<u64> {
        let until = self.session_workers[worker].paused_until;
        (until > self.clock.now).then_some(until)
    }

    fn session_timer(&mut self, worker: usize, after: u64, timer: SessionTimer) {
        let process = self.session_workers[worker].process;
        self.agenda.plan(self.clock.now + after, Event::SessionWorker { worker, process, timer });
    }

    /// The process dies with all that it knew; another one starts in its place.
    pub(crate) fn kill_session_worker(&mut self, worker: usize, back_in: u64) {
        if let Some(line) = self.session_workers[worker].line.take() {
            self.cut_line(line);
        }
        self.processes += 1;
        let process = self.processes;
        let it = &mut self.session_workers[worker];
        (it.process, it.is_alive, it.paused_until) = (process, false, 0);
        it.machine = machine(it.tenant, &it.instance_id, it.id.as_str(), it.slots, process);
        it.jobs.clear();
        it.reports.clear();
        it.alarm_at = None;
        self.session_timer(worker, back_in, SessionTimer::Start);
    }

    pub(crate) fn session_worker_wakes(
        &mut self,
        worker: usize,
        process: u64,
        timer: SessionTimer,
    ) {
        if self.session_workers[worker].process != process {
            return;
        }
        if let Some(until) = self.session_worker_paused(worker) {
            let event = Event::SessionWorker { worker, process, timer };
            return self.agenda.plan(until, event);
        }
        let now = self.session_now(worker);
        let it = &mut self.session_workers[worker];
        match timer {
            SessionTimer::Start => {
                it.is_alive = true;
                it.clock = ProcessClock::start(self.clock);
                self.session_worker_connects(worker);
            }
            SessionTimer::Tick(alarm) => {
                if it.alarm == alarm {
                    it.alarm_at = None;
                    it.machine.tick(now);
                }
            }
            SessionTimer::Disconnected(connection) => it.machine.disconnected(now, connection),
            SessionTimer::Done(lease) => self.session_job_done(worker, lease),
            SessionTimer::Die(lease) => return self.session_worker_poisoned(worker, lease),
        }
        self.pump_session_worker(worker);
    }

    fn session_now(&self, worker: usize) -> Timestamp {
        self.session_workers[worker].clock.now(self.clock)
    }

    fn session_worker_connects(&mut self, worker: usize) {
        let now = self.session_now(worker);
        let at = self.choose_server(self.session_workers[worker].tenant);
        let is_there = self.servers[at.server].is_alive;
        if let Some(line) = self.session_workers[worker].line.take() {
            self.cut_line(line);
        }
        let it = &mut self.session_workers[worker];
        if is_there {
            let connection = it.machine.connected(now);
            self.open_line(worker, at, connection);
        } else {
            it.machine.connect_failed(now);
        }
    }

    pub(crate) fn session_worker_receives(&mut self, worker: usize, line: LinkId, sent: Sent) {
        let now = self.session_now(worker);
        let Some(connection) = self.lines.get(&line).map(|line| line.connection) else { return };
        let it = &mut self.session_workers[worker];
        if !it.is_alive {
            return;
        }
        match sent {
            Sent::Ping => self.send_on(line, Direction::Up, &Sent::Pong),
            Sent::Pong => {}
            Sent::Frame(text) => match it.reader.read_text(&text) {
                Ok(frame) => it.machine.receive(now, connection, frame),
                Err(error) => {
                    return self.notes.broken("P7", || format!("a frame cannot be read: {error}"));
                }
            },
        }
        self.pump_session_worker(worker);
    }

    /// Passes on what the machine has to say, and sets its next alarm.
    fn pump_session_worker(&mut self, worker: usize) {
        while let Some(event) = self.session_workers[worker].machine.poll_event() {
            self.session_worker_hears(worker, event);
        }
        let it = &mut self.session_workers[worker];
        it.machine.check_invariants();
        let mut frames = Vec::new();
        while let Some(frame) = it.machine.poll_frame() {
            frames.push(frame.to_text().expect("our own frames are JSON"));
        }
        if let Some(line) = it.line {
            for frame in frames {
                self.send_on(line, Direction::Up, &Sent::Frame(frame));
            }
        }
        self.set_session_alarm(worker);
    }

    fn set_session_alarm(&mut self, worker: usize) {
        let it = &mut self.session_workers[worker];
        let Some(deadline) = it.machine.next_deadline() else { return };
        let due = it.clock.true_time_of(deadline, self.clock).max(self.clock.now + 1);
        if it.alarm_at.is_some_and(|at| at <= due && at > self.clock.now) {
            return;
        }
        it.alarm += 1;
        it.alarm_at = Some(due);
        let (alarm, after) = (it.alarm, due - self.clock.now);
        self.session_timer(worker, after, SessionTimer::Tick(alarm));
    }

    fn session_worker_hears(&mut self, worker: usize, event: WorkerEvent) {
        let now = self.session_now(worker);
        match event {
            WorkerEvent::ConnectDue => self.session_worker_connects(worker),
            WorkerEvent::Disconnect { .. } => {
                if let Some(line) = self.session_workers[worker].line.take() {
                    self.cut_line(line);
                }
            }
            WorkerEvent::Ready { is_resumed } => {
                if is_resumed {
                    self.notes.happened(Consequence::SessionResumed);
                }
                // The server may have lost what it was told on the connection before.
                let it = &self.session_workers[worker];
                let calling = it.jobs.iter().filter(|(_, job)| job.is_calling);
                for lease in calling.map(|(lease, _)| *lease).collect::<Vec<_>>() {
                    self.session_job_done(worker, lease);
                }
            }
            WorkerEvent::HeartbeatDue => {
                let it = &mut self.session_workers[worker];
                let leases: Vec<String> = it.jobs.keys().map(ToString::to_string).collect();
                let metrics = json!({ "inflight": leases.len(), "leases": leases });
                let beat = raw(&json!({ "healthy": true, "metrics": metrics }));
                it.machine.heartbeat(now, beat);
            }
            WorkerEvent::Delivered { frame } => self.session_worker_is_given(worker, &frame),
            WorkerEvent::Answered { id, info } => {
                if let Some(report) = self.session_workers[worker].reports.remove(&id) {
                    self.session_worker_is_judged(worker, &report, info.as_deref());
                }
            }
            WorkerEvent::Drain { .. } => self.notes.happened(Consequence::DrainReachedWorker),
            // What was not confirmed is said again in the next session.
            WorkerEvent::SessionLost { unconfirmed, .. } => {
                for frame in unconfirmed {
                    let it = &mut self.session_workers[worker];
                    if it.reports.contains_key(&frame.id) {
                        let _ = it.machine.send(now, frame);
                    }
                }
            }
            WorkerEvent::Acked { id } => {
                // The ack that named the frame was lost; a later one counted it.
                if let Some(report) = self.session_workers[worker].reports.remove(&id) {
                    self.session_workers[worker].jobs.remove(&report.lease);
                }
            }
            WorkerEvent::GaveUp { .. } => {}
        }
    }

    fn session_worker_is_given(&mut self, worker: usize, frame: &BusinessFrame) {
        let kind = Kind::from_name(&frame.kind);
        let decoded = kind.and_then(|kind| Payload::decode(kind, &frame.payload).ok());
        match decoded {
            Some(Payload::ExecDispatch(dispatch)) => match frame.id.parse() {
                Ok(lease) => self.session_worker_begins(worker, lease, dispatch),
                Err(_) => self.notes.broken("P7", || format!("{} is no lease", frame.id)),
            },
            Some(Payload::ExecCancel(cancel)) => {
                if let Ok(lease) = cancel.lease_id.parse::<LeaseId>() {
                    self.notes.happened(Consequence::CancelReachedWorker);
                    let it = &mut self.session_workers[worker];
                    it.jobs.retain(|held, job| *held != lease || job.is_reporting);
                }
            }
            Some(Payload::NextResponse(response)) => {
                self.session_worker_called_back(worker, &response);
            }
            other => self.notes.broken("P7", || format!("a worker was sent {other:?}")),
        }
    }

    fn session_worker_begins(&mut self, worker: usize, lease: LeaseId, dispatch: Box<Dispatch>) {
        let (process, tenant) =
            (self.session_workers[worker].process, self.session_workers[worker].tenant);
        let own = &mut self.tenants[tenant];
        own.journal.granted(lease, process, &own.durable, &mut self.notes);
        self.notes.demand(tenant_of(lease.task) == tenant, "P13", || {
            format!("session worker {worker} of tenant {tenant} was given {lease}")
        });
        self.notes.happened(Consequence::DispatchedByFrame);
        let parameters: Value = serde_json::from_str(dispatch.parameters.get()).unwrap_or_default();
        let wish = parameters["value"].as_u64().filter(|_| dispatch.run_id == dispatch.task_id);
        let intent = wish.unwrap_or(0);
        let fate = Fate::of(self.seed, intent, lease.epoch);
        let takes = if self.has_faults { fate.takes } else { fate.takes.min(500) };
        let (work, takes) = if wish.is_some() {
            (SessionWork::Wish { intent, fate }, takes)
        } else {
            let step = Step::new(&dispatch.node_type, parameters, lease.epoch);
            (SessionWork::Step(step), takes.min(300))
        };
        let job = SessionJob { work, dispatch, is_reporting: false, is_calling: false };
        self.session_workers[worker].jobs.insert(lease, job);
        if wish.is_some() && self.is_poison(intent) {
            let after = self.session_workers[worker].dice.below(300);
            return self.session_timer(worker, after, SessionTimer::Die(lease));
        }
        self.session_timer(worker, takes, SessionTimer::Done(lease));
    }

    fn session_worker_poisoned(&mut self, worker: usize, lease: LeaseId) {
        if !self.session_workers[worker].jobs.contains_key(&lease) {
            return;
        }
        self.fault(Fault::Poison, || {
            format!("task {} kills session worker {worker}", lease.task.number())
        });
        let own = &mut self.tenants[tenant_of(lease.task)];
        own.journal.killed(lease, &own.durable, &mut self.notes);
        let back_in = self.session_workers[worker].dice.between(300, 1_500);
        self.kill_session_worker(worker, back_in);
    }

    fn session_job_done(&mut self, worker: usize, lease: LeaseId) {
        let (now, fails) = (self.session_now(worker), self.has_faults);
        let it = &mut self.session_workers[worker];
        let Some(job) = it.jobs.get_mut(&lease).filter(|job| !job.is_reporting) else { return };
        let outcome = match &job.work {
            SessionWork::Wish { intent, fate } => {
                let words = it.dice.bits();
                wish_outcome(*intent, *fate, words, fails && fate.fails)
            }
            SessionWork::Step(step) => match step.next_move() {
                StepMove::Report(outcome) => outcome,
                StepMove::Call { request, payload } => {
                    it.sent += 1;
                    let frame = next_frame((lease, it.sent), &job.dispatch, &request, &payload);
                    job.is_calling = true;
                    // A session that is full takes the call a little later.
                    if it.machine.send(now, frame).is_err() {
                        self.session_timer(worker, 300, SessionTimer::Done(lease));
                    }
                    return;
                }
            },
        };
        let frame = result_frame(lease, &job.dispatch, &outcome);
        let id = frame.id.clone();
        if it.machine.send(now, frame).is_err() {
            return self.session_timer(worker, 300, SessionTimer::Done(lease));
        }
        job.is_reporting = true;
        let key = content_key(&outcome);
        it.reports.insert(id, Report { lease, worker: it.id.clone(), key, outcome });
    }

    fn session_worker_called_back(&mut self, worker: usize, response: &NextResponse) {
        let it = &mut self.session_workers[worker];
        let Some((lease, request)) = response.request_id.split_once('/') else { return };
        let Ok(lease) = lease.parse::<LeaseId>() else { return };
        let job = it.jobs.get_mut(&lease);
        let Some(SessionJob { work: SessionWork::Step(step), is_calling, .. }) = job else {
            return;
        };
        *is_calling = false;
        let code = response.error.as_ref().map(|error| error.code.as_str());
        if code.is_some_and(|code| !ENDED.contains(&code)) {
            // It has no right to call any more: its lease is over.
            it.jobs.remove(&lease);
            return;
        }
        step.on_called(request, code.is_none());
        self.session_timer(worker, 5, SessionTimer::Done(lease));
    }

    /// What the ack of a result says: the verdict, which must be durable.
    fn session_worker_is_judged(&mut self, worker: usize, report: &Report, info: Option<&str>) {
        let it = &mut self.session_workers[worker];
        it.jobs.remove(&report.lease);
        let own = &mut self.tenants[it.tenant];
        match info.map(|info| info.split_once(' ').unwrap_or((info, ""))) {
            Some(("COMMITTED", _)) => {
                own.journal.committed_by_frame(report, &own.durable, &mut self.notes);
                self.notes.happened(Consequence::CommittedByFrame);
            }
            Some(("CANCELLED", _)) => own.journal.lost_by_frame(report.lease),
            other => self.notes.broken("P3", || {
                let lease = report.lease;
                format!("session worker {worker} keeps to the contract, but {lease} got {other:?}")
            }),
        }
    }
}

/// Codes of an answer that says how the next in line ended.
const ENDED: [&str; 4] = ["next_failed", "next_skipped", "next_cancelled", "next_timeout"];

fn wish_outcome(intent: u64, fate: Fate, words: u64, fails: bool) -> ReportedOutcome {
    if fails {
        let failure = model::Failure::new("E.RUNNER.FAILURE", format!("{words:x}"));
        return ReportedOutcome::Failed { failure, retryable: fate.retryable };
    }
    let result = json!({ "wish": format!("{intent}-{words:x}") }).to_string();
    ReportedOutcome::Completed { result: result.into(), extra: None }
}

fn result_frame(lease: LeaseId, dispatch: &Dispatch, outcome: &ReportedOutcome) -> BusinessFrame {
    let mut said = ExecResult {
        run_id: dispatch.run_id.clone(),
        task_id: dispatch.task_id.clone(),
        status: ResultStatus::Succeeded,
        result: OpenObject::empty(),
        duration_ms: None,
        metadata: None,
        artifacts: None,
        error: None,
    };
    match outcome {
        ReportedOutcome::Completed { result, extra } => {
            let text = String::from_utf8_lossy(result).into_owned();
            let raw = RawValue::from_string(text).expect("a result is JSON");
            said.result = OpenObject::new(raw).expect("a result is an object");
            if extra.as_ref().is_some_and(|extra| extra.is_skipped) {
                said.status = ResultStatus::Skipped;
            }
        }
        ReportedOutcome::Failed { failure, retryable } => {
            said.status = ResultStatus::Failed;
            said.metadata = Some(object(&json!({ "retryable": retryable })));
            let (code, message) = (failure.code.clone(), failure.reason.clone());
            said.error = Some(ResultError { code, message, remediation: None });
        }
    }
    business(Kind::ExecResult, format!("result-{lease}"), lease, &Payload::ExecResult(said))
}

fn next_frame(
    (lease, number): (LeaseId, u64),
    dispatch: &Dispatch,
    request: &str,
    payload: &Value,
) -> BusinessFrame {
    let said = NextRequest {
        request_id: format!("{lease}/{request}"),
        run_id: dispatch.run_id.clone(),
        node_id: dispatch.host_node_id.clone().unwrap_or_default(),
        middleware_id: dispatch.node_id.clone(),
        chain_index: dispatch.chain_index,
        host_ctx: None,
        middleware_ctx: None,
        payload: Some(object(payload)),
        timeout_ms: None,
    };
    let id = format!("next-{number}");
    business(Kind::NextRequest, id, lease, &Payload::NextRequest(said))
}

fn business(kind: Kind, id: String, lease: LeaseId, payload: &Payload) -> BusinessFrame {
    BusinessFrame {
        kind: kind.name().into(),
        id,
        corr: Some(lease.to_string()),
        seq: None,
        wants_ack: true,
        payload: payload.encode_for(Vocabulary::default()).1,
    }
}
