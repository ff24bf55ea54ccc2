//! Workers that die, stand still, ignore what they are told, repeat themselves, or lie.

use std::sync::Arc;

use coordinator::{Renewal, SilenceLimits, Verdict};
use model::{LeaseId, Report, ShardId, TaskId};

use crate::faults::Fault;
use crate::message::Ask;
use crate::rng::{Dice, scatter};
use crate::worker::{Asked, Habits, Worker, WorkerTimer, make_report};
use crate::workload::{self, Fate};
use crate::world::World;

impl World {
    pub(crate) fn spawn_workers(&mut self) {
        let mut dice = Dice::for_purpose(self.seed, "workers");
        let counts = [dice.between(3, 6), dice.between(2, 3)];
        for (tenant, count) in counts.into_iter().enumerate() {
            for number in 0..count {
                let index = usize::try_from(number).unwrap_or(0);
                let offer = if number < 2 {
                    workload::full_offer()
                } else {
                    workload::partial_offer(self.seed, &mut dice)
                };
                let own = Dice::of_parts(self.seed, scatter(number), 11 + 1_000 * tenant as u64);
                let name = (tenant, workload::worker_id(index));
                let mut worker = Worker::new(name, Arc::new(offer), own);
                worker.slots = u32::try_from(dice.between(1, 4)).unwrap_or(1);
                worker.confirms = dice.chance(500);
                worker.drift = self.drift(&mut dice);
                worker.habits = self.habits(&mut dice);
                self.workers.push(worker);
            }
        }
        if dice.chance(300) && self.faults.has(Fault::ClonedWorker) {
            self.clone_worker(&mut dice);
        }
        for worker in 0..self.workers.len() {
            self.kill_worker(worker, dice.below(500));
        }
    }

    fn drift(&self, dice: &mut Dice) -> u64 {
        let drift = dice.between(900, 1_100);
        let has_drift = dice.chance(400) && self.faults.has(Fault::Drift);
        if has_drift { drift } else { 1_000 }
    }

    fn habits(&self, dice: &mut Dice) -> Habits {
        let mut habit = |fault: Fault| dice.chance(150) && self.faults.has(fault);
        Habits {
            ignores_cancelled: habit(Fault::IgnoresCancelled),
            reports_twice: habit(Fault::ReportsTwice),
            lies: habit(Fault::Lies),
        }
    }

    /// Two machines from one image: the same id, two processes.
    fn clone_worker(&mut self, dice: &mut Dice) {
        let original = dice.index(self.workers.len());
        let Some(twin) = self.workers.get(original) else { return };
        let own = Dice::of_parts(self.seed, scatter(99), 11);
        let name = (twin.tenant, twin.id.clone());
        let mut clone = Worker::new(name, Arc::clone(&twin.offer), own);
        clone.confirms = twin.confirms;
        clone.is_clone = true;
        self.workers.push(clone);
    }

    pub(crate) fn worker_killed(&mut self) {
        let worker = self.fault_dice.index(self.workers.len() + self.session_workers.len());
        let back_in = self.fault_dice.heavy_tail(800, 4);
        self.fault(Fault::WorkerKill, || format!("worker {worker}, back in {back_in} ms"));
        match worker.checked_sub(self.workers.len()) {
            None => self.kill_worker(worker, back_in),
            Some(worker) => self.kill_session_worker(worker, back_in),
        }
    }

    /// Says what it can do before it asks for anything.
    pub(crate) fn worker_registers(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let (id, offer) = (it.id.clone(), Arc::clone(&it.offer));
        let ask = Ask::Register { worker: id, offer, silence_limits: SilenceLimits::SLOW };
        self.worker_calls(worker, ask, Asked::Register);
    }

    /// Leaves in order, in the middle of its work, and comes back as a new process. Its goodbye
    /// may be late, and then ends what the new process was given.
    pub(crate) fn worker_leaves(&mut self, worker: usize) {
        if !self.has_faults {
            return;
        }
        let ask = Ask::Unregister(self.workers[worker].id.clone());
        self.worker_calls(worker, ask, Asked::Noise(Vec::new()));
        let back_in = self.workers[worker].dice.between(200, 3_000);
        self.kill_worker(worker, back_in);
    }

    pub(crate) fn worker_paused(&mut self) {
        let worker = self.fault_dice.index(self.workers.len() + self.session_workers.len());
        let pause = self.fault_dice.heavy_tail(2_000, 4);
        self.fault(Fault::WorkerPause, || format!("worker {worker} for {pause} ms"));
        let until = self.clock.now + pause;
        match worker.checked_sub(self.workers.len()) {
            None => self.workers[worker].paused_until = until,
            Some(worker) => self.session_workers[worker].paused_until = until,
        }
    }

    /// From here on every worker is honest, and there is one process for each id.
    pub(crate) fn heal_workers(&mut self) {
        for worker in &mut self.session_workers {
            worker.paused_until = self.clock.now.min(worker.paused_until);
        }
        for worker in 0..self.workers.len() {
            let it = &mut self.workers[worker];
            (it.half_open_until, it.drift, it.habits) = (0, 1_000, Habits::default());
            it.paused_until = self.clock.now.min(it.paused_until);
            if it.is_clone {
                // It never comes back: its next start is not planned.
                self.processes += 1;
                let it = &mut self.workers[worker];
                (it.is_alive, it.process) = (false, self.processes);
                it.jobs.clear();
                self.withdraw_asks(worker);
            }
        }
    }

    /// After a verdict, which should be the end of it.
    pub(crate) fn worker_misbehaves(&mut self, worker: usize, report: &Report, verdict: Verdict) {
        let it = &mut self.workers[worker];
        let (fault, is_tempted) = match verdict {
            Verdict::Cancelled(_) => (Fault::IgnoresCancelled, it.habits.ignores_cancelled),
            Verdict::Committed => (Fault::ReportsTwice, it.habits.reports_twice),
            Verdict::Rejected(_) => return,
        };
        if !is_tempted || !it.dice.chance(600) {
            return;
        }
        let same = it.dice.chance(500);
        let again = if same {
            report.clone()
        } else {
            let mut other = report.clone();
            other.key.0 ^= 0xff;
            other
        };
        self.fault(fault, || {
            let words = if same { "the same words" } else { "other words" };
            format!("worker {worker} reports task {} again, {words}", report.lease.task.number())
        });
        let ask = Ask::Report(vec![again.clone()]);
        self.worker_calls(worker, ask, Asked::Noise(vec![again]));
    }

    pub(crate) fn worker_lies(&mut self, worker: usize) {
        if !self.workers[worker].habits.lies {
            return;
        }
        let process = self.workers[worker].process;
        let after = self.workers[worker].dice.between(500, 4_000);
        let timer = WorkerTimer::Lie;
        let event = crate::agenda::Event::Worker { worker, process, timer };
        self.agenda.plan(self.clock.now + after, event);
        let kind = self.workers[worker].dice.below(6);
        let Some(lease) = self.lie_about(worker, kind) else { return };
        self.fault(Fault::Lies, || {
            format!(
                "worker {worker}, kind {kind}: task {} epoch {}",
                lease.task.number(),
                lease.epoch
            )
        });
        let it = &mut self.workers[worker];
        let fate = Fate { takes: 0, fails: false, retryable: true };
        let report = make_report(it, lease, (0, fate), false);
        let id = it.id.clone();
        if kind == 4 {
            let ask = Ask::ReportText(format!("{lease}x"));
            self.worker_calls(worker, ask, Asked::Noise(Vec::new()));
        } else if self.workers[worker].dice.chance(300) {
            let ask = Ask::Heartbeat { worker: id, leases: Renewal::Listed(vec![lease]) };
            self.worker_calls(worker, ask, Asked::Noise(Vec::new()));
        } else {
            let ask = Ask::Report(vec![report.clone()]);
            self.worker_calls(worker, ask, Asked::Noise(vec![report]));
        }
    }

    /// A lease that the liar has no right to.
    fn lie_about(&mut self, worker: usize, kind: u64) -> Option<LeaseId> {
        let (own, tenant) = (self.workers[worker].id.clone(), self.workers[worker].tenant);
        let is_stranger = |other: &&Worker| (other.tenant, &other.id) != (tenant, &own);
        let strangers = self.workers.iter().filter(is_stranger);
        // A lie about the next epoch may come true: then it is this worker's word, and counts. What
        // a step of a run gives must not be a lie, or no interpreter could foresee its end.
        let wishes = strangers.flat_map(|other| &other.jobs).filter(|(_, job)| job.is_wish());
        let foreign: Vec<LeaseId> = wishes.map(|(lease, _)| *lease).collect();
        let lease = *self.workers[worker].dice.pick(&foreign)?;
        let epoch = u32::try_from(self.workers[worker].dice.between(100, 200)).ok()?;
        match kind {
            0 | 4 => Some(lease),
            1 => Some(LeaseId { epoch: if epoch > 150 { 0 } else { epoch }, ..lease }),
            2 => Some(LeaseId { task: TaskId::of(lease.task.shard(), 1 << 30), epoch: 1 }),
            3 => Some(LeaseId { epoch: lease.epoch + 1, ..lease }),
            _ => {
                // A shard that there is not.
                let shard = ShardId::new(lease.task.shard().get() + 7)?;
                Some(LeaseId { task: TaskId::of(shard, lease.task.number()), epoch: 1 })
            }
        }
    }
}
