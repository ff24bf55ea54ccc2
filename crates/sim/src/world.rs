//! One run: everything that exists, and the loop that moves it.

use std::collections::{BTreeMap, BTreeSet};

use model::{ShardId, TaskId};
use shard::sessions::LinkId;

use crate::agenda::{Agenda, Event};
use crate::clock::WorldClock;
use crate::faults::{Fault, FaultSet};
use crate::network::{Network, describe};
use crate::oracle::{Journal, Model, Notes};
use crate::rng::Dice;
use crate::runs::{RunBook, ScheduleBook};
use crate::server::{Server, ShardAt};
use crate::session::{Line, SessionWorker};
use crate::store::FakeStore;
use crate::submitter::Submitter;
use crate::trace::Trace;
use crate::worker::Worker;
use crate::workload::Intent;

/// Tenants that share servers and the store.
pub(crate) const TENANTS: usize = 2;
/// How long the faults last in a world with tasks.
const SAFETY_MS: u64 = 60_000;
/// Workflows that are run beside tasks.
const WORKFLOWS: u64 = 3;
/// Workflows that are run in a world without other tasks.
pub const WORKFLOWS_ALONE: u64 = 10;
/// A run that takes more steps than this does not come to its end.
const EVENTS_MAX: u64 = 2_000_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Everything follows from it.
    pub seed: u64,
    /// How many wishes there are.
    pub tasks: u64,
    /// How many workflows are run.
    pub workflows: u64,
    /// Wishes that are left out.
    pub skip: BTreeSet<u64>,
    /// Faults that may happen.
    pub faults: FaultSet,
    /// Whether clients that get no answer ask again under a new name: a mistake of theirs, by which
    /// the simulation shows that it finds and shortens.
    pub clients_rename: bool,
    /// Whether the text of the trace is kept.
    pub is_verbose: bool,
}

impl RunConfig {
    /// The usual run of a seed.
    pub fn of(seed: u64, tasks: u64) -> Self {
        Self {
            seed,
            tasks,
            workflows: WORKFLOWS,
            skip: BTreeSet::new(),
            faults: FaultSet::ALL,
            clients_rename: false,
            is_verbose: false,
        }
    }

    /// A seed whose world runs workflows and little else.
    pub fn of_workflows(seed: u64) -> Self {
        Self { workflows: WORKFLOWS_ALONE, ..Self::of(seed, 0) }
    }

    /// How long the faults last. Workflows alone are done sooner.
    pub(crate) fn safety_ms(&self) -> u64 {
        if self.tasks == 0 { SAFETY_MS / 3 } else { SAFETY_MS }
    }
}

/// What is known of a tenant, whoever serves it.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    pub(crate) durable: Model,
    pub(crate) journal: Journal,
    /// The server that clients are sent to.
    pub(crate) front: usize,
}

/// Whose task it is: the store numbers shards in the order of the tenants.
pub(crate) fn tenant_of(task: TaskId) -> usize {
    tenant_of_shard(task.shard())
}

pub(crate) fn tenant_of_shard(shard: ShardId) -> usize {
    usize::try_from(shard.get()).map_or(0, |shard| shard.saturating_sub(1))
}

/// The shard of a tenant.
pub(crate) fn shard_of(tenant: usize) -> ShardId {
    u32::try_from(tenant + 1).ok().and_then(ShardId::new).expect("a small number")
}

/// Everything that exists in a run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: RunConfig,
    pub(crate) seed: u64,
    pub(crate) faults: FaultSet,
    pub(crate) clock: WorldClock,
    pub(crate) agenda: Agenda,
    pub(crate) trace: Trace,
    pub(crate) notes: Notes,
    pub(crate) tenants: [Tenant; TENANTS],
    pub(crate) network: Network,
    pub(crate) store: FakeStore,
    pub(crate) servers: Vec<Server>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) session_workers: Vec<SessionWorker>,
    pub(crate) lines: BTreeMap<LinkId, Line>,
    pub(crate) submitters: Vec<Submitter>,
    pub(crate) runs: RunBook,
    pub(crate) schedules: ScheduleBook,
    pub(crate) has_faults: bool,
    /// Whether the coordinator's own tables are checked after every step.
    pub(crate) is_thorough: bool,
    pub(crate) fault_dice: Dice,
    pub(crate) route_dice: Dice,
    pub(crate) steps: u64,
    pub(crate) lives: u64,
    pub(crate) processes: u64,
    pub(crate) last_call: u64,
    pub(crate) last_link: u64,
    pub(crate) last_session: u64,
}

impl World {
    pub(crate) fn new(config: RunConfig) -> Self {
        let (seed, faults) = (config.seed, config.faults);
        let mut world = Self {
            seed,
            faults,
            clock: WorldClock::default(),
            agenda: Agenda::default(),
            trace: Trace::new(config.is_verbose),
            notes: Notes::default(),
            tenants: Default::default(),
            network: Network::new(seed, faults),
            store: FakeStore::new(seed, faults),
            servers: Vec::new(),
            workers: Vec::new(),
            session_workers: Vec::new(),
            lines: BTreeMap::new(),
            submitters: Vec::new(),
            runs: RunBook::default(),
            schedules: ScheduleBook::default(),
            has_faults: true,
            is_thorough: seed.is_multiple_of(8),
            fault_dice: Dice::for_purpose(seed, "faults"),
            route_dice: Dice::for_purpose(seed, "routes"),
            steps: 0,
            lives: 0,
            processes: 0,
            last_call: 0,
            last_link: 0,
            last_session: 0,
            config,
        };
        world.set_schedule_seed();
        world.spawn_server(0, &[0, 1]);
        world.spawn_submitters();
        world.spawn_workers();
        world.spawn_session_workers();
        world.plan_faults();
        world.agenda.plan(world.config.safety_ms(), Event::FaultsEnd);
        world
    }

    /// Lets time pass until everything is done, a promise is broken, or nothing moves any more.
    pub(crate) fn run(&mut self) {
        let mut end = None;
        for _ in 0..EVENTS_MAX {
            let Some((at, event)) = self.agenda.next() else { return };
            self.clock.now = at;
            self.happens(event);
            if self.notes.broken.is_some() {
                return;
            }
            if self.has_faults {
                continue;
            }
            let bound = *end.get_or_insert_with(|| self.clock.now + self.liveness_bound());
            if self.is_all_done() {
                return self.check_all();
            }
            if self.clock.now > bound {
                return self.report_stuck();
            }
        }
        self.notes.broken("P5", || "the run does not come to its end".into());
    }

    fn check_all(&mut self) {
        for tenant in &self.tenants {
            tenant.journal.check_all(&tenant.durable, &mut self.notes);
        }
        self.runs.check_ends(self.store.tables(), &mut self.notes);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deliver(wire) => {
                let now = self.clock.now;
                self.trace.note(now, &[5], || describe(&wire));
                self.delivered(*wire);
            }
            Event::ServerTurn { at } => self.server_turn(at),
            Event::ServerTick { at, alarm } => self.server_tick(at, alarm),
            Event::ServerStart { at } => self.server_starts(at),
            Event::StoreApplies { transaction } => self.store_applies(transaction),
            Event::StoreReplies { transaction } => self.store_replies(transaction),
            Event::LoadDone { at, life, load, keys } => self.load_done(at, life, (load, &keys)),
            Event::Prepared { at, life, prepare, moment } => {
                self.prepared(at, life, (prepare, moment));
            }
            Event::Frame { line, direction, sent } => self.frame_arrives(line, direction, *sent),
            Event::LinkGone { server, link } => self.link_gone(server, link),
            Event::LinkTick { server, link, alarm } => self.link_tick(server, link, alarm),
            Event::LinkAttaches { server, link } => self.link_attaches(server, link),
            Event::SessionWorker { worker, process, timer } => {
                self.session_worker_wakes(worker, process, timer);
            }
            Event::Worker { worker, process, timer } => self.worker_wakes(worker, process, timer),
            Event::Submitter { submitter, timer } => self.submitter_wakes(submitter, timer),
            Event::Fault(fault) => self.planned_fault(fault),
            Event::FaultsEnd => self.heal(),
        }
    }

    /// Faults of processes, clocks and disks strike at moments that are drawn beforehand.
    fn plan_faults(&mut self) {
        let kinds = [
            (Fault::Reset, 8),
            (Fault::HalfOpen, 4),
            (Fault::WorkerKill, 6),
            (Fault::WorkerPause, 5),
            (Fault::CoordinatorKill, 4),
            (Fault::CoordinatorPause, 3),
            (Fault::SecondCoordinator, 3),
            (Fault::WallJump, 2),
            (Fault::DiskFull, 2),
        ];
        for (fault, times_max) in kinds {
            let mut dice = Dice::for_purpose(self.seed, fault.name().1);
            for _ in 0..dice.between(0, times_max) {
                let at = dice.between(500, self.config.safety_ms() - 1_000);
                if self.faults.has(fault) {
                    self.agenda.plan(at, Event::Fault(fault));
                }
            }
        }
    }

    fn planned_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Reset => self.some_line_cut(),
            Fault::HalfOpen => self.became_half_open(),
            Fault::WorkerKill => self.worker_killed(),
            Fault::WorkerPause => self.worker_paused(),
            Fault::CoordinatorKill => self.coordinator_killed(),
            Fault::CoordinatorPause => self.coordinator_paused(),
            Fault::SecondCoordinator => {
                let delay = self.fault_dice.between(10, 500);
                self.second_coordinator(delay);
            }
            Fault::WallJump => self.wall_jumped(),
            Fault::DiskFull => {
                self.store.full_until = self.clock.now + self.fault_dice.heavy_tail(500, 4);
            }
            // The others strike where they happen: at a message, a commit, a report.
            _ => {}
        }
    }

    /// The faults end; what is left must come to its end by itself.
    fn heal(&mut self) {
        self.has_faults = false;
        self.network.heal();
        self.store.heal();
        self.heal_workers();
        self.undo_orders();
        for submitter in &mut self.submitters {
            submitter.half_open_until = 0;
        }
        self.heal_servers();
        self.trace.note(self.clock.now, &[6], || "the faults end".into());
    }

    // ----- small things that everyone needs

    pub(crate) fn fault(&mut self, fault: Fault, words: impl FnOnce() -> String) {
        self.notes.counters.fault(fault);
        self.trace.fault(self.clock.now, fault, words);
    }

    pub(crate) fn is_poison(&self, intent: u64) -> bool {
        Intent::of(self.seed, intent, self.faults.has(Fault::Poison)).is_poison
    }

    /// Clients go to the server in front; some still have the address of an earlier one.
    pub(crate) fn choose_server(&mut self, tenant: usize) -> ShardAt {
        let is_live = |server: &usize| self.servers[*server].served[tenant].live.is_some();
        let others: Vec<usize> = (0..self.servers.len()).filter(is_live).collect();
        let mut server = self.tenants[tenant].front;
        if self.has_faults && self.route_dice.chance(250) {
            server = self.route_dice.pick(&others).copied().unwrap_or(server);
        }
        ShardAt { server, tenant }
    }
}
