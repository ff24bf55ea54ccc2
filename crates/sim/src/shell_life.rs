//! How shells start, stand still, die, and take over from each other.

use std::collections::VecDeque;

use coordinator::{Command, Coordinator, Moment, TaskState, Ticket, WaitReason};

use crate::agenda::Event;
use crate::clock::ProcessClock;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Peer, Told};
use crate::rng::{Dice, scatter};
use crate::shell::{Inbound, Mind, Shell, pause_command};
use crate::store::CommitEnd;
use crate::workload::{QUEUES, queue_name};
use crate::world::World;

/// The pause between two tries to get a store back.
const RECOVERY_EVERY: u64 = 500;

impl World {
    /// A new process; it claims the shard a little later.
    pub(crate) fn spawn_shell(&mut self, delay: u64) -> usize {
        let shell = self.shells.len();
        self.shells.push(Shell {
            is_alive: true,
            paused_until: 0,
            clock: ProcessClock::start(self.clock),
            mind: None,
            inbox: VecDeque::new(),
            is_turn_planned: false,
            dice: Dice::of_parts(self.seed, scatter(shell as u64), 7),
        });
        self.agenda.plan(self.clock.now + delay, Event::ShellStart { shell });
        shell
    }

    /// Claims the shard, reads it, and goes on from there.
    pub(crate) fn shell_starts(&mut self, shell: usize) {
        if let Some(until) = self.paused_until(shell) {
            return self.agenda.plan(until, Event::ShellStart { shell });
        }
        let it = &self.shells[shell];
        if !it.is_alive || it.mind.is_some() {
            return;
        }
        if self.store.full_until > self.clock.now {
            self.fault(Fault::DiskFull, || format!("shell {shell} cannot claim"));
            let at = self.clock.now + RECOVERY_EVERY;
            return self.agenda.plan(at, Event::ShellStart { shell });
        }
        let (claim, restored) = self.store.claim();
        let now = self.shell_now(shell);
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
        let entropy = self.shells[shell].dice.bits();
        let at = Moment { now, entropy };
        let live = restored.tasks.len() as u64;
        let is_blocked = |record: &&coordinator::TaskRecord| {
            matches!(record.progress.state, TaskState::Waiting { why: WaitReason::After, .. })
        };
        if restored.tasks.iter().any(|record| is_blocked(&record)) {
            self.notes.happened(Consequence::RestartWithBlockedTasks);
        }
        let mut coordinator =
            Coordinator::restore(claim.shard, restored.next_number, restored.tasks, at);
        let mut model = self.durable.restored(now);
        for queue in self.store.paused.clone() {
            self.notes.happened(Consequence::RestartWithPause);
            coordinator.handle(at, pause_command(Ticket(0), queue.clone(), true, now));
            model.paused.insert(queue);
        }
        self.lives += 1;
        self.shells[shell].mind = Some(Mind::new(self.lives, claim, coordinator, model));
        self.front = shell;
        self.trace.note(self.clock.now, &[2, shell as u64, claim.epoch, live], || {
            format!("shell {shell} starts with epoch {}, {live} live tasks, at {now}", claim.epoch)
        });
        self.set_first_alarm(shell);
        self.plan_turn(shell);
    }

    /// A commit failed: memory says what the store does not, so it goes.
    pub(crate) fn shell_loses_its_mind(&mut self, shell: usize, end: CommitEnd) {
        self.refuse_askers(shell);
        self.store.abandon(shell);
        let is_succeeded = self.front != shell;
        self.trace.note(self.clock.now, &[3, shell as u64], || {
            format!("shell {shell} lost a turn ({end:?})")
        });
        if end == CommitEnd::Fenced && is_succeeded {
            self.shells[shell].is_alive = false;
            return;
        }
        if end == CommitEnd::SyncFailed {
            return self.kill_shell(shell, 200);
        }
        let at = self.clock.now + 20;
        self.agenda.plan(at, Event::ShellStart { shell });
    }

    /// Those who wait are told, or hear nothing and ask again.
    fn refuse_askers(&mut self, shell: usize) {
        let it = &mut self.shells[shell];
        let mut calls: Vec<_> =
            it.mind.take().map(|mind| mind.askers.into_values().collect()).unwrap_or_default();
        calls.extend(it.inbox.drain(..).filter_map(|inbound| match inbound {
            Inbound::Ask(request) => Some(request.call),
            Inbound::Own(_) => None,
        }));
        for call in calls {
            if self.shells[shell].dice.chance(500) {
                self.reply(call, Told::Unavailable);
            }
        }
    }

    /// A process dies; if it was the one in charge, another one is started in its place.
    pub(crate) fn kill_shell(&mut self, shell: usize, delay: u64) {
        let it = &mut self.shells[shell];
        it.is_alive = false;
        it.mind = None;
        it.inbox.clear();
        it.paused_until = 0;
        self.store.abandon(shell);
        if self.front == shell {
            self.front = self.spawn_shell(delay);
        }
    }

    // ----- planned faults

    pub(crate) fn coordinator_killed(&mut self) {
        let shell = self.front;
        let delay = self.fault_dice.heavy_tail(100, 5);
        self.fault(Fault::CoordinatorKill, || format!("shell {shell}, back in {delay} ms"));
        self.kill_shell(shell, delay);
    }

    pub(crate) fn coordinator_paused(&mut self) {
        let shell = self.front;
        let pause = self.fault_dice.heavy_tail(600, 4);
        self.fault(Fault::CoordinatorPause, || format!("shell {shell} for {pause} ms"));
        self.shells[shell].paused_until = self.clock.now + pause;
        // Whoever watches the coordinator takes the silence for death, now and then.
        if self.faults.has(Fault::SecondCoordinator) && self.fault_dice.chance(600) {
            let delay = self.fault_dice.between(10, pause);
            self.second_coordinator(delay);
        }
    }

    pub(crate) fn second_coordinator(&mut self, delay: u64) {
        let first = self.front;
        let second = self.spawn_shell(delay);
        self.fault(Fault::SecondCoordinator, || {
            format!("shell {second} takes over from shell {first} in {delay} ms")
        });
    }

    pub(crate) fn wall_jumped(&mut self) {
        let hour = 3_600_000;
        let by = if self.fault_dice.chance(500) { hour } else { -hour };
        self.clock.jump(by);
        let restarts = self.fault_dice.chance(600);
        self.fault(Fault::WallJump, || format!("by {} s, restart: {restarts}", by / 1_000));
        if restarts {
            let shell = self.front;
            self.kill_shell(shell, 100);
        }
    }

    /// People let every queue go on. All of them: a stale owner may have taken a note away while
    /// the one in charge was never told.
    pub(crate) fn resume_queues(&mut self) {
        self.store.paused.clear();
        for queue in QUEUES.map(queue_name) {
            for shell in 0..self.shells.len() {
                let now = self.shell_now(shell);
                let resume = pause_command(Ticket(u64::MAX), queue.clone(), false, now);
                self.shells[shell].inbox.push_back(Inbound::Own(resume));
                self.plan_turn(shell);
            }
        }
    }

    /// The socket of a dead worker closes: the shell forgets what it asked for.
    pub(crate) fn withdraw_asks(&mut self, worker: usize) {
        for shell in 0..self.shells.len() {
            let Some(mind) = &mut self.shells[shell].mind else { continue };
            let gone = mind.askers.iter().filter(|(_, call)| call.peer == Peer::Worker(worker));
            let tickets: Vec<_> = gone.map(|(ticket, _)| *ticket).collect();
            for ticket in &tickets {
                mind.askers.remove(ticket);
            }
            let withdraw = |ticket| Inbound::Own(Command::Withdraw { ticket });
            self.shells[shell].inbox.extend(tickets.into_iter().map(withdraw));
            self.plan_turn(shell);
        }
    }
}
