//! The shell does what the production loop does: commands in, facts to the store, effects out
//! once the facts are durable. Turns are pipelined.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use coordinator::{
    Answer, Command, Coordinator, Effect, LeaseRequest, LoadTicket, Moment, Pause, Step, Ticket,
};
use model::{LeaseId, QueueName, Timestamp};
use shard::ClaimedShard;

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Ask, Call, LeaseAsk, Peer, Request, Told};
use crate::oracle::{Heard, Model, WaitingRequests};
use crate::planted::ShellBug;
use crate::rng::Dice;
use crate::shell_loads::{PendingLoad, keep_loads};
use crate::shell_watch::{check_tables, watch_step};
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
    pub(crate) loads: BTreeMap<LoadTicket, PendingLoad>,
    /// Whether the model still follows. A stale owner that reads what its successor wrote knows
    /// more than its own history says; its turns are fenced, so nobody hears of it.
    pub(crate) is_followed: bool,
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
            is_followed: true,
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
            let Some((command, sent_at)) = self.command_of(shell, inbound) else { continue };
            self.decide(shell, Some(command), sent_at, &mut step);
        }
        self.queue_turn(shell, step);
        self.set_alarm(shell);
        if !self.shells[shell].inbox.is_empty() {
            self.plan_turn(shell);
        }
    }

    fn command_of(&mut self, shell: usize, inbound: Inbound) -> Option<(Command, u64)> {
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
            Ask::Lease(ask) => Command::RequestLeases { ticket, request: lease_request(ask, now) },
            Ask::Heartbeat { worker, leases } => {
                let leases = (!leases.is_empty()).then_some(leases);
                Command::Heartbeat { ticket, worker, leases }
            }
            Ask::Report(reports) => Command::Report { ticket, reports },
            Ask::Stop(task) => Command::Stop { ticket, task },
            Ask::Requeue(task) => Command::Requeue { ticket, task },
            Ask::Watch(task, wait) => Command::Watch { ticket, task, until: now.after(wait) },
            Ask::Explain(task) => Command::Explain { ticket, task },
            Ask::ListWorkers => Command::ListWorkers { ticket },
            Ask::ListQueues => Command::ListQueues { ticket },
            Ask::Peek => {
                let (queues, types) = (Vec::new(), None);
                Command::Peek { ticket, queues, types, skip: 0, limit: u32::MAX }
            }
            Ask::Register { worker, offer, ladder } => {
                Command::Register { ticket, worker, offer, ladder }
            }
            Ask::Unregister(worker) => Command::Unregister { ticket, worker },
            Ask::Pause(queue, on) => {
                // When the faults are over nobody pauses any more, or nothing would ever end.
                let on = on && self.has_faults;
                // The door writes the note first, so that a restart in between keeps the pause.
                self.store.note_pause(&queue, on);
                pause_command(ticket, queue, on, now)
            }
            Ask::ReportText(_) => return None,
        };
        Some((command, call.sent_at))
    }

    /// Hands one command (or the clock) to the coordinator and lets the oracle look at the step.
    fn decide(&mut self, shell: usize, command: Option<Command>, sent_at: u64, all: &mut Step) {
        let now = self.shell_now(shell);
        let true_now = self.shells[shell].clock.now(self.clock);
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
        // The oracle trusts the clock that no one can set.
        let heard = Heard { now: true_now, sent_at: before(true_now, self.clock.now - sent_at) };
        if mind.is_followed {
            let judged = judged.as_ref().filter(|_| !has_failed);
            watch_step(mind, (judged, is_tick, &step), heard, &mut self.notes);
        }
        if is_thorough || self.steps.is_multiple_of(50) {
            check_tables(mind, &mut self.notes);
        }
        keep_loads(mind, judged.as_ref(), &step, sent_at);
        if has_failed {
            self.answer_failed_load(shell, judged.as_ref());
        }
        all.changes.extend(step.changes);
        all.effects.extend(step.effects);
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

fn lease_request(ask: LeaseAsk, now: Timestamp) -> LeaseRequest {
    LeaseRequest {
        worker: ask.worker,
        offer: ask.offer,
        max: ask.max,
        wait_until: now.after(ask.wait),
        slots: None,
        timeout_grace: Duration::ZERO,
        confirm_within: ask.confirm_within,
    }
}

pub(crate) fn pause_command(ticket: Ticket, queue: QueueName, on: bool, now: Timestamp) -> Command {
    let pause = on.then(|| Pause { by: "someone".into(), at: now });
    Command::SetPause { ticket, queue, pause }
}

fn before(now: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}
