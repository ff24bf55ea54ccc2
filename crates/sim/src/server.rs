//! A server process of the world: it drives the real shard of each tenant as the production task
//! does, with the world's clock, network and store.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use coordinator::{
    Answer, Command, Drain, Effect as Decided, LeaseRequest, LoadKey, LoadTicket, Moment, Pause,
    Question, Refusal, TaskRecord, TaskState, Ticket,
};
use model::{LeaseId, QueueName, RunId, Timestamp, WorkerId};
use shard::sessions::{LinkId, LinkMessage};
use shard::worker_link::RequestId;
use shard::{Effect, Limits, Shard, Turn};
use store::{CommitError, RunKey};

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Ask, Call, DrainWish, LeaseAsk, Peer, Request, Told};
use crate::oracle::{Heard, Oracle};
use crate::rng::Dice;
use crate::session::Link;
use crate::world::{TENANTS, World, shard_of};

/// So many of a thousand requests join the open turn when they come.
const EAGER: u64 = 300;
/// After so many of a thousand turns the runs are compared with a replay of their facts.
const REPLAYED: u64 = 50;

/// One tenant's shard on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardAt {
    pub(crate) server: usize,
    pub(crate) tenant: usize,
}

impl fmt::Display for ShardAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {} on server {}", self.tenant, self.server)
    }
}

/// A process that decides for tenants, or believes so.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    pub(crate) clock: ProcessClock,
    pub(crate) served: [Served; TENANTS],
    /// Connections of session workers.
    pub(crate) links: BTreeMap<LinkId, Link>,
    pub(crate) dice: Dice,
}

/// Who waits for an answer of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Call(Call),
    Link(LinkId, RequestId),
}

/// What a server has of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) live: Option<Live>,
    pub(crate) inbox: VecDeque<Inbound>,
    pub(crate) is_turn_planned: bool,
}

/// What a server knows between two failures: its shard, and who waits for it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Tells this life from the ones before it.
    pub(crate) life: u64,
    pub(crate) shard: Shard<Oracle>,
    pub(crate) askers: BTreeMap<Ticket, Asker>,
    pub(crate) last_ticket: u64,
    /// The last turn that is durable.
    pub(crate) durable: u64,
    alarm: u64,
    alarm_at: Option<u64>,
    has_rung: bool,
}

impl Live {
    pub(crate) fn new(life: u64, shard: Shard<Oracle>) -> Self {
        let askers = BTreeMap::new();
        Self {
            life,
            shard,
            askers,
            last_ticket: 0,
            durable: 0,
            alarm: 0,
            alarm_at: None,
            has_rung: false,
        }
    }

    /// A new ticket for this asker.
    pub(crate) fn ticket_for(&mut self, asker: Asker) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.askers.insert(ticket, asker);
        ticket
    }
}

/// What waits in an inbox.
#[derive(Debug)]
pub(crate) enum Inbound {
    Ask(Request),
    /// An order that the server's own doors give.
    Own(Command),
    /// A question of a connection.
    Link {
        asker: (LinkId, RequestId),
        question: Question,
        sent_at: u64,
    },
    /// A connection speaks of its worker.
    LinkMessage(LinkId, LinkMessage),
    /// A read is done, or failed.
    Loaded(LoadTicket, Option<Vec<(LoadKey, TaskRecord)>>),
}

impl World {
    pub(crate) fn server_now(&self, server: usize) -> Timestamp {
        self.servers[server].clock.now(self.clock)
    }

    pub(crate) fn served(&mut self, at: ShardAt) -> &mut Served {
        &mut self.servers[at.server].served[at.tenant]
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
        let at = request.at;
        if !self.servers[at.server].is_alive {
            return;
        }
        if self.served(at).live.is_none() {
            return self.reply(request.call, Told::Unavailable);
        }
        if matches!(request.ask, Ask::ReportText(_)) {
            return self.read_text(&request);
        }
        if let Some(run) = self.earlier_run(&request) {
            return self
                .reply(request.call, Told::Answer(Answer::RunStarted { run, existed: true }));
        }
        self.server_hears(at, Inbound::Ask(request));
    }

    /// The door looks whether a start was made before, as it does in production: the coordinator
    /// remembers the keys of runs that ended only while it lives.
    fn earlier_run(&self, request: &Request) -> Option<RunId> {
        let Ask::StartRun(run) = &request.ask else { return None };
        let key = RunKey::Idempotency(run.idempotency.as_ref()?.key.clone());
        let found = self.store.tables().run(shard_of(request.at.tenant), &key)?;
        Some(found.id)
    }

    /// Puts something into a tenant's inbox.
    pub(crate) fn server_hears(&mut self, at: ShardAt, inbound: Inbound) {
        self.served(at).inbox.push_back(inbound);
        // Some of what comes joins the open turn at once, which then spans some time.
        if self.servers[at.server].dice.chance(EAGER) && self.paused_until(at.server).is_none() {
            self.take_inbox(at);
        }
        self.plan_turn(at);
    }

    fn take_inbox(&mut self, at: ShardAt) {
        while self.served(at).live.as_ref().is_some_and(|live| live.shard.wants_messages())
            && let Some(inbound) = self.served(at).inbox.pop_front()
        {
            self.take_inbound(at, inbound);
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

    pub(crate) fn plan_turn(&mut self, at: ShardAt) {
        let served = self.served(at);
        if served.is_turn_planned || served.live.is_none() {
            return;
        }
        served.is_turn_planned = true;
        let moment = self.clock.now + self.servers[at.server].dice.below(2);
        self.agenda.plan(moment, Event::ServerTurn { at });
    }

    /// Takes up what is there, as one turn.
    pub(crate) fn server_turn(&mut self, at: ShardAt) {
        if let Some(until) = self.paused_until(at.server) {
            return self.agenda.plan(until, Event::ServerTurn { at });
        }
        self.served(at).is_turn_planned = false;
        let Some(live) = &mut self.served(at).live else { return };
        if std::mem::take(&mut live.has_rung) {
            let now = self.clock.now;
            self.with_shard(at, now, Shard::tick);
        }
        self.take_inbox(at);
        self.close_turn(at);
        self.set_alarm(at);
        if !self.served(at).inbox.is_empty() {
            self.plan_turn(at);
        }
    }

    fn take_inbound(&mut self, at: ShardAt, inbound: Inbound) {
        let now = self.clock.now;
        match inbound {
            Inbound::Loaded(load, found) => {
                self.with_shard(at, now, |shard, at| shard.on_loaded(at, load, found));
            }
            Inbound::Own(command) => {
                self.with_shard(at, now, |shard, at| shard.on_message(at, command));
            }
            Inbound::Link { asker: (link, request), question, sent_at } => {
                let Some(live) = &mut self.served(at).live else { return };
                let ticket = live.ticket_for(Asker::Link(link, request));
                let command = Command::Ask(ticket, question);
                self.with_shard(at, sent_at, |shard, at| shard.on_message(at, command));
            }
            Inbound::LinkMessage(link, message) => {
                self.with_shard(at, now, |shard, at| shard.on_link(at, link, message));
            }
            Inbound::Ask(request) => {
                let Some((command, sent_at)) = self.command_of(request) else { return };
                self.with_shard(at, sent_at, |shard, at| shard.on_message(at, command));
            }
        }
    }

    /// Lets the shard act, with the oracle listening.
    pub(crate) fn with_shard(
        &mut self,
        at: ShardAt,
        sent_at: u64,
        act: impl FnOnce(&mut Shard<Oracle>, Moment),
    ) {
        let moment = self.moment(at.server);
        let it = &mut self.servers[at.server];
        // The oracle trusts the clock that no one can set.
        let now = it.clock.now(self.clock);
        let heard = Heard { now, sent_at: before(now, self.clock.now - sent_at) };
        let Some(live) = &mut it.served[at.tenant].live else { return };
        live.shard.tap().listen(heard, &mut self.notes);
        act(&mut live.shard, moment);
        self.steps += live.shard.tap().give_back(&mut self.notes);
    }

    fn close_turn(&mut self, at: ShardAt) {
        while let Some(live) = &mut self.served(at).live
            && let Some(turn) = live.shard.poll_commit()
        {
            self.store_queues(at, turn);
        }
        self.carry_out(at);
    }

    fn command_of(&mut self, request: Request) -> Option<(Command, u64)> {
        let Request { call, at, ask } = request;
        let now = self.server_now(at.server);
        let ticket = self.served(at).live.as_mut()?.ticket_for(Asker::Call(call));
        let command = match ask {
            Ask::Submit(tasks) => Command::Ask(ticket, Question::Submit { tasks }),
            Ask::Lease(ask) => {
                Command::Ask(ticket, Question::RequestLeases { request: lease_request(ask, now) })
            }
            Ask::Heartbeat { worker, leases } => {
                Command::Ask(ticket, Question::Heartbeat { worker, leases })
            }
            Ask::Report(reports) => Command::Ask(ticket, Question::Report { reports }),
            Ask::Stop(task) => Command::Ask(ticket, Question::Stop { task }),
            Ask::Requeue(task) => Command::Ask(ticket, Question::Requeue { task }),
            Ask::Watch(task, wait) => {
                Command::Ask(ticket, Question::Watch { task, until: now.after(wait) })
            }
            Ask::Explain(task) => Command::Ask(ticket, Question::Explain { task }),
            Ask::ListWorkers => Command::Ask(ticket, Question::ListWorkers),
            Ask::ListQueues => Command::Ask(ticket, Question::ListQueues),
            Ask::Peek => {
                let (queues, types) = (Vec::new(), None);
                Command::Ask(ticket, Question::Peek { queues, types, skip: 0, limit: u32::MAX })
            }
            Ask::Register { worker, offer, silence_limits } => Command::Ask(
                ticket,
                Question::Register { worker, offer, silence_limits, anew: true },
            ),
            Ask::Unregister(worker) => Command::Ask(ticket, Question::Unregister { worker }),
            Ask::Pause(queue, on) => {
                // When the faults are over nobody pauses any more, or nothing would ever end.
                let on = on && self.has_faults;
                pause_command(ticket, queue, on, now)
            }
            Ask::StartRun(run) => Command::Ask(ticket, Question::StartRun { run }),
            Ask::Signal(signal) => Command::Ask(ticket, Question::Signal { signal }),
            Ask::Next(call) => Command::Ask(ticket, Question::Next { call }),
            Ask::Drain(worker, wish) => {
                // As with pauses, nobody drains any more when the faults are over.
                let wish = wish.filter(|_| self.has_faults);
                drain_command(ticket, worker, wish, now)
            }
            Ask::ReportText(_) => return None,
        };
        Some((command, call.sent_at))
    }

    /// A turn is durable, or it is lost and everything that builds on it.
    pub(crate) fn turn_ended(&mut self, at: ShardAt, turn: &Turn, end: Result<(), CommitError>) {
        let Some(live) = &mut self.served(at).live else { return };
        if live.shard.claim() != turn.claim {
            return;
        }
        if let Err(error) = end {
            return self.server_drops_its_shard(at, &error);
        }
        live.durable = turn.number;
        live.shard.on_committed(turn.number);
        self.carry_out(at);
        self.compare_replay(at);
        self.plan_turn(at);
    }

    /// The facts that are kept give the state that the runs have, whenever nothing is under way.
    fn compare_replay(&mut self, at: ShardAt) {
        let it = &mut self.servers[at.server];
        let Some(live) = &it.served[at.tenant].live else { return };
        let is_quiet = live.shard.latest_turn() == live.durable;
        if !is_quiet || !self.store.is_current(live.shard.claim()) || !it.dice.chance(REPLAYED) {
            return;
        }
        let states = live.shard.coordinator().run_states();
        if states.is_empty() {
            return;
        }
        let (claim, now) = (live.shard.claim(), it.clock.now(self.clock));
        let held = self.store.tables().restore(claim.shard);
        let moment = Moment { now, wall: now, entropy: 0 };
        let other = Shard::restore(claim, held, Limits::default(), (moment, ()));
        self.notes.happened(Consequence::ReplayCompared);
        self.notes.demand(other.coordinator().run_states() == states, "P1", || {
            format!("the facts of the runs of {at} give another state than they have")
        });
    }

    /// Carries out what may leave.
    fn carry_out(&mut self, at: ShardAt) {
        while let Some(live) = &mut self.served(at).live
            && let Some(effect) = live.shard.poll_effect()
        {
            match effect {
                Effect::Decided(Decided::Answer { ticket, answer }) => {
                    self.send_answer(at, ticket, answer);
                }
                Effect::Decided(Decided::Load { load, keys }) => self.begin_load(at, load, keys),
                Effect::Decided(Decided::Prepare { prepare, schedule, due, .. }) => {
                    self.begin_prepare(at, prepare, (schedule, due));
                }
                Effect::ToLink { link, word } => {
                    if let Some(claimed) = self.link_is_told(at, link, word) {
                        // The connection has gone: what it was given waits for the next one.
                        let now = self.clock.now;
                        self.with_shard(at, now, |shard, at| {
                            shard.on_unclaimed(at, link, *claimed);
                        });
                        self.plan_turn(at);
                    }
                }
                Effect::Publish(_) | Effect::Tell(_) => {}
            }
        }
    }

    fn send_answer(&mut self, at: ShardAt, ticket: Ticket, answer: Answer) {
        let Some(live) = &mut self.served(at).live else { return };
        let answer = match live.askers.remove(&ticket) {
            Some(Asker::Call(call)) if !self.is_known_gone(at.server, call) => {
                let told = match answer {
                    Answer::Refused(Refusal::StoreUnavailable) => Told::Unavailable,
                    answer => Told::Answer(answer),
                };
                return self.reply(call, told);
            }
            Some(Asker::Link(link, request)) => {
                match self.link_is_answered(at.server, (link, request), answer) {
                    Some(answer) => answer,
                    None => return,
                }
            }
            Some(Asker::Call(_)) | None => answer,
        };
        let now = self.clock.now;
        self.with_shard(at, now, |shard, at| shard.on_undelivered(at, &answer));
        self.check_taken_back(at, &answer);
        self.plan_turn(at);
    }

    /// P5: a grant that found nobody is taken back at once, not with the lease's time.
    fn check_taken_back(&mut self, at: ShardAt, answer: &Answer) {
        let live = &mut self.servers[at.server].served[at.tenant].live;
        let (Answer::Leases(grants), Some(live)) = (answer, live) else { return };
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
    fn begin_load(&mut self, at: ShardAt, load: LoadTicket, keys: Vec<LoadKey>) {
        let it = &mut self.servers[at.server];
        let Some(live) = &it.served[at.tenant].live else { return };
        let event = Event::LoadDone { at, life: live.life, load, keys };
        self.agenda.plan(self.clock.now + it.dice.between(0, 30), event);
    }

    pub(crate) fn load_done(
        &mut self,
        at: ShardAt,
        life: u64,
        (load, keys): (LoadTicket, &[LoadKey]),
    ) {
        let it = &mut self.servers[at.server];
        let own = it.served[at.tenant].live.as_mut().filter(|own| own.life == life);
        let Some(own) = own else { return };
        // A stale owner that reads what its successor wrote knows more than its own history says.
        let is_current = self.store.is_current(own.shard.claim());
        own.shard.tap().is_followed &= is_current;
        let found = if self.has_faults && it.dice.chance(10) {
            None
        } else {
            let found = self.store.load(at.tenant, keys);
            if found.iter().any(|(_, record)| is_settled(record)) {
                self.notes.happened(Consequence::SettledTaskLoaded);
            }
            Some(found)
        };
        self.served(at).inbox.push_front(Inbound::Loaded(load, found));
        self.plan_turn(at);
    }

    // ----- the alarm

    pub(crate) fn set_alarm(&mut self, at: ShardAt) {
        let it = &mut self.servers[at.server];
        let Some(live) = &mut it.served[at.tenant].live else { return };
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
            self.fault(Fault::LateTimer, || format!("{at} wakes {late} ms late"));
        }
        let moment = due.max(self.clock.now + 1) + late;
        self.agenda.plan(moment, Event::ServerTick { at, alarm });
    }

    pub(crate) fn server_tick(&mut self, at: ShardAt, alarm: u64) {
        if let Some(until) = self.paused_until(at.server) {
            return self.agenda.plan(until, Event::ServerTick { at, alarm });
        }
        let Some(live) = &mut self.served(at).live else { return };
        if live.alarm == alarm {
            live.alarm_at = None;
            live.has_rung = true;
            self.plan_turn(at);
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
        is_loss_noticed: false,
        confirm_within: ask.confirm_within,
    }
}

pub(crate) fn pause_command(ticket: Ticket, queue: QueueName, on: bool, now: Timestamp) -> Command {
    let pause = on.then(|| Pause { by: "someone".into(), at: now });
    Command::Ask(ticket, Question::SetPause { queue, pause })
}

pub(crate) fn drain_command(
    ticket: Ticket,
    worker: WorkerId,
    wish: Option<DrainWish>,
    now: Timestamp,
) -> Command {
    let drain = wish.map(|DrainWish { gone_in }| Drain {
        by: "someone".into(),
        at: now,
        gone_by: gone_in.map(|gone_in| now.after(gone_in)),
        reason: None,
    });
    Command::Ask(ticket, Question::Drain { worker, drain })
}

fn before(now: Timestamp, millis: u64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}
