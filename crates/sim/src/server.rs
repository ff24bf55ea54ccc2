//! A server process of the world: it drives the real shard as the production task does, with the
//! world's clock, network and store.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use coordinator::{
    Answer, Command, LeaseRequest, LoadKey, LoadTicket, Moment, Pause, Preparation, PrepareTicket,
    Refusal, TaskRecord, TaskState, Ticket,
};
use model::{LeaseId, QueueName, Timestamp};
use shard::{Effect, Shard};

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Ask, Call, LeaseAsk, Peer, Request, Told};
use crate::oracle::{Heard, Oracle};
use crate::planted::WorldBug;
use crate::rng::Dice;
use crate::store::{Commit, CommitEnd};
use crate::world::World;

/// So many of a thousand requests join the open turn when they come.
const EAGER: u64 = 300;

/// A process that decides for the shard, or believes so.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    pub(crate) clock: ProcessClock,
    pub(crate) live: Option<Live>,
    pub(crate) inbox: VecDeque<Inbound>,
    pub(crate) is_turn_planned: bool,
    pub(crate) dice: Dice,
}

/// What a server knows between two failures: its shard, and who waits for it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Tells this life from the ones before it.
    pub(crate) life: u64,
    pub(crate) shard: Shard<Oracle>,
    pub(crate) askers: BTreeMap<Ticket, Call>,
    pub(crate) last_ticket: u64,
    alarm: u64,
    alarm_at: Option<u64>,
    has_rung: bool,
}

impl Live {
    pub(crate) fn new(life: u64, shard: Shard<Oracle>) -> Self {
        let askers = BTreeMap::new();
        Self { life, shard, askers, last_ticket: 0, alarm: 0, alarm_at: None, has_rung: false }
    }
}

/// What waits in an inbox.
#[derive(Debug)]
pub(crate) enum Inbound {
    Ask(Request),
    /// An order that the server's own doors give.
    Own(Command),
    /// A read is done, or failed.
    Loaded(LoadTicket, Option<Vec<(LoadKey, TaskRecord)>>),
}

impl World {
    pub(crate) fn server_now(&self, server: usize) -> Timestamp {
        if self.has_bug(WorldBug::WallClockForExpiry) {
            return Timestamp::from_millis(self.clock.wall());
        }
        self.servers[server].clock.now(self.clock)
    }

    fn moment(&mut self, server: usize) -> Moment {
        let wall = Timestamp::from_millis(self.clock.wall());
        let entropy = self.servers[server].dice.bits();
        Moment { now: self.server_now(server), wall, entropy }
    }

    pub(crate) fn paused_until(&self, server: usize) -> Option<u64> {
        let until = self.servers[server].paused_until;
        (until > self.clock.now).then_some(until)
    }

    pub(crate) fn request_arrives(&mut self, request: Request) {
        let server = &mut self.servers[request.server];
        if !server.is_alive {
            return;
        }
        let is_text = matches!(request.ask, Ask::ReportText(_));
        if server.live.is_none() {
            return self.reply(request.call, Told::Unavailable);
        }
        if is_text {
            return self.read_text(&request);
        }
        let number = request.server;
        server.inbox.push_back(Inbound::Ask(request));
        // Some of what comes joins the open turn at once, which then spans some time.
        if server.dice.chance(EAGER) && self.paused_until(number).is_none() {
            self.take_inbox(number);
        }
        self.plan_turn(number);
    }

    fn take_inbox(&mut self, server: usize) {
        while self.servers[server].live.as_ref().is_some_and(|live| live.shard.wants_messages())
            && let Some(inbound) = self.servers[server].inbox.pop_front()
        {
            self.take_inbound(server, inbound);
        }
    }

    /// The door reads a lease id; what is none never reaches the coordinator.
    fn read_text(&mut self, request: &Request) {
        let Ask::ReportText(text) = &request.ask else { return };
        if text.parse::<LeaseId>().is_err() {
            self.notes.happened(Consequence::RejectedMalformed);
            self.reply(request.call, Told::Malformed);
        }
    }

    pub(crate) fn plan_turn(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.is_turn_planned || it.live.is_none() {
            return;
        }
        it.is_turn_planned = true;
        let at = self.clock.now + it.dice.below(2);
        self.agenda.plan(at, Event::ServerTurn { server });
    }

    /// Takes up what is there, as one turn.
    pub(crate) fn server_turn(&mut self, server: usize) {
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::ServerTurn { server });
        }
        self.servers[server].is_turn_planned = false;
        let Some(live) = &mut self.servers[server].live else { return };
        if std::mem::take(&mut live.has_rung) {
            let now = self.clock.now;
            self.with_shard(server, now, Shard::tick);
        }
        self.take_inbox(server);
        self.close_turn(server);
        self.set_alarm(server);
        if !self.servers[server].inbox.is_empty() {
            self.plan_turn(server);
        }
    }

    fn take_inbound(&mut self, server: usize, inbound: Inbound) {
        let now = self.clock.now;
        match inbound {
            Inbound::Loaded(load, found) => {
                self.with_shard(server, now, |shard, at| shard.on_loaded(at, load, found));
            }
            Inbound::Own(command) => {
                self.with_shard(server, now, |shard, at| shard.on_message(at, command));
            }
            Inbound::Ask(request) => {
                let Some((command, sent_at)) = self.command_of(server, request) else { return };
                self.with_shard(server, sent_at, |shard, at| shard.on_message(at, command));
            }
        }
    }

    /// Lets the shard act, with the oracle listening.
    fn with_shard(
        &mut self,
        server: usize,
        sent_at: u64,
        act: impl FnOnce(&mut Shard<Oracle>, Moment),
    ) {
        let at = self.moment(server);
        // The oracle trusts the clock that no one can set.
        let now = self.servers[server].clock.now(self.clock);
        let heard = Heard { now, sent_at: before(now, self.clock.now - sent_at) };
        let Some(live) = &mut self.servers[server].live else { return };
        live.shard.tap().listen(heard, &mut self.notes);
        act(&mut live.shard, at);
        self.steps += live.shard.tap().give_back(&mut self.notes);
    }

    fn close_turn(&mut self, server: usize) {
        while let Some(live) = &mut self.servers[server].live
            && let Some(turn) = live.shard.poll_commit()
        {
            self.store_queues(server, turn);
        }
        self.carry_out(server);
    }

    fn command_of(&mut self, server: usize, request: Request) -> Option<(Command, u64)> {
        let now = self.server_now(server);
        let live = self.servers[server].live.as_mut()?;
        let Request { call, ask, .. } = request;
        live.last_ticket += 1;
        let ticket = Ticket(live.last_ticket);
        live.askers.insert(ticket, call);
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
                Command::Register { ticket, worker, offer, ladder, anew: false }
            }
            Ask::Unregister(worker) => Command::Unregister { ticket, worker },
            Ask::Pause(queue, on) => {
                // When the faults are over nobody pauses any more, or nothing would ever end.
                let on = on && self.has_faults;
                pause_command(ticket, queue, on, now)
            }
            Ask::ReportText(_) => return None,
        };
        Some((command, call.sent_at))
    }

    /// A turn is durable, or it is lost and everything that builds on it.
    pub(crate) fn turn_ended(&mut self, commit: &Commit, end: CommitEnd) {
        let server = commit.server;
        let Some(live) = &mut self.servers[server].live else { return };
        if live.shard.claim() != commit.turn.claim {
            return;
        }
        if end != CommitEnd::Durable {
            return self.server_drops_its_shard(server, end);
        }
        live.shard.on_committed(commit.turn.number);
        self.carry_out(server);
        self.plan_turn(server);
    }

    /// Carries out what may leave.
    fn carry_out(&mut self, server: usize) {
        while let Some(live) = &mut self.servers[server].live
            && let Some(effect) = live.shard.poll_effect()
        {
            match effect {
                Effect::Answer { ticket, answer } => self.send_answer(server, ticket, answer),
                Effect::Load { load, keys } => self.begin_load(server, load, keys),
                Effect::Prepare { prepare, .. } => self.prepare(server, prepare),
                Effect::Publish(_) | Effect::ToLink { .. } => {}
            }
        }
    }

    /// No workflow is saved in this world, so a schedule has nothing to start.
    fn prepare(&mut self, server: usize, prepare: PrepareTicket) {
        let preparation = Preparation::Impossible("no workflow with this id".to_owned());
        let now = self.clock.now;
        self.with_shard(server, now, |shard, at| shard.on_prepared(at, prepare, preparation));
        self.plan_turn(server);
    }

    fn send_answer(&mut self, server: usize, ticket: Ticket, answer: Answer) {
        let Some(live) = &mut self.servers[server].live else { return };
        let call = live.askers.remove(&ticket);
        if let Some(call) = call
            && !self.is_known_gone(server, call)
        {
            let told = match answer {
                Answer::Refused(Refusal::StoreUnavailable) => Told::Unavailable,
                answer => Told::Answer(answer),
            };
            return self.reply(call, told);
        }
        let now = self.clock.now;
        self.with_shard(server, now, |shard, at| shard.on_undelivered(at, &answer));
        self.check_taken_back(server, &answer);
        self.plan_turn(server);
    }

    /// P5: a grant that found nobody is taken back at once, not with the lease's time.
    fn check_taken_back(&mut self, server: usize, answer: &Answer) {
        let (Answer::Leases(grants), Some(live)) = (answer, &mut self.servers[server].live) else {
            return;
        };
        let oracle = live.shard.tap();
        let is_held =
            |lease: LeaseId| oracle.model.lease(lease).is_some_and(|one| one.end.is_none());
        let held = grants.iter().map(|grant| grant.lease).find(|lease| is_held(*lease));
        let is_kept = held.is_none() || !oracle.is_followed;
        self.notes.demand(is_kept, "P5", || {
            format!("{held:?} was granted to an asker that has gone, and is not taken back")
        });
        if !grants.is_empty() {
            self.notes.happened(Consequence::GrantFoundNobody);
        }
    }

    /// A worker process that died is noticed by its closed socket, but not always.
    fn is_known_gone(&mut self, server: usize, call: Call) -> bool {
        let Peer::Worker(worker) = call.peer else { return false };
        let is_other = self.workers[worker].process != call.process;
        is_other && self.servers[server].dice.chance(700)
    }

    // ----- reads

    /// The turn that asked is durable: the read may begin.
    fn begin_load(&mut self, server: usize, load: LoadTicket, keys: Vec<LoadKey>) {
        let it = &mut self.servers[server];
        let Some(live) = &it.live else { return };
        let event = Event::LoadDone { server, life: live.life, load, keys };
        self.agenda.plan(self.clock.now + it.dice.between(0, 30), event);
    }

    pub(crate) fn load_done(
        &mut self,
        server: usize,
        life: u64,
        (load, keys): (LoadTicket, &[LoadKey]),
    ) {
        let it = &mut self.servers[server];
        let own = it.live.as_mut().filter(|own| own.life == life);
        let Some(own) = own else { return };
        // A stale owner that reads what its successor wrote knows more than its own history says.
        let is_current = self.store.is_current(own.shard.claim());
        own.shard.tap().is_followed &= is_current;
        let found = if self.has_faults && it.dice.chance(10) {
            None
        } else {
            let found = self.store.load(keys);
            if found.iter().any(|(_, record)| is_settled(record)) {
                self.notes.happened(Consequence::SettledTaskLoaded);
            }
            Some(found)
        };
        it.inbox.push_front(Inbound::Loaded(load, found));
        self.plan_turn(server);
    }

    // ----- the alarm

    pub(crate) fn set_alarm(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let Some(live) = &mut it.live else { return };
        let Some(deadline) = live.shard.next_deadline() else { return };
        let due = it.clock.true_time_of(deadline, self.clock);
        // An alarm that is already set for this moment or an earlier one is enough.
        if live.alarm_at.is_some_and(|at| at <= due && at > self.clock.now) {
            return;
        }
        live.alarm += 1;
        live.alarm_at = Some(due);
        let alarm = live.alarm;
        let is_late = self.has_faults && self.faults.has(Fault::LateTimer) && it.dice.chance(60);
        let late = if is_late { it.dice.between(20, 1_500) } else { 0 };
        if is_late {
            self.fault(Fault::LateTimer, || format!("server {server} wakes {late} ms late"));
        }
        let at = due.max(self.clock.now + 1) + late;
        self.agenda.plan(at, Event::ServerTick { server, alarm });
    }

    pub(crate) fn server_tick(&mut self, server: usize, alarm: u64) {
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::ServerTick { server, alarm });
        }
        let Some(live) = &mut self.servers[server].live else { return };
        if live.alarm == alarm {
            live.alarm_at = None;
            live.has_rung = true;
            self.plan_turn(server);
        }
    }
}

fn is_settled(record: &TaskRecord) -> bool {
    matches!(record.progress.state, TaskState::Settled(_))
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
