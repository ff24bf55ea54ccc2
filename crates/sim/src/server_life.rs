//! How servers start, stand still, die, and take over from each other.

use std::collections::VecDeque;

use coordinator::{Command, Moment, TaskState, Ticket, WaitReason};
use shard::{Limits, Shard};

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Peer, Told};
use crate::oracle::Oracle;
use crate::rng::{Dice, scatter};
use crate::server::{Inbound, Live, Server, pause_command};
use crate::store::CommitEnd;
use crate::workload::{QUEUES, queue_name};
use crate::world::World;

/// Small turns, and few of them in flight, so that the limits of both are reached.
const LIMITS: Limits = Limits { messages_per_turn: 16, turns_in_flight: 8 };
/// The pause between two tries to get a store back.
const RECOVERY_EVERY: u64 = 500;

impl World {
    /// A new process; it claims the shard a little later.
    pub(crate) fn spawn_server(&mut self, delay: u64) -> usize {
        let server = self.servers.len();
        self.servers.push(Server {
            is_alive: true,
            paused_until: 0,
            clock: ProcessClock::start(self.clock),
            live: None,
            inbox: VecDeque::new(),
            is_turn_planned: false,
            dice: Dice::of_parts(self.seed, scatter(server as u64), 7),
        });
        self.agenda.plan(self.clock.now + delay, Event::ServerStart { server });
        server
    }

    /// Claims the shard, reads it, and goes on from there.
    pub(crate) fn server_starts(&mut self, server: usize) {
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::ServerStart { server });
        }
        let it = &self.servers[server];
        if !it.is_alive || it.live.is_some() {
            return;
        }
        if self.store.full_until > self.clock.now {
            self.fault(Fault::DiskFull, || format!("server {server} cannot claim"));
            let at = self.clock.now + RECOVERY_EVERY;
            return self.agenda.plan(at, Event::ServerStart { server });
        }
        let (claim, restored) = self.store.claim();
        let now = self.server_now(server);
        let leased = |record: &&coordinator::TaskRecord| {
            matches!(record.progress.state, TaskState::Leased(_))
        };
        if restored.tasks.iter().any(|record| leased(&record)) {
            self.notes.happened(Consequence::RestartWithLiveLeases);
        }
        if std::mem::take(&mut self.store.was_ambiguous) {
            self.notes.happened(Consequence::AmbiguousCommitRecovered);
        }
        self.journal.check_all(&self.durable, &mut self.notes);
        let entropy = self.servers[server].dice.bits();
        let at = Moment { now, wall: model::Timestamp::from_millis(self.clock.wall()), entropy };
        let live = restored.tasks.len() as u64;
        let is_blocked = |record: &&coordinator::TaskRecord| {
            matches!(record.progress.state, TaskState::Waiting { why: WaitReason::After, .. })
        };
        if restored.tasks.iter().any(|record| is_blocked(&record)) {
            self.notes.happened(Consequence::RestartWithBlockedTasks);
        }
        let mut model = self.durable.restored(now);
        for queue in restored.settings.pauses.keys() {
            self.notes.happened(Consequence::RestartWithPause);
            model.paused.insert(queue.clone());
        }
        let oracle = Oracle::new(model, self.is_thorough, self.steps);
        let shard = Shard::restore(claim, restored, LIMITS, (at, oracle));
        self.lives += 1;
        self.servers[server].live = Some(Live::new(self.lives, shard));
        self.front = server;
        if !self.has_faults {
            self.resume_queues();
        }
        self.trace.note(self.clock.now, &[2, server as u64, claim.epoch, live], || {
            format!(
                "server {server} starts with epoch {}, {live} live tasks, at {now}",
                claim.epoch
            )
        });
        self.set_alarm(server);
        self.plan_turn(server);
    }

    /// A commit failed: memory says what the store does not, so it goes.
    pub(crate) fn server_drops_its_shard(&mut self, server: usize, end: CommitEnd) {
        self.refuse_askers(server);
        self.store.abandon(server);
        let is_succeeded = self.front != server;
        self.trace.note(self.clock.now, &[3, server as u64], || {
            format!("server {server} lost a turn ({end:?})")
        });
        if end == CommitEnd::Fenced && is_succeeded {
            self.servers[server].is_alive = false;
            return;
        }
        if end == CommitEnd::SyncFailed {
            return self.kill_server(server, 200);
        }
        let at = self.clock.now + 20;
        self.agenda.plan(at, Event::ServerStart { server });
    }

    /// Those who wait are told, or hear nothing and ask again.
    fn refuse_askers(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let mut calls: Vec<_> =
            it.live.take().map(|live| live.askers.into_values().collect()).unwrap_or_default();
        calls.extend(it.inbox.drain(..).filter_map(|inbound| match inbound {
            Inbound::Ask(request) => Some(request.call),
            Inbound::Own(_) | Inbound::Loaded(..) => None,
        }));
        for call in calls {
            if self.servers[server].dice.chance(500) {
                self.reply(call, Told::Unavailable);
            }
        }
    }

    /// A process dies; if it was the one in charge, another one is started in its place.
    pub(crate) fn kill_server(&mut self, server: usize, delay: u64) {
        let it = &mut self.servers[server];
        it.is_alive = false;
        it.live = None;
        it.inbox.clear();
        it.paused_until = 0;
        self.store.abandon(server);
        if self.front == server {
            self.front = self.spawn_server(delay);
        }
    }

    // ----- planned faults

    pub(crate) fn coordinator_killed(&mut self) {
        let server = self.front;
        let delay = self.fault_dice.heavy_tail(100, 5);
        self.fault(Fault::CoordinatorKill, || format!("server {server}, back in {delay} ms"));
        self.kill_server(server, delay);
    }

    pub(crate) fn coordinator_paused(&mut self) {
        let server = self.front;
        let pause = self.fault_dice.heavy_tail(600, 4);
        self.fault(Fault::CoordinatorPause, || format!("server {server} for {pause} ms"));
        self.servers[server].paused_until = self.clock.now + pause;
        // Whoever watches the coordinator takes the silence for death, now and then.
        if self.faults.has(Fault::SecondCoordinator) && self.fault_dice.chance(600) {
            let delay = self.fault_dice.between(10, pause);
            self.second_coordinator(delay);
        }
    }

    pub(crate) fn second_coordinator(&mut self, delay: u64) {
        let first = self.front;
        let second = self.spawn_server(delay);
        self.fault(Fault::SecondCoordinator, || {
            format!("server {second} takes over from server {first} in {delay} ms")
        });
    }

    pub(crate) fn wall_jumped(&mut self) {
        let hour = 3_600_000;
        let by = if self.fault_dice.chance(500) { hour } else { -hour };
        self.clock.jump(by);
        let restarts = self.fault_dice.chance(600);
        self.fault(Fault::WallJump, || format!("by {} s, restart: {restarts}", by / 1_000));
        if restarts {
            let server = self.front;
            self.kill_server(server, 100);
        }
    }

    /// People let every queue go on. They say it again to a server that starts later.
    pub(crate) fn resume_queues(&mut self) {
        for queue in QUEUES.map(queue_name) {
            for server in 0..self.servers.len() {
                let now = self.server_now(server);
                let resume = pause_command(Ticket(u64::MAX), queue.clone(), false, now);
                self.servers[server].inbox.push_back(Inbound::Own(resume));
                self.plan_turn(server);
            }
        }
    }

    /// The socket of a dead worker closes: the server forgets what it asked for.
    pub(crate) fn withdraw_asks(&mut self, worker: usize) {
        for server in 0..self.servers.len() {
            let Some(live) = &mut self.servers[server].live else { continue };
            let gone = live.askers.iter().filter(|(_, call)| call.peer == Peer::Worker(worker));
            let tickets: Vec<_> = gone.map(|(ticket, _)| *ticket).collect();
            for ticket in &tickets {
                live.askers.remove(ticket);
            }
            let withdraw = |ticket| Inbound::Own(Command::Withdraw { ticket });
            self.servers[server].inbox.extend(tickets.into_iter().map(withdraw));
            self.plan_turn(server);
        }
    }
}
