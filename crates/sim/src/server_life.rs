//! How servers start, stand still, die, and take over from each other.

use std::collections::BTreeMap;

use coordinator::{Command, Moment, Question, TaskState, Ticket, WaitReason};
use model::WorkerId;
use shard::{Limits, Restored, Shard};
use store::CommitError;

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Peer, Told};
use crate::oracle::Oracle;
use crate::rng::{Dice, scatter};
use crate::runs::{schedule_id, schedule_spec};
use crate::server::{Asker, Inbound, Live, Server, ShardAt, drain_command, pause_command};
use crate::workload::{QUEUES, queue_name};
use crate::world::{TENANTS, World};

/// Small turns, and few of them in flight, so that the limits of both are reached.
const LIMITS: Limits = Limits { messages_per_turn: 16, turns_in_flight: 8 };
/// The pause between two tries to get a store back.
const RECOVERY_EVERY: u64 = 500;

impl World {
    /// A new process; it claims the shards of these tenants a little later.
    pub(crate) fn spawn_server(&mut self, delay: u64, tenants: &[usize]) -> usize {
        let server = self.servers.len();
        self.servers.push(Server {
            is_alive: true,
            paused_until: 0,
            clock: ProcessClock::start(self.clock),
            served: Default::default(),
            links: BTreeMap::new(),
            dice: Dice::of_parts(self.seed, scatter(server as u64), 7),
        });
        for tenant in tenants.iter().copied() {
            let event = Event::ServerStart { at: ShardAt { server, tenant } };
            self.agenda.plan(self.clock.now + delay, event);
        }
        server
    }

    /// Claims the shard of a tenant, reads it, and goes on from there.
    pub(crate) fn server_starts(&mut self, at: ShardAt) {
        let ShardAt { server, tenant } = at;
        if let Some(until) = self.paused_until(server) {
            return self.agenda.plan(until, Event::ServerStart { at });
        }
        if !self.servers[server].is_alive || self.served(at).live.is_some() {
            return;
        }
        if self.store.full_until > self.clock.now {
            self.fault(Fault::DiskFull, || format!("server {server} cannot claim"));
            let moment = self.clock.now + RECOVERY_EVERY;
            return self.agenda.plan(moment, Event::ServerStart { at });
        }
        let (claim, restored) = self.store.claim(at);
        self.note_restored(tenant, &restored);
        let own = &self.tenants[tenant];
        own.journal.check_all(&own.durable, &mut self.notes);
        let now = self.server_now(server);
        let mut model = self.tenants[tenant].durable.restored(now);
        model.paused.extend(restored.settings.pauses.keys().cloned());
        model.drained.extend(restored.settings.drains.keys().cloned());
        let entropy = self.servers[server].dice.bits();
        let wall = model::Timestamp::from_millis(self.clock.wall());
        let schedule = schedule_id(tenant);
        if self.has_faults && !restored.settings.schedules.contains_key(&schedule) {
            let spec = Box::new(schedule_spec(self.seed, tenant, wall));
            let add = Command::Ask(Ticket(u64::MAX), Question::AddSchedule { schedule, spec });
            self.served(at).inbox.push_back(Inbound::Own(add));
        }
        let live = restored.tasks.len() as u64;
        let oracle = Oracle::new(model, self.is_thorough, self.steps);
        let moment = Moment { now, wall, entropy };
        let mut shard = Shard::restore(claim, restored, LIMITS, (moment, oracle));
        // Half of the worlds go on with runs in small steps, so that a crash finds some not begun.
        let begun_per_turn = [usize::MAX, 1, usize::MAX, 2][(self.seed % 4) as usize];
        shard.coordinator_mut().set_begun_per_turn(begun_per_turn);
        self.lives += 1;
        self.served(at).live = Some(Live::new(self.lives, shard));
        self.tenants[tenant].front = server;
        self.schedules.interrupted(tenant);
        if !self.has_faults {
            self.undo_orders();
        }
        let numbers = [2, server as u64, tenant as u64, claim.epoch, live];
        self.trace.note(self.clock.now, &numbers, || {
            format!("{at} starts with epoch {}, {live} live tasks, at {now}", claim.epoch)
        });
        self.set_alarm(at);
        self.plan_turn(at);
    }

    /// What was under way when a server started.
    fn note_restored(&mut self, tenant: usize, restored: &Restored) {
        let has = |is_it: fn(&TaskState) -> bool| {
            restored.tasks.iter().any(|record| is_it(&record.progress.state))
        };
        let is_blocked =
            |state: &TaskState| matches!(state, TaskState::Waiting { why: WaitReason::After, .. });
        let was_ambiguous = std::mem::take(&mut self.store.was_ambiguous[tenant]);
        let seen = [
            (
                has(|state| matches!(state, TaskState::Leased(_))),
                Consequence::RestartWithLiveLeases,
            ),
            (has(is_blocked), Consequence::RestartWithBlockedTasks),
            (was_ambiguous, Consequence::AmbiguousCommitRecovered),
            (!restored.settings.pauses.is_empty(), Consequence::RestartWithPause),
            (!restored.runs.is_empty(), Consequence::RestartWithRuns),
            (!restored.settings.drains.is_empty(), Consequence::RestartWithDrain),
        ];
        for (_, consequence) in seen.into_iter().filter(|(has_happened, _)| *has_happened) {
            self.notes.happened(consequence);
        }
    }

    /// A commit failed: memory says what the store does not, so it goes. A server that was fenced
    /// leaves the tenant to its new owner, and serves the others.
    pub(crate) fn server_drops_its_shard(&mut self, at: ShardAt, error: &CommitError) {
        self.refuse_askers(at);
        self.store.forget_queued(at);
        if *error == CommitError::Fenced {
            // Another server has the tenant: its workers look for it.
            for line in self.lines_of(at.server, Some(at.tenant)) {
                self.cut_line(line);
            }
        }
        self.links_detach(at);
        let numbers = [3, at.server as u64, at.tenant as u64];
        self.trace.note(self.clock.now, &numbers, || format!("{at} lost a turn ({error})"));
        match error {
            CommitError::Fenced => {
                self.notes.happened(Consequence::FencedStepDown);
                self.servers[at.server].is_alive = self.is_needed(at.server);
            }
            CommitError::Unavailable(_) => {
                self.agenda.plan(self.clock.now + 20, Event::ServerStart { at });
            }
        }
    }

    /// Whether a server has a tenant, or is where its clients are sent.
    fn is_needed(&self, server: usize) -> bool {
        self.servers[server].served.iter().any(|served| served.live.is_some())
            || self.tenants.iter().any(|tenant| tenant.front == server)
    }

    /// Those who wait are told, or hear nothing and ask again.
    fn refuse_askers(&mut self, at: ShardAt) {
        let served = self.served(at);
        let live = served.live.take();
        let mut askers: Vec<_> =
            live.map(|live| live.askers.into_values().collect()).unwrap_or_default();
        askers.extend(served.inbox.drain(..).filter_map(|inbound| match inbound {
            Inbound::Ask(request) => Some(Asker::Call(request.call)),
            Inbound::Link { asker: (link, request), .. } => Some(Asker::Link(link, request)),
            Inbound::Own(_) | Inbound::Loaded(..) | Inbound::LinkMessage(..) => None,
        }));
        for asker in askers {
            if let Some(call) = self.refuse_asker(at.server, asker)
                && self.servers[at.server].dice.chance(500)
            {
                self.reply(call, Told::Unavailable);
            }
        }
    }

    /// A process dies; if it was in charge of tenants, another one is started in its place.
    pub(crate) fn kill_server(&mut self, server: usize, delay: u64) {
        let it = &mut self.servers[server];
        it.is_alive = false;
        it.served = Default::default();
        it.links.clear();
        it.paused_until = 0;
        for line in self.lines_of(server, None) {
            self.cut_line(line);
        }
        let ghosts = self.store.abandon(server);
        self.ghosts_appear(ghosts);
        let led: Vec<usize> =
            (0..TENANTS).filter(|tenant| self.tenants[*tenant].front == server).collect();
        if led.is_empty() {
            return;
        }
        let successor = self.spawn_server(delay, &led);
        for tenant in led {
            self.tenants[tenant].front = successor;
        }
    }

    /// Servers that are in charge of nobody go.
    pub(crate) fn heal_servers(&mut self) {
        for server in 0..self.servers.len() {
            let it = &mut self.servers[server];
            it.paused_until = self.clock.now.min(it.paused_until);
            for tenant in 0..TENANTS {
                if self.tenants[tenant].front != server {
                    self.refuse_askers(ShardAt { server, tenant });
                }
            }
            if self.servers[server].is_alive && !self.is_needed(server) {
                self.kill_server(server, 0);
            }
        }
    }

    // ----- planned faults

    /// The server in charge of one of the tenants.
    fn some_front(&mut self) -> usize {
        self.tenants[self.fault_dice.index(TENANTS)].front
    }

    pub(crate) fn coordinator_killed(&mut self) {
        let server = self.some_front();
        let delay = self.fault_dice.heavy_tail(100, 5);
        self.fault(Fault::CoordinatorKill, || format!("server {server}, back in {delay} ms"));
        self.kill_server(server, delay);
    }

    pub(crate) fn coordinator_paused(&mut self) {
        let server = self.some_front();
        let pause = self.fault_dice.heavy_tail(600, 4);
        self.fault(Fault::CoordinatorPause, || format!("server {server} for {pause} ms"));
        self.servers[server].paused_until = self.clock.now + pause;
        // Whoever watches the coordinator takes the silence for death, now and then.
        if self.faults.has(Fault::SecondCoordinator) && self.fault_dice.chance(600) {
            let delay = self.fault_dice.between(10, pause);
            self.second_coordinator(delay);
        }
    }

    /// Another process takes over one tenant, or both.
    pub(crate) fn second_coordinator(&mut self, delay: u64) {
        let tenants: &[usize] = match self.fault_dice.below(3) {
            0 => &[0],
            1 => &[1],
            _ => &[0, 1],
        };
        let second = self.spawn_server(delay, tenants);
        self.fault(Fault::SecondCoordinator, || {
            format!("server {second} takes over tenants {tenants:?} in {delay} ms")
        });
    }

    pub(crate) fn wall_jumped(&mut self) {
        let hour = 3_600_000;
        let by = if self.fault_dice.chance(500) { hour } else { -hour };
        self.clock.jump(by);
        let restarts = self.fault_dice.chance(600);
        self.fault(Fault::WallJump, || format!("by {} s, restart: {restarts}", by / 1_000));
        if restarts {
            let server = self.some_front();
            self.kill_server(server, 100);
        }
    }

    /// People let every queue go on and every worker take work, and remove the schedules. They say
    /// it again to a server that starts later.
    pub(crate) fn undo_orders(&mut self) {
        let ticket = Ticket(u64::MAX);
        for (server, tenant) in
            (0..self.servers.len()).flat_map(|server| (0..TENANTS).map(move |one| (server, one)))
        {
            let (at, now) = (ShardAt { server, tenant }, self.server_now(server));
            let resume = |queue| pause_command(ticket, queue_name(queue), false, now);
            let undrain = |worker| drain_command(ticket, worker, None, now);
            let schedule = schedule_id(tenant);
            let orders: Vec<Command> = QUEUES
                .map(resume)
                .into_iter()
                .chain(self.worker_names(tenant).into_iter().map(undrain))
                .chain([Command::Ask(ticket, Question::RemoveSchedule { schedule })])
                .collect();
            self.served(at).inbox.extend(orders.into_iter().map(Inbound::Own));
            self.plan_turn(at);
        }
    }

    /// The names of a tenant's workers.
    pub(crate) fn worker_names(&self, tenant: usize) -> Vec<WorkerId> {
        let pulling = self.workers.iter().filter(|worker| worker.tenant == tenant);
        let holding = self.session_workers.iter().filter(|worker| worker.tenant == tenant);
        pulling.map(|one| one.id.clone()).chain(holding.map(|one| one.id.clone())).collect()
    }

    /// The socket of a dead worker closes: the server forgets what it asked for.
    pub(crate) fn withdraw_asks(&mut self, worker: usize) {
        let tenant = self.workers[worker].tenant;
        for server in 0..self.servers.len() {
            let at = ShardAt { server, tenant };
            let Some(live) = &mut self.served(at).live else { continue };
            let gone = live.askers.iter().filter(|(_, asker)| {
                matches!(asker, Asker::Call(call) if call.peer == Peer::Worker(worker))
            });
            let tickets: Vec<_> = gone.map(|(ticket, _)| *ticket).collect();
            for ticket in &tickets {
                live.askers.remove(ticket);
            }
            let withdraw = |ticket| Inbound::Own(Command::Withdraw { ticket });
            self.served(at).inbox.extend(tickets.into_iter().map(withdraw));
            self.plan_turn(at);
        }
    }
}
