//! A worker, as seed 002 wants it: asks, executes, beats, reports, believes the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, DrainOrder, Grant, HeartbeatVerdict, Judgement, NextCall, NextEnd, Renewal, Verdict,
};
use model::{Failure, LeaseId, Offer, Report, ReportKey, ReportedOutcome, WorkerId};
use shard::report_key::content_key;

use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Ask, Call, LeaseAsk, Peer, Reply, Request, Told, Wire};
use crate::rng::{Dice, scatter};
use crate::runs::{Step, StepMove};
use crate::workload::{Fate, intent_of};
use crate::world::{World, tenant_of};

/// How long a worker waits for work in one call.
const WAIT: u64 = 8_000;
/// How long it waits for an answer that should come at once.
const PATIENCE: u64 = 1_500;
/// How long it waits for the next in line before it asks again.
const NEXT_PATIENCE: u64 = 4_000;
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// A worker process and what it believes.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own that a worker is")]
pub(crate) struct Worker {
    pub(crate) tenant: usize,
    pub(crate) id: WorkerId,
    /// Changes with each start; whatever was meant for an earlier process is lost.
    pub(crate) process: u64,
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    pub(crate) half_open_until: u64,
    pub(crate) offer: Arc<Offer>,
    pub(crate) slots: u32,
    pub(crate) confirms: bool,
    /// How fast its clock runs: 1000 is right.
    pub(crate) drift: u64,
    pub(crate) habits: Habits,
    pub(crate) is_clone: bool,
    pub(crate) jobs: BTreeMap<LeaseId, Job>,
    pub(crate) calls: BTreeMap<u64, Asked>,
    outbox: Vec<Report>,
    asking: Option<u64>,
    /// Whether its process has heard that it is registered.
    is_registered: bool,
    pub(crate) dice: Dice,
}

/// How a worker keeps to the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    pub(crate) ignores_cancelled: bool,
    pub(crate) reports_twice: bool,
    pub(crate) lies: bool,
}

impl Habits {
    pub(crate) fn are_honest(self) -> bool {
        self == Self::default()
    }
}

/// One lease that a worker works under.
#[derive(Debug)]
pub(crate) struct Job {
    work: Work,
    beat_every: u64,
    is_reporting: bool,
    /// A middleware that waits for the next in line takes no slot.
    is_waiting: bool,
}

impl Job {
    pub(crate) fn is_wish(&self) -> bool {
        matches!(self.work, Work::Wish { .. })
    }
}

/// What a lease is for.
#[derive(Debug)]
enum Work {
    /// A task that someone submitted.
    Wish { intent: u64, fate: Fate },
    /// A step of a run.
    Step(Step),
}

/// A call that has not been answered.
#[derive(Debug)]
pub(crate) enum Asked {
    Register,
    Lease,
    Beat(Vec<LeaseId>),
    Next(LeaseId, Box<NextCall>),
    Report {
        reports: Vec<Report>,
        is_repeated: bool,
    },
    /// Nobody waits for the answer, but the oracle looks at it.
    Noise(Vec<Report>),
}

/// What a worker's clock wakes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerTimer {
    Ask,
    Beat(LeaseId),
    Done(LeaseId),
    Flush,
    GiveUp(u64),
    Die(LeaseId),
    Start,
    Lie,
    Leave,
}

impl Worker {
    pub(crate) fn new((tenant, id): (usize, WorkerId), offer: Arc<Offer>, dice: Dice) -> Self {
        Self {
            tenant,
            id,
            process: 0,
            is_alive: false,
            paused_until: 0,
            half_open_until: 0,
            offer,
            slots: 2,
            confirms: false,
            drift: 1_000,
            habits: Habits::default(),
            is_clone: false,
            jobs: BTreeMap::new(),
            calls: BTreeMap::new(),
            outbox: Vec::new(),
            asking: None,
            is_registered: false,
            dice,
        }
    }

    fn free_slots(&self) -> u32 {
        let busy = self.jobs.values().filter(|job| !job.is_waiting).count();
        self.slots.saturating_sub(u32::try_from(busy).unwrap_or(u32::MAX))
    }

    pub(crate) fn is_reporting(&self) -> bool {
        self.jobs.values().any(|job| job.is_reporting)
    }
}

impl World {
    fn worker_timer(&mut self, worker: usize, after: u64, timer: WorkerTimer) {
        let process = self.workers[worker].process;
        self.agenda.plan(self.clock.now + after, Event::Worker { worker, process, timer });
    }

    /// So much time by the worker's own clock.
    fn by_its_clock(&mut self, worker: usize, millis: u64) -> u64 {
        let drift = self.workers[worker].drift;
        if drift != 1_000 {
            self.fault(Fault::Drift, || format!("worker {worker} runs at {drift} permille"));
        }
        (millis * drift / 1_000).max(1)
    }

    pub(crate) fn worker_wakes(&mut self, worker: usize, process: u64, timer: WorkerTimer) {
        let it = &self.workers[worker];
        if it.process != process {
            return;
        }
        if it.paused_until > self.clock.now {
            let event = Event::Worker { worker, process, timer };
            return self.agenda.plan(it.paused_until, event);
        }
        match timer {
            WorkerTimer::Start => self.worker_starts(worker),
            _ if !it.is_alive => {}
            WorkerTimer::Ask => self.worker_asks(worker),
            WorkerTimer::Beat(lease) => self.worker_beats(worker, lease),
            WorkerTimer::Done(lease) => self.worker_is_done(worker, lease),
            WorkerTimer::Flush => self.worker_flushes(worker),
            WorkerTimer::GiveUp(number) => self.worker_gives_up(worker, number),
            WorkerTimer::Die(lease) => self.worker_is_poisoned(worker, lease),
            WorkerTimer::Lie => self.worker_lies(worker),
            WorkerTimer::Leave => self.worker_leaves(worker),
        }
    }

    pub(crate) fn worker_starts(&mut self, worker: usize) {
        let it = &mut self.workers[worker];
        it.is_alive = true;
        let lies = it.habits.lies;
        let (registers, leaves) = (it.dice.chance(500), it.dice.chance(300));
        let leaves_in = it.dice.between(1_000, 20_000);
        if registers {
            self.worker_registers(worker);
        }
        if leaves {
            self.worker_timer(worker, leaves_in, WorkerTimer::Leave);
        }
        self.worker_timer(worker, 1, WorkerTimer::Ask);
        if lies {
            self.worker_timer(worker, 500, WorkerTimer::Lie);
        }
    }

    /// The process dies with all that it knew.
    pub(crate) fn kill_worker(&mut self, worker: usize, back_in: u64) {
        self.processes += 1;
        let it = &mut self.workers[worker];
        it.process = self.processes;
        it.is_alive = false;
        it.paused_until = 0;
        it.jobs.clear();
        it.calls.clear();
        it.outbox.clear();
        it.asking = None;
        it.is_registered = false;
        if it.dice.chance(600) {
            self.withdraw_asks(worker);
        }
        self.worker_timer(worker, back_in, WorkerTimer::Start);
    }

    pub(crate) fn worker_calls(&mut self, worker: usize, ask: Ask, asked: Asked) -> u64 {
        self.last_call += 1;
        let (number, sent_at) = (self.last_call, self.clock.now);
        let it = &mut self.workers[worker];
        it.calls.insert(number, asked);
        let (process, tenant) = (it.process, it.tenant);
        let call = Call { peer: Peer::Worker(worker), process, number, sent_at };
        if it.is_clone {
            self.fault(Fault::ClonedWorker, || format!("worker {worker}, call {number}"));
        }
        let at = self.choose_server(tenant);
        self.post(&Wire::Request(Request { call, at, ask }));
        number
    }

    fn worker_asks(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let max = it.free_slots();
        if it.asking.is_some() || max == 0 {
            return;
        }
        let ask = LeaseAsk {
            worker: it.id.clone(),
            offer: Arc::clone(&it.offer),
            max,
            wait: Duration::from_millis(WAIT),
            confirm_within: it.confirms.then_some(CONFIRM_WITHIN),
        };
        let number = self.worker_calls(worker, Ask::Lease(ask), Asked::Lease);
        self.workers[worker].asking = Some(number);
        self.worker_timer(worker, WAIT + PATIENCE, WorkerTimer::GiveUp(number));
    }

    fn worker_beats(&mut self, worker: usize, lease: LeaseId) {
        let it = &mut self.workers[worker];
        // Seed 002 section 5: only while executing.
        let Some(job) = it.jobs.get(&lease).filter(|job| !job.is_reporting) else { return };
        let every = job.beat_every;
        let leases = match it.dice.below(4) {
            // A process that names nothing must be known to be a new one.
            0 if it.is_registered => {
                let n_active = if it.dice.chance(500) { it.jobs.len() } else { 0 };
                Renewal::Unlisted { n_active }
            }
            0 | 1 => Renewal::Listed(it.jobs.keys().copied().collect()),
            _ => Renewal::Listed(vec![lease]),
        };
        let listed = match &leases {
            Renewal::Listed(leases) => leases.clone(),
            Renewal::Unlisted { .. } => Vec::new(),
        };
        let ask = Ask::Heartbeat { worker: it.id.clone(), leases };
        self.worker_calls(worker, ask, Asked::Beat(listed));
        let after = self.by_its_clock(worker, every);
        self.worker_timer(worker, after, WorkerTimer::Beat(lease));
    }

    fn worker_is_done(&mut self, worker: usize, lease: LeaseId) {
        let fails = self.has_faults;
        let it = &mut self.workers[worker];
        let Some(job) = it.jobs.get_mut(&lease).filter(|job| !job.is_reporting) else { return };
        let report = match &job.work {
            Work::Wish { intent, fate } => {
                let (intent, fate) = (*intent, *fate);
                make_report(it, lease, (intent, fate), fails && fate.fails)
            }
            Work::Step(step) => match step.next_move() {
                StepMove::Call { request, payload } => {
                    return self.worker_calls_next(worker, lease, (request, &payload));
                }
                StepMove::Report(outcome) => {
                    let key = content_key(&outcome);
                    Report { lease, worker: it.id.clone(), key, outcome }
                }
            },
        };
        if let Some(job) = it.jobs.get_mut(&lease) {
            job.is_reporting = true;
        }
        it.outbox.push(report);
        // Some reports wait a little, so that several travel in one call.
        let after = if it.dice.chance(400) { 300 } else { 0 };
        self.worker_timer(worker, after, WorkerTimer::Flush);
    }

    /// A middleware hands on to the next in line, and works on its lease while it waits.
    fn worker_calls_next(
        &mut self,
        worker: usize,
        lease: LeaseId,
        (request, payload): (String, &serde_json::Value),
    ) {
        let call = Box::new(NextCall {
            lease,
            worker: self.workers[worker].id.clone(),
            request: request.into(),
            payload: Bytes::from(payload.to_string()),
            until: None,
        });
        let number = self.worker_calls(worker, Ask::Next(call.clone()), Asked::Next(lease, call));
        if let Some(job) = self.workers[worker].jobs.get_mut(&lease) {
            job.is_waiting = true;
            self.worker_timer(worker, 1, WorkerTimer::Ask);
        }
        self.worker_timer(worker, NEXT_PATIENCE, WorkerTimer::GiveUp(number));
    }

    fn worker_is_called_back(&mut self, worker: usize, number: u64, end: &NextEnd) {
        if matches!(end, NextEnd::AskedAgain) {
            return;
        }
        let it = &mut self.workers[worker];
        let Some(Asked::Next(lease, call)) = it.calls.remove(&number) else { return };
        let Some(Job { work: Work::Step(step), is_waiting, .. }) = it.jobs.get_mut(&lease) else {
            return;
        };
        *is_waiting = false;
        if matches!(end, NextEnd::NotAllowed { .. }) {
            it.jobs.remove(&lease);
            return self.worker_timer(worker, 1, WorkerTimer::Ask);
        }
        step.on_called(&call.request, matches!(end, NextEnd::Succeeded(_)));
        self.worker_timer(worker, 5, WorkerTimer::Done(lease));
    }

    fn worker_flushes(&mut self, worker: usize) {
        let reports = std::mem::take(&mut self.workers[worker].outbox);
        if !reports.is_empty() {
            self.worker_reports(worker, reports);
        }
    }

    fn worker_reports(&mut self, worker: usize, reports: Vec<Report>) {
        let ask = Ask::Report(reports.clone());
        let asked = Asked::Report { reports, is_repeated: false };
        let number = self.worker_calls(worker, ask, asked);
        let after = self.by_its_clock(worker, PATIENCE);
        self.worker_timer(worker, after, WorkerTimer::GiveUp(number));
    }

    /// No answer: a failure of the transport, which a worker may retry with the same words.
    fn worker_gives_up(&mut self, worker: usize, number: u64) {
        let renames = self.config.clients_rename;
        let it = &mut self.workers[worker];
        match it.calls.get_mut(&number) {
            Some(Asked::Lease) if it.asking == Some(number) => {
                it.asking = None;
                it.calls.remove(&number);
                self.worker_asks(worker);
            }
            Some(Asked::Report { reports, is_repeated }) if !*is_repeated => {
                // The entry stays: an answer that comes late after all is still an answer.
                *is_repeated = true;
                let mut again: Vec<_> = reports.clone();
                again.retain(|report| it.jobs.contains_key(&report.lease));
                for report in again.iter_mut().filter(|_| renames) {
                    report.key = ReportKey(report.key.0 + 1);
                }
                if !again.is_empty() {
                    self.worker_reports(worker, again);
                }
            }
            Some(Asked::Next(lease, _)) => {
                let lease = *lease;
                it.calls.remove(&number);
                // The call has a name: it is made again, and waits for the same end.
                self.worker_is_done(worker, lease);
            }
            Some(
                Asked::Register
                | Asked::Lease
                | Asked::Beat(_)
                | Asked::Report { .. }
                | Asked::Noise(_),
            )
            | None => {}
        }
    }

    // ----- answers

    pub(crate) fn worker_hears(&mut self, worker: usize, reply: Reply) {
        let it = &mut self.workers[worker];
        if it.process != reply.call.process || !it.is_alive {
            return;
        }
        if it.paused_until > self.clock.now {
            let event = Event::Deliver(Box::new(Wire::Reply(reply)));
            return self.agenda.plan(it.paused_until, event);
        }
        let number = reply.call.number;
        match reply.told {
            Told::Answer(Answer::Leases(grants)) => self.worker_is_granted(worker, number, grants),
            Told::Answer(Answer::Heartbeats { verdicts, drain }) => {
                if let Some(Asked::Beat(leases)) = it.calls.remove(&number) {
                    self.worker_hears_beats(worker, &leases, &verdicts);
                }
                if drain == Some(DrainOrder::Leave) {
                    self.notes.happened(Consequence::DrainDeadlinePassed);
                    self.worker_leaves(worker);
                }
            }
            Told::Answer(Answer::Judgements(judgements)) => match it.calls.remove(&number) {
                Some(Asked::Report { reports, .. }) => {
                    self.worker_is_judged(worker, &reports, &judgements, true);
                }
                Some(Asked::Noise(reports)) => {
                    self.worker_is_judged(worker, &reports, &judgements, false);
                }
                Some(Asked::Register | Asked::Lease | Asked::Beat(_) | Asked::Next(..)) | None => {}
            },
            Told::Answer(Answer::Registered) => {
                let asked = it.calls.remove(&number);
                it.is_registered |= matches!(asked, Some(Asked::Register));
            }
            Told::Answer(Answer::Next(end)) => self.worker_is_called_back(worker, number, &end),
            Told::Answer(_) | Told::Malformed => {
                it.calls.remove(&number);
            }
            Told::Unavailable => self.worker_is_refused(worker, number),
        }
    }

    fn worker_is_refused(&mut self, worker: usize, number: u64) {
        let it = &mut self.workers[worker];
        let after = 200 + it.dice.below(400);
        match it.calls.get(&number) {
            Some(Asked::Lease) if it.asking == Some(number) => {
                it.asking = None;
                it.calls.remove(&number);
                self.worker_timer(worker, after, WorkerTimer::Ask);
            }
            Some(Asked::Report { .. } | Asked::Next(..)) => {
                self.worker_timer(worker, after, WorkerTimer::GiveUp(number));
            }
            Some(Asked::Register | Asked::Lease | Asked::Beat(_) | Asked::Noise(_)) | None => {}
        }
    }

    fn worker_is_granted(&mut self, worker: usize, number: u64, grants: Vec<Grant>) {
        let it = &mut self.workers[worker];
        // A second copy of an answer, or one to a call that was given up: nobody reads it.
        if it.asking != Some(number) {
            return;
        }
        it.asking = None;
        it.calls.remove(&number);
        for grant in grants {
            self.worker_begins(worker, &grant);
        }
        self.worker_timer(worker, 1, WorkerTimer::Ask);
    }

    fn worker_begins(&mut self, worker: usize, grant: &Grant) {
        let lease = grant.lease;
        let (process, tenant) = (self.workers[worker].process, self.workers[worker].tenant);
        let own = &mut self.tenants[tenant];
        own.journal.granted(lease, process, &own.durable, &mut self.notes);
        self.notes.demand(tenant_of(lease.task) == tenant, "P13", || {
            format!("worker {worker} of tenant {tenant} was given {lease}")
        });
        let intent = intent_of(&grant.parameters);
        let fate = Fate::of(self.seed, intent, lease.epoch);
        let work = if grant.link.is_some() {
            let parameters = serde_json::from_slice(&grant.parameters).unwrap_or_default();
            let kind = grant.spec.demand.task_type.as_str();
            Work::Step(Step::new(kind, parameters, grant.attempt))
        } else {
            Work::Wish { intent, fate }
        };
        let is_step = matches!(work, Work::Step(_));
        let beat_every = u64::try_from(grant.heartbeat_every.as_millis()).unwrap_or(u64::MAX);
        let it = &mut self.workers[worker];
        let job = Job { work, beat_every, is_reporting: false, is_waiting: false };
        it.jobs.insert(lease, job);
        if !is_step && self.is_poison(intent) {
            let after = self.workers[worker].dice.below(300);
            return self.worker_timer(worker, after, WorkerTimer::Die(lease));
        }
        let confirms = self.workers[worker].confirms;
        let first = if confirms { 1 } else { self.by_its_clock(worker, beat_every) };
        self.worker_timer(worker, first, WorkerTimer::Beat(lease));
        let takes = if self.has_faults { fate.takes } else { fate.takes.min(500) };
        let takes = if is_step { takes.min(300) } else { takes };
        self.worker_timer(worker, takes, WorkerTimer::Done(lease));
    }

    fn worker_is_poisoned(&mut self, worker: usize, lease: LeaseId) {
        if !self.workers[worker].jobs.contains_key(&lease) {
            return;
        }
        self.fault(Fault::Poison, || format!("task {} kills worker {worker}", lease.task.number()));
        let own = &mut self.tenants[tenant_of(lease.task)];
        own.journal.killed(lease, &own.durable, &mut self.notes);
        let back_in = self.workers[worker].dice.between(300, 1_500);
        self.kill_worker(worker, back_in);
    }

    fn worker_hears_beats(
        &mut self,
        worker: usize,
        leases: &[LeaseId],
        verdicts: &[HeartbeatVerdict],
    ) {
        for (lease, verdict) in leases.iter().zip(verdicts) {
            match verdict {
                HeartbeatVerdict::Extended { .. } => {}
                HeartbeatVerdict::Cancelled(reason) => {
                    let tenant = self.workers[worker].tenant;
                    self.tenants[tenant].journal.told_lost(*lease, *reason);
                    self.worker_loses(worker, *lease);
                }
                HeartbeatVerdict::Rejected(_) => self.check_honest(worker, *lease, "heartbeat"),
            }
        }
    }

    /// Seed 002 section 3.2: stop all work, discard results, do not report.
    fn worker_loses(&mut self, worker: usize, lease: LeaseId) {
        let it = &mut self.workers[worker];
        if it.jobs.get(&lease).is_none_or(|job| job.is_reporting) {
            return;
        }
        if it.habits.ignores_cancelled {
            return self.fault(Fault::IgnoresCancelled, || {
                format!("worker {worker} goes on with task {}", lease.task.number())
            });
        }
        it.jobs.remove(&lease);
        self.worker_timer(worker, 1, WorkerTimer::Ask);
    }

    fn worker_is_judged(
        &mut self,
        worker: usize,
        reports: &[Report],
        judgements: &[Judgement],
        is_own: bool,
    ) {
        for (report, judgement) in reports.iter().zip(judgements) {
            let own = &mut self.tenants[self.workers[worker].tenant];
            own.journal.verdict(report, *judgement, &own.durable, &mut self.notes);
            let lease = report.lease;
            if is_own && matches!(judgement.verdict, Verdict::Rejected(_)) {
                self.check_honest(worker, lease, "report");
            }
            if self.workers[worker].jobs.remove(&lease).is_some() {
                self.worker_misbehaves(worker, report, judgement.verdict);
            }
        }
        self.worker_timer(worker, 1, WorkerTimer::Ask);
    }

    /// REJECTED means a bug on the worker's side; a worker that has none must not hear it.
    fn check_honest(&mut self, worker: usize, lease: LeaseId, what: &str) {
        let it = &self.workers[worker];
        let is_honest = it.habits.are_honest() && !self.has_clone(worker);
        self.notes.demand(!is_honest, "P3", || {
            let (number, epoch) = (lease.task.number(), lease.epoch);
            format!("worker {worker} keeps to the contract, but its {what} for task {number} epoch {epoch} was REJECTED")
        });
    }

    fn has_clone(&self, worker: usize) -> bool {
        let it = &self.workers[worker];
        let is_it = |other: &&Worker| other.id == it.id && other.tenant == it.tenant;
        self.workers.iter().filter(is_it).count() > 1
    }
}

/// What a worker says about an attempt. Its key is a digest of its words.
pub(crate) fn make_report(
    worker: &mut Worker,
    lease: LeaseId,
    (intent, fate): (u64, Fate),
    fails: bool,
) -> Report {
    let words = worker.dice.bits();
    let outcome = if fails {
        let failure = Failure::new("E.RUNNER.FAILURE", format!("{words:x}"));
        ReportedOutcome::Failed { failure, retryable: fate.retryable }
    } else {
        ReportedOutcome::Completed {
            result: Bytes::from(format!("{intent}-{words:x}")),
            extra: None,
        }
    };
    let key = ReportKey(u128::from(scatter(words)) << 64 | u128::from(scatter(intent)));
    Report { lease, worker: worker.id.clone(), key, outcome }
}
