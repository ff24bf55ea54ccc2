//! The shell does what the production loop does: commands in, facts to the store, effects out
//! once the facts are durable. Turns are pipelined.

use std::collections::{BTreeMap, VecDeque};

use coordinator::{
    Answer, Command, Coordinator, Effect, LeaseRequest, LoadKey, LoadTicket, Moment, Step, Ticket,
};
use model::{LeaseId, Timestamp};
use store::ClaimedShard;

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::known;
use crate::message::{Ask, Call, LeaseAsk, Peer, Request, Told};
use crate::oracle::{Heard, Model, WaitingRequests};
use crate::planted::ShellBug;
use crate::rng::Dice;
use crate::store::{Commit, CommitEnd};
use crate::world::World;

/// Commands that one turn takes up at most.
const COMMANDS_PER_TURN_MAX: usize = 16;
/// Turns whose facts are not durable yet; beyond this, commands wait in the inbox.
const TURNS_IN_FLIGHT_MAX: usize = 8;

/// A process that decides for the shard, or believes so.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    pub(crate) clock: ProcessClock,
    pub(crate) mind: Option<Mind>,
    pub(crate) inbox: VecDeque<Inbound>,
    pub(crate) is_turn_planned: bool,
    pub(crate) dice: Dice,
}

/// What a shell knows between two failures.
#[derive(Debug)]
pub(crate) struct Mind {
    /// Tells this mind from the ones before it.
    pub(crate) life: u64,
    pub(crate) claim: ClaimedShard,
    pub(crate) coordinator: Coordinator,
    pub(crate) model: Model,
    pub(crate) requests: WaitingRequests,
    pub(crate) askers: BTreeMap<Ticket, Call>,
    pub(crate) last_ticket: u64,
    pub(crate) last_turn: u64,
    turns: VecDeque<PendingTurn>,
    loads: BTreeMap<LoadTicket, PendingLoad>,
    alarm: u64,
    alarm_at: Option<u64>,
    has_rung: bool,
}

impl Mind {
    pub(crate) fn new(
        life: u64,
        claim: ClaimedShard,
        coordinator: Coordinator,
        model: Model,
    ) -> Self {
        Self {
            life,
            claim,
            coordinator,
            model,
            requests: WaitingRequests::default(),
            askers: BTreeMap::new(),
            last_ticket: 0,
            last_turn: 0,
            turns: VecDeque::new(),
            loads: BTreeMap::new(),
            alarm: 0,
            alarm_at: None,
            has_rung: false,
        }
    }
}

#[derive(Debug)]
struct PendingTurn {
    number: u64,
    is_durable: bool,
    effects: Vec<Effect>,
}

#[derive(Debug)]
struct PendingLoad {
    command: Command,
    sent_at: u64,
    keys: Vec<LoadKey>,
}

/// What waits in an inbox.
#[derive(Debug)]
pub(crate) enum Inbound {
    Ask(Request),
    /// An order that the shell gives itself.
    Own(Command),
}

impl World {
    pub(crate) fn shell_now(&self, shell: usize) -> Timestamp {
        if self.has_bug(ShellBug::WallClockForExpiry) {
            return Timestamp::from_millis(self.clock.wall());
        }
        self.shells[shell].clock.now(self.clock)
    }

    pub(crate) fn paused_until(&self, shell: usize) -> Option<u64> {
        let until = self.shells[shell].paused_until;
        (until > self.clock.now).then_some(until)
    }

    pub(crate) fn request_arrives(&mut self, request: Request) {
        let shell = &mut self.shells[request.shell];
        if !shell.is_alive {
            return;
        }
        let is_text = matches!(request.ask, Ask::ReportText(_));
        if shell.mind.is_none() {
            return self.reply(request.call, Told::Unavailable);
        }
        if is_text {
            return self.read_text(&request);
        }
        let number = request.shell;
        shell.inbox.push_back(Inbound::Ask(request));
        self.plan_turn(number);
    }

    /// The door reads a lease id; what is none never reaches the coordinator.
    fn read_text(&mut self, request: &Request) {
        let Ask::ReportText(text) = &request.ask else { return };
        if text.parse::<LeaseId>().is_err() {
            self.notes.happened(Consequence::RejectedMalformed);
            self.reply(request.call, Told::Malformed);
        }
    }

    pub(crate) fn plan_turn(&mut self, shell: usize) {
        let it = &mut self.shells[shell];
        if it.is_turn_planned || it.mind.is_none() {
            return;
        }
        it.is_turn_planned = true;
        let at = self.clock.now + it.dice.below(2);
        self.agenda.plan(at, Event::ShellTurn { shell });
    }

    /// Takes up what is there, as one turn.
    pub(crate) fn shell_turn(&mut self, shell: usize) {
        if let Some(until) = self.paused_until(shell) {
            return self.agenda.plan(until, Event::ShellTurn { shell });
        }
        self.shells[shell].is_turn_planned = false;
        let Some(mind) = &mut self.shells[shell].mind else { return };
        if mind.turns.len() >= TURNS_IN_FLIGHT_MAX {
            return;
        }
        let mut step = Step::default();
        if std::mem::take(&mut mind.has_rung) {
            self.decide(shell, None, self.clock.now, &mut step);
        }
        for _ in 0..COMMANDS_PER_TURN_MAX {
            let Some(inbound) = self.shells[shell].inbox.pop_front() else { break };
            let Some((command, sent_at)) = self.to_command(shell, inbound) else { continue };
            self.decide(shell, Some(command), sent_at, &mut step);
        }
        self.queue_turn(shell, step);
        self.set_alarm(shell);
        if !self.shells[shell].inbox.is_empty() {
            self.plan_turn(shell);
        }
    }

    fn to_command(&mut self, shell: usize, inbound: Inbound) -> Option<(Command, u64)> {
        let now = self.shell_now(shell);
        let mind = self.shells[shell].mind.as_mut()?;
        let Request { call, ask, .. } = match inbound {
            Inbound::Own(command) => return Some((command, self.clock.now)),
            Inbound::Ask(request) => request,
        };
        mind.last_ticket += 1;
        let ticket = Ticket(mind.last_ticket);
        mind.askers.insert(ticket, call);
        let command = match ask {
            Ask::Submit(tasks) => Command::Submit { ticket, tasks },
            Ask::Lease(ask) => {
                Command::RequestLeases { ticket, request: lease_request(ask, now) }
            }
            Ask::Heartbeat { worker, leases } => Command::Heartbeat { ticket, worker, leases },
            Ask::Report(reports) => Command::Report { ticket, reports },
            Ask::Stop(task) => Command::Stop { ticket, task },
            Ask::Requeue(task) => Command::Requeue { ticket, task },
            Ask::Watch(task, wait) => Command::Watch { ticket, task, until: now.after(wait) },
            Ask::Explain(task) => Command::Explain { ticket, task },
            Ask::ListWorkers => Command::ListWorkers { ticket },
            Ask::ListQueues => Command::ListQueues { ticket },
            Ask::ReportText(_) => return None,
        };
        Some((command, call.sent_at))
    }

    /// Hands one command (or the clock) to the coordinator and lets the oracle look at the step.
    fn decide(&mut self, shell: usize, command: Option<Command>, sent_at: u64, all: &mut Step) {
        let now = self.shell_now(shell);
        let entropy = self.shells[shell].dice.bits();
        let is_thorough = self.is_thorough;
        let Some(mind) = &mut self.shells[shell].mind else { return };
        let at = Moment { now, entropy };
        self.steps += 1;
        let (judged, sent_at) = match &command {
            Some(Command::Loaded { load, .. } | Command::LoadFailed { load }) => {
                let pending = mind.loads.remove(load);
                pending.map_or((None, sent_at), |one| (Some(one.command), one.sent_at))
            }
            Some(command) => (Some(command.clone()), sent_at),
            None => (None, sent_at),
        };
        let has_failed = matches!(command, Some(Command::LoadFailed { .. }));
        let is_tick = command.is_none();
        let step = match command {
            Some(command) => mind.coordinator.handle(at, command),
            None => mind.coordinator.tick(at),
        };
        let heard = Heard { now, sent_at: before(now, self.clock.now - sent_at) };
        if is_tick {
            mind.model.end_waits(now);
        }
        watch_step(mind, (judged.as_ref().filter(|_| !has_failed), &step), heard, &mut self.notes);
        if is_tick {
            mind.model.check_nothing_due(now, &mut self.notes);
        }
        if is_thorough || self.steps.is_multiple_of(50) {
            check_tables(&mind.coordinator, &mut self.notes);
            let wakes_at = mind.coordinator.next_deadline();
            mind.model.check_waiting(&mind.requests, wakes_at, &mut self.notes);
        }
        keep_loads(mind, judged.as_ref(), &step, sent_at);
        if has_failed {
            self.answer_failed_load(shell, judged.as_ref());
        }
        all.changes.extend(step.changes);
        all.effects.extend(step.effects);
    }

    /// What waited for a failed read was dropped by the coordinator; its asker may ask again.
    fn answer_failed_load(&mut self, shell: usize, command: Option<&Command>) {
        let ticket = match command {
            Some(
                Command::Submit { ticket, .. }
                | Command::Report { ticket, .. }
                | Command::Heartbeat { ticket, .. }
                | Command::Requeue { ticket, .. },
            ) => *ticket,
            _ => return,
        };
        let call = self.shells[shell].mind.as_mut().and_then(|mind| mind.askers.remove(&ticket));
        if let Some(call) = call {
            self.reply(call, Told::Unavailable);
        }
    }

    fn queue_turn(&mut self, shell: usize, step: Step) {
        if step.changes.is_empty() && step.effects.is_empty() {
            return;
        }
        let is_unfenced = step.changes.is_empty() && self.has_bug(ShellBug::AnswersNotFenced);
        let early = self.has_bug(ShellBug::AckBeforeFsync);
        let early_leases = self.has_bug(ShellBug::PopBeforeDurable);
        let leaves_early = |effect: &Effect| match effect {
            Effect::Answer { answer: Answer::Leases(_), .. } => early || early_leases,
            Effect::Answer { .. } => early,
            Effect::Load { .. } => false,
        };
        let (now, later): (Vec<_>, Vec<_>) = step.effects.into_iter().partition(leaves_early);
        let Some(mind) = &mut self.shells[shell].mind else { return };
        mind.last_turn += 1;
        let (number, claim) = (mind.last_turn, mind.claim);
        mind.turns.push_back(PendingTurn { number, is_durable: is_unfenced, effects: later });
        self.release(shell, now);
        if is_unfenced {
            self.release_durable(shell);
        } else {
            self.store_queues(shell, number, claim, step.changes);
        }
    }

    /// A turn is durable, or it is lost and everything that builds on it.
    pub(crate) fn turn_ended(&mut self, commit: &Commit, end: CommitEnd) {
        let shell = commit.shell;
        let Some(mind) = &mut self.shells[shell].mind else { return };
        if mind.claim != commit.claim {
            return;
        }
        if end != CommitEnd::Durable {
            return self.shell_loses_its_mind(shell, end);
        }
        let turn = mind.turns.iter_mut().find(|turn| turn.number == commit.turn);
        if let Some(turn) = turn {
            turn.is_durable = true;
        }
        self.release_durable(shell);
        self.plan_turn(shell);
    }

    /// Lets the effects of every turn leave that is durable with all turns before it.
    fn release_durable(&mut self, shell: usize) {
        while let Some(mind) = &mut self.shells[shell].mind {
            if !mind.turns.front().is_some_and(|turn| turn.is_durable) {
                return;
            }
            let Some(turn) = mind.turns.pop_front() else { return };
            self.release(shell, turn.effects);
        }
    }

    fn release(&mut self, shell: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer { ticket, answer } => self.send_answer(shell, ticket, answer),
                Effect::Load { load, keys } => self.begin_load(shell, load, keys),
            }
        }
    }

    fn send_answer(&mut self, shell: usize, ticket: Ticket, answer: Answer) {
        let Some(mind) = &mut self.shells[shell].mind else { return };
        let call = mind.askers.remove(&ticket);
        if let Some(call) = call
            && !self.is_known_gone(shell, call)
        {
            return self.reply(call, Told::Answer(answer));
        }
        // A grant that nobody hears of would block its task until the lease ends.
        if let Answer::Leases(grants) = answer {
            let leases: Vec<_> = grants.iter().map(|grant| grant.lease).collect();
            if !leases.is_empty() {
                let own = Inbound::Own(Command::ReturnLeases { leases });
                self.shells[shell].inbox.push_back(own);
                self.plan_turn(shell);
            }
        }
    }

    /// A worker process that died is noticed by its closed socket, but not always.
    fn is_known_gone(&mut self, shell: usize, call: Call) -> bool {
        let Peer::Worker(worker) = call.peer else { return false };
        let is_gone = self.workers[worker].process != call.process;
        is_gone && self.shells[shell].dice.chance(700)
    }

    // ----- reads

    fn begin_load(&mut self, shell: usize, load: LoadTicket, keys: Vec<LoadKey>) {
        let it = &mut self.shells[shell];
        let Some(mind) = &mut it.mind else { return };
        if let Some(pending) = mind.loads.get_mut(&load) {
            pending.keys = keys;
            if !known::REMEMBERS_WHAT_A_LOAD_RELIES_ON {
                pending.keys = keys_of(&pending.command);
            }
        }
        let event = Event::LoadDone { shell, life: mind.life, load };
        self.agenda.plan(self.clock.now + it.dice.between(0, 30), event);
    }

    pub(crate) fn load_done(&mut self, shell: usize, life: u64, load: LoadTicket) {
        let it = &mut self.shells[shell];
        let Some(mind) = it.mind.as_ref().filter(|mind| mind.life == life) else { return };
        let Some(pending) = mind.loads.get(&load) else { return };
        let command = if self.has_faults && it.dice.chance(10) {
            Command::LoadFailed { load }
        } else {
            let found = self.store.load(&pending.keys);
            if found.iter().any(|(_, record)| is_settled(record)) {
                self.notes.happened(Consequence::SettledTaskLoaded);
            }
            Command::Loaded { load, found }
        };
        it.inbox.push_front(Inbound::Own(command));
        self.plan_turn(shell);
    }

    // ----- the alarm

    fn set_alarm(&mut self, shell: usize) {
        let it = &mut self.shells[shell];
        let Some(mind) = &mut it.mind else { return };
        let Some(deadline) = mind.coordinator.next_deadline() else { return };
        let due = it.clock.true_time_of(deadline, self.clock);
        // An alarm that is already set for this moment or an earlier one is enough.
        if mind.alarm_at.is_some_and(|at| at <= due && at > self.clock.now) {
            return;
        }
        mind.alarm += 1;
        mind.alarm_at = Some(due);
        let alarm = mind.alarm;
        let is_late = self.has_faults && self.faults.has(Fault::LateTimer) && it.dice.chance(60);
        let late = if is_late { it.dice.between(20, 1_500) } else { 0 };
        if is_late {
            self.fault(Fault::LateTimer, || format!("shell {shell} wakes {late} ms late"));
        }
        let at = due.max(self.clock.now + 1) + late;
        self.agenda.plan(at, Event::ShellTick { shell, alarm });
    }

    pub(crate) fn shell_tick(&mut self, shell: usize, alarm: u64) {
        if let Some(until) = self.paused_until(shell) {
            return self.agenda.plan(until, Event::ShellTick { shell, alarm });
        }
        let Some(mind) = &mut self.shells[shell].mind else { return };
        if mind.alarm == alarm {
            mind.alarm_at = None;
            mind.has_rung = true;
            self.plan_turn(shell);
        }
    }

    pub(crate) fn set_first_alarm(&mut self, shell: usize) {
        self.set_alarm(shell);
    }
}

fn is_settled(record: &coordinator::TaskRecord) -> bool {
    matches!(record.progress.state, coordinator::TaskState::Settled(_))
}

fn lease_request(ask: LeaseAsk, now: Timestamp) -> LeaseRequest {
    LeaseRequest {
        worker: ask.worker,
        offer: ask.offer,
        max: ask.max,
        wait_until: now.after(ask.wait),
        confirm_within: ask.confirm_within,
    }
}

fn before(now: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}

/// The coordinator's indexes say what its tasks say.
fn check_tables(coordinator: &Coordinator, notes: &mut crate::oracle::Notes) {
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        coordinator.check_invariants();
    }));
    let words = crate::run::last_panic();
    if checked.is_err() && !crate::known::is_known(&words) {
        notes.broken("an invariant", || words);
    }
}

/// The oracle looks at one step.
fn watch_step(
    mind: &mut Mind,
    (command, step): (Option<&Command>, &Step),
    heard: Heard,
    notes: &mut crate::oracle::Notes,
) {
    let is_loading = step.effects.iter().any(|effect| matches!(effect, Effect::Load { .. }));
    if let Some(command) = command.filter(|_| !is_loading) {
        mind.model.judge(command, &step.effects, heard, notes);
    }
    for change in &step.changes {
        mind.model.observe(change, Some(heard.now), notes);
    }
    if let Some(command) = command.filter(|_| !is_loading) {
        mind.model.check_commits(command, notes);
    }
    mind.requests.observe(command, &step.effects);
}

/// Everything that a command names.
fn keys_of(command: &Command) -> Vec<LoadKey> {
    let mut keys = match command {
        Command::Submit { tasks, .. } => {
            let marks = tasks.iter().filter_map(|task| task.idempotency.as_ref());
            marks.map(|mark| LoadKey::Idempotency(mark.key.clone())).collect()
        }
        Command::Report { reports, .. } => {
            reports.iter().map(|report| LoadKey::Task(report.lease.task)).collect()
        }
        Command::Heartbeat { leases, .. } => {
            leases.iter().map(|lease| LoadKey::Task(lease.task)).collect()
        }
        Command::Requeue { task, .. } => vec![LoadKey::Task(*task)],
        _ => Vec::new(), // No other command waits for a read.
    };
    keys.sort();
    keys.dedup();
    keys
}

fn keep_loads(mind: &mut Mind, command: Option<&Command>, step: &Step, sent_at: u64) {
    for effect in &step.effects {
        if let (Effect::Load { load, keys }, Some(command)) = (effect, command) {
            let (command, keys) = (command.clone(), keys.clone());
            mind.loads.insert(*load, PendingLoad { command, sent_at, keys });
        }
    }
}
