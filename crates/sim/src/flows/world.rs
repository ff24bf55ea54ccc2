//! Workers, crashes and lost words around one run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Command, Grant, LOSSES_MAX as LOSSES_MAX_OF_TASK, LeaseRequest, Moment, NewRun,
    NextCall, NextEnd, RunAbout, Signal, TaskRecord, TaskState, Ticket, Verdict, WaitReason,
};
use flow::Program;
use model::{
    Failure, LeaseId, Offer, Report, ReportKey, ReportedOutcome, ResultExtra, RunId, TaskId,
    Timestamp, WorkerId,
};
use serde_json::{Value, json};
use shard::{ClaimedShard, Effect, Limits, Shard, Tap, Turn};
use store::Tables;

use super::checks::Checks;
use super::deeds::{Deed, after_calls, deed};
use super::generate::Generator;
use super::interpret::{Expected, interpret};
use crate::rng::Dice;

/// A run that is not at its end after so many steps is stuck; lists of lists with middlewares take
/// more than a hundred thousand.
const STEPS_MAX: u64 = 1_000_000;
/// Faults of each kind that one run suffers at most.
const CRASHES_MAX: u64 = 4;
const LOSSES_MAX: u64 = 2;
const WORKERS: usize = 3;
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What happened in one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowResult {
    /// Steps that were taken.
    pub steps: u64,
    /// Tasks that were made.
    pub tasks: u64,
    /// Crashes that were survived.
    pub crashes: u64,
    /// Whether a task was given up because its workers were lost: how the run ends then, no
    /// interpreter foresees.
    pub has_given_up: bool,
    /// Whether the run succeeded.
    pub succeeded: bool,
}

/// Plays one seed; an error says what promise was broken.
pub fn run(seed: u64) -> Result<FlowResult, String> {
    let definition = Generator::new(seed).workflow(0);
    let source = Bytes::from(serde_json::to_vec(&definition).expect("JSON"));
    let compiled = flow::compile(source).map_err(|problems| format!("refused: {problems:?}"))?;
    let program = Arc::new(compiled.program);
    let mut world = World::new(seed, Arc::clone(&program));
    world.start();
    while world.checks.end.is_none() {
        world.steps += 1;
        if world.steps > STEPS_MAX {
            return Err(format!("P5: the run is stuck: {}", world.story()));
        }
        world.act()?;
    }
    world.settle_down()?;
    let has_given_up = world.has_given_up()?;
    if !has_given_up {
        world.compare(&interpret(&program, &world.run_text(), &json!({})))?;
    }
    let succeeded = world.checks.end.as_ref().is_some_and(|end| end.outputs.is_some());
    Ok(FlowResult {
        steps: world.steps,
        tasks: world.tasks_made,
        crashes: world.crashes,
        has_given_up,
        succeeded,
    })
}

/// What an asker wants to hear.
#[derive(Clone, Copy)]
enum Asked {
    Leases(usize),
    Report(usize, LeaseId),
    Next(usize, LeaseId),
    Other,
}

/// A lease that a worker holds.
struct Held {
    grant: Grant,
    calls: u64,
    good: u64,
    /// A call was not answered well, and the middleware is a strict one.
    has_failed: bool,
    /// It waits for an answer: of a call, or of its report.
    is_waiting: bool,
}

struct World {
    dice: Dice,
    program: Arc<Program>,
    tables: Tables,
    shard: Shard<CheckedSteps>,
    begun_per_turn: usize,
    now: Timestamp,
    /// Turns that are not durable yet.
    pending: VecDeque<Turn>,
    workers: Vec<Vec<Held>>,
    asked: BTreeMap<Ticket, Asked>,
    last_ticket: u64,
    sent: Vec<Report>,
    run: Option<RunId>,
    checks: Checks,
    steps: u64,
    crashes: u64,
    losses: u64,
    tasks_made: u64,
}

/// Every step leaves the coordinator's tables in order.
#[derive(Debug)]
struct CheckedSteps;

impl Tap for CheckedSteps {
    fn after(&mut self, coordinator: &coordinator::Coordinator, _: &coordinator::Step) {
        coordinator.check_invariants();
    }
}

/// A shard that knows what the tables hold.
fn restored(tables: &mut Tables, at: Moment, begun_per_turn: usize) -> Shard<CheckedSteps> {
    let claim = tables.claim(&"t".parse().expect("a name that fits"));
    let limits = Limits { turns_in_flight: usize::MAX, ..Limits::default() };
    let mut shard = Shard::restore(claim, tables.restore(claim.shard), limits, (at, CheckedSteps));
    shard.coordinator_mut().set_begun_per_turn(begun_per_turn);
    shard
}

fn worker_id(number: usize) -> WorkerId {
    format!("w{number}").parse().expect("a name that fits")
}

impl World {
    fn new(seed: u64, program: Arc<Program>) -> Self {
        let mut tables = Tables::default();
        let at = Moment { now: START, wall: START, entropy: seed };
        // Half of the runs go on in small steps, so that a crash finds some of it not begun.
        let begun_per_turn =
            [usize::MAX, 1, usize::MAX, 2][usize::try_from(seed % 4).expect("below 4")];
        let shard = restored(&mut tables, at, begun_per_turn);
        Self {
            dice: Dice::for_purpose(seed, "flows"),
            program,
            shard,
            begun_per_turn,
            tables,
            now: START,
            pending: VecDeque::new(),
            workers: (0..WORKERS).map(|_| Vec::new()).collect(),
            asked: BTreeMap::new(),
            last_ticket: 0,
            sent: Vec::new(),
            run: None,
            checks: Checks::default(),
            steps: 0,
            crashes: 0,
            losses: 0,
            tasks_made: 0,
        }
    }

    fn start(&mut self) {
        let run = NewRun {
            program: Arc::clone(&self.program),
            inputs: Bytes::from_static(b"{}"),
            idempotency: None,
            about: Arc::new(RunAbout::default()),
            reused: Vec::new(),
        };
        self.ask(Asked::Other, |ticket| Command::StartRun { ticket, run: Box::new(run) });
        // A run whose start was lost was never promised to anyone; here it is not lost.
        while !self.pending.is_empty() {
            self.make_durable().expect("the first turn can be kept");
        }
    }

    fn run_text(&self) -> String {
        self.run.map_or_else(String::new, |run| run.to_string())
    }

    fn act(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..=29 => {
                for _ in 0..self.dice.between(1, 20) {
                    self.make_durable()?;
                }
            }
            30..=49 => self.take_work(),
            50..=79 => self.work(),
            80..=91 => self.pass_time(),
            92..=94 => self.say_the_word(),
            95 => self.repeat_a_report(),
            98 if self.pending.is_empty() => self.compare_replay()?,
            96 if self.losses < LOSSES_MAX => self.lose_a_worker(),
            97 if self.crashes < CRASHES_MAX => self.crash()?,
            _ => {}
        }
        Ok(())
    }

    // ----- the server

    fn at(&mut self) -> Moment {
        Moment { now: self.now, wall: self.now, entropy: self.dice.bits() }
    }

    fn ask(&mut self, asked: Asked, command: impl FnOnce(Ticket) -> Command) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.asked.insert(ticket, asked);
        self.tell(command(ticket));
    }

    fn tell(&mut self, command: Command) {
        let at = self.at();
        self.shard.on_message(at, command);
        self.close_turn();
    }

    fn tick(&mut self) {
        let at = self.at();
        self.shard.tick(at);
        self.close_turn();
    }

    fn close_turn(&mut self) {
        self.pending.extend(self.shard.poll_commit());
    }

    fn claim(&self) -> ClaimedShard {
        self.shard.claim()
    }

    fn make_durable(&mut self) -> Result<(), String> {
        let Some(turn) = self.pending.pop_front() else { return Ok(()) };
        self.keep(&turn)?;
        self.shard.on_committed(turn.number);
        while let Some(effect) = self.shard.poll_effect() {
            match effect {
                Effect::Answer { ticket, answer } => self.hear(ticket, answer)?,
                Effect::Load { load, keys } => {
                    let found = self.tables.load(self.claim().shard, &keys);
                    let at = self.at();
                    self.shard.on_loaded(at, load, Some(found));
                    self.close_turn();
                }
                Effect::Prepare { .. } => unreachable!("nobody makes a schedule here"),
                Effect::Publish(_) | Effect::ToLink { .. } => {}
            }
        }
        Ok(())
    }

    fn keep(&mut self, turn: &Turn) -> Result<(), String> {
        self.tables.commit(turn).map_err(|error| format!("P2: the store refuses: {error}"))?;
        let is_new =
            |change: &&coordinator::Change| matches!(change, coordinator::Change::TaskSubmitted(_));
        self.tasks_made += turn.changes.iter().filter(is_new).count() as u64;
        if let Some(coordinator::RunChange::RunStarted(record)) = turn.runs.first() {
            self.run = Some(record.id);
        }
        self.checks.take(&self.program, turn)
    }

    /// The server dies: some of what was under way is durable, nobody heard of any of it.
    fn crash(&mut self) -> Result<(), String> {
        self.crashes += 1;
        let durable = self.dice.index(self.pending.len() + 1);
        let is_whole = durable == self.pending.len();
        let before = self.shard.coordinator().run_states();
        for turn in std::mem::take(&mut self.pending).into_iter().take(durable) {
            self.keep(&turn)?;
        }
        self.asked.clear();
        for held in self.workers.iter_mut().flatten() {
            held.is_waiting = false;
        }
        let at = self.at();
        self.shard = restored(&mut self.tables, at, self.begun_per_turn);
        if is_whole && self.shard.coordinator().run_states() != before {
            return Err("P1: a restart brings back another state of the run".into());
        }
        self.tick();
        Ok(())
    }

    /// The facts that are kept give the state that the run has.
    fn compare_replay(&mut self) -> Result<(), String> {
        let (claim, held) = (self.claim(), self.tables.restore(self.claim().shard));
        let at = Moment { now: self.now, wall: self.now, entropy: 0 };
        let other = Shard::restore(claim, held, Limits::default(), (at, ()));
        if other.coordinator().run_states() == self.shard.coordinator().run_states() {
            return Ok(());
        }
        Err("P1: the facts of the run give another state".into())
    }

    fn pass_time(&mut self) {
        for worker in 0..WORKERS {
            // A grant whose answer was lost in a crash is known to nobody, and must end by its time.
            let leases = self.workers[worker].iter().map(|held| held.grant.lease).collect();
            let (worker, leases) = (worker_id(worker), Some(leases));
            self.ask(Asked::Other, |ticket| Command::Heartbeat { ticket, worker, leases });
        }
        let pause = self.dice.heavy_tail(100, 7);
        self.now = self.now.after(Duration::from_millis(pause));
        self.tick();
    }

    // ----- workers

    fn take_work(&mut self) {
        let worker = self.dice.index(WORKERS);
        let request = LeaseRequest {
            worker: worker_id(worker),
            offer: Arc::new(Offer::default()),
            max: u32::try_from(self.dice.between(1, 3)).unwrap_or(1),
            slots: None,
            wait_until: self.now,
            confirm_within: None,
            timeout_grace: Duration::ZERO,
        };
        self.ask(Asked::Leases(worker), |ticket| Command::RequestLeases { ticket, request });
    }

    fn work(&mut self) {
        let worker = self.dice.index(WORKERS);
        let idle = self.workers[worker].iter().position(|held| !held.is_waiting);
        let Some(place) = idle else { return };
        let held = &mut self.workers[worker][place];
        let parameters: Value = serde_json::from_slice(&held.grant.parameters).expect("JSON");
        let lease = held.grant.lease;
        let outcome = match deed(held.grant.spec.demand.task_type.as_str(), &parameters) {
            Deed::Calls { times, .. } if !held.has_failed && held.calls < times => {
                held.is_waiting = true;
                let (iteration, caller) = (held.calls, worker_id(worker));
                let call = NextCall {
                    lease,
                    worker: caller,
                    request: format!("c{iteration}").into(),
                    payload: Bytes::from(json!({ "iteration": iteration }).to_string()),
                    until: None,
                };
                let next = |ticket| Command::Next { ticket, call: Box::new(call) };
                return self.ask(Asked::Next(worker, lease), next);
            }
            Deed::Calls { .. } if !held.has_failed => completed(&after_calls(held.good)),
            Deed::Stumbles(_) if held.grant.attempt == 1 => failed(true),
            Deed::Gives(result) | Deed::Stumbles(result) => completed(&result),
            Deed::Fails | Deed::Calls { .. } => failed(false),
            Deed::Skips => {
                let extra = Some(Box::new(ResultExtra { is_skipped: true, artifacts: None }));
                ReportedOutcome::Completed { result: Bytes::from_static(b"{}"), extra }
            }
        };
        held.is_waiting = true;
        let key = ReportKey((u128::from(lease.task.number()) << 32) | u128::from(lease.epoch));
        let report = Report { lease, worker: worker_id(worker), key, outcome };
        self.sent.push(report.clone());
        let command = |ticket| Command::Report { ticket, reports: vec![report] };
        self.ask(Asked::Report(worker, lease), command);
    }

    fn repeat_a_report(&mut self) {
        let Some(report) = self.dice.pick(&self.sent).cloned() else { return };
        self.ask(Asked::Other, |ticket| Command::Report { ticket, reports: vec![report] });
    }

    fn lose_a_worker(&mut self) {
        self.losses += 1;
        let worker = self.dice.index(WORKERS);
        self.workers[worker].clear();
        self.tell(Command::LoseWorker { worker: worker_id(worker) });
    }

    /// A person answers a question that is open.
    fn say_the_word(&mut self) {
        let Some(run) = self.run else { return };
        let parts = self.tables.run_parts(self.claim().shard, run);
        let waits =
            |state: &TaskState| matches!(state, TaskState::Waiting { why: WaitReason::Signal, .. });
        let open: Vec<_> = parts.tasks.iter().filter(|task| waits(&task.progress.state)).collect();
        let Some(task) = self.dice.pick(&open) else { return };
        let link = task.link.as_ref().expect("a task of the run");
        let given: Value = serde_json::from_slice(&task.parameters).expect("JSON");
        let signal = Signal {
            run,
            node: link.step_id,
            frame: Some(link.frame),
            event: None,
            approved: Some(given["say"] == json!(true)),
            payload: Bytes::from_static(b"{}"),
            by: "sim".into(),
        };
        // Elements of a list wait for the same word, and give the same answer.
        self.ask(Asked::Other, |ticket| Command::Signal { ticket, signal: Box::new(signal) });
    }

    fn hear(&mut self, ticket: Ticket, answer: Answer) -> Result<(), String> {
        let Some(asked) = self.asked.remove(&ticket) else { return Ok(()) };
        match (asked, answer) {
            (Asked::Leases(worker), Answer::Leases(grants)) => {
                let held =
                    |grant| Held { grant, calls: 0, good: 0, has_failed: false, is_waiting: false };
                self.workers[worker].extend(grants.into_iter().map(held));
            }
            (Asked::Report(worker, lease), Answer::Judgements(judgements)) => {
                let verdict = judgements.first().map(|judgement| judgement.verdict);
                if matches!(verdict, Some(Verdict::Rejected(_)) | None) {
                    return Err(format!("P3: {lease} was judged {verdict:?}"));
                }
                self.workers[worker].retain(|held| held.grant.lease != lease);
            }
            (Asked::Next(worker, lease), Answer::Next(end)) => self.hear_next(worker, lease, &end),
            _ => {}
        }
        Ok(())
    }

    fn hear_next(&mut self, worker: usize, lease: LeaseId, end: &NextEnd) {
        if matches!(end, NextEnd::NotAllowed { .. }) {
            return self.workers[worker].retain(|held| held.grant.lease != lease);
        }
        let found = self.workers[worker].iter_mut().find(|held| held.grant.lease == lease);
        let Some(held) = found else { return };
        held.is_waiting = false;
        held.calls += 1;
        if matches!(end, NextEnd::Succeeded(_)) {
            held.good += 1;
        } else if let Deed::Calls { is_strict: true, .. } =
            deed(held.grant.spec.demand.task_type.as_str(), &Value::Null)
        {
            held.has_failed = true;
        }
    }

    // ----- the end

    /// Nothing is left behind: no live task, no live run.
    fn settle_down(&mut self) -> Result<(), String> {
        while !self.pending.is_empty() {
            self.make_durable()?;
        }
        let left = self.tables.restore(self.claim().shard);
        if left.tasks.is_empty() && left.runs.is_empty() {
            return Ok(());
        }
        let tasks: Vec<TaskId> = left.tasks.iter().map(|task| task.id).collect();
        Err(format!("P5: the run has ended, and tasks are left: {tasks:?}"))
    }

    /// Losses and crashes together may cost one task all the workers that it may lose.
    fn has_given_up(&self) -> Result<bool, String> {
        let Some(run) = self.run else { return Ok(false) };
        let is_lost = |task: &&TaskRecord| match &task.progress.state {
            TaskState::Settled(end) => {
                end.failure.as_ref().is_some_and(|failure| failure.code == "E.WORKER.LOST")
            }
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => false,
        };
        let parts = self.tables.run_parts(self.claim().shard, run);
        let lost: Vec<&TaskRecord> = parts.tasks.iter().filter(is_lost).collect();
        match lost.iter().find(|task| task.progress.attempt < LOSSES_MAX_OF_TASK) {
            Some(task) => Err(format!("P2: task {} was given up too soon", task.id)),
            None => Ok(!lost.is_empty()),
        }
    }

    fn compare(&self, expected: &Expected) -> Result<(), String> {
        let end = self.checks.end.as_ref().expect("the run has ended");
        let outputs: Option<Value> =
            end.outputs.as_ref().map(|json| serde_json::from_slice(json).expect("JSON"));
        let (found, wanted) = (outputs.map(without_errors), expected.outputs.clone());
        let wanted = wanted.map(without_errors);
        if end.word == expected.word && found == wanted {
            return Ok(());
        }
        Err(format!(
            "P2: the run ended {:?} ({:?}) with {found:?}; it should be {:?} with {wanted:?}",
            end.word, end.failure, expected.word
        ))
    }

    fn story(&self) -> String {
        let held: Vec<String> = self
            .workers
            .iter()
            .flatten()
            .map(|held| format!("{} waiting={}", held.grant.lease, held.is_waiting))
            .collect();
        let left = self.tables.restore(self.claim().shard);
        format!("{} pending turns, held {held:?}, live {:?}", self.pending.len(), left.tasks)
    }
}

/// The words of failures are not compared, only who failed.
fn without_errors(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("errors");
            let inner = std::mem::take(fields).into_iter();
            Value::Object(inner.map(|(key, value)| (key, without_errors(value))).collect())
        }
        Value::Array(items) => {
            Value::Array(std::mem::take(items).into_iter().map(without_errors).collect())
        }
        _ => value,
    }
}

fn completed(result: &Value) -> ReportedOutcome {
    ReportedOutcome::Completed { result: Bytes::from(result.to_string()), extra: None }
}

fn failed(retryable: bool) -> ReportedOutcome {
    ReportedOutcome::Failed { failure: Failure::new("E.SIM", "it failed"), retryable }
}
