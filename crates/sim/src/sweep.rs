//! Many seeds on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::consequence::Counters;
use crate::run::{RunResult, run};
use crate::world::RunConfig;

/// One seed of so many is run twice, and must give the same trace.
const DETERMINISM_SAMPLE: u64 = 100;

/// Which seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The seeds, in the order in which they are handed out.
    pub seeds: Vec<u64>,
    /// Wishes in each.
    pub tasks: u64,
    /// Workflows in each.
    pub workflows: u64,
    /// Threads.
    pub threads: usize,
    /// See [`RunConfig::clients_rename`].
    pub clients_rename: bool,
    /// Whether the first failure ends the sweep.
    pub stops_early: bool,
    /// Whether every seed is run twice.
    pub checks_determinism: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct SweepResult {
    /// Runs without a broken promise.
    pub passed: u64,
    /// The others, by seed.
    pub failed: Vec<RunResult>,
    /// Seeds that gave two different traces.
    pub undetermined: Vec<u64>,
    /// How often everything happened.
    pub counters: Counters,
    /// Tasks that lived.
    pub tasks: u64,
    /// Runs of workflows.
    pub runs: u64,
    /// Steps of coordinators.
    pub steps: u64,
    /// How long it took.
    pub took: Duration,
}

impl SweepResult {
    fn add(&mut self, result: RunResult) {
        self.counters.add(&result.counters);
        self.tasks += result.tasks;
        self.runs += result.runs;
        self.steps += result.steps;
        if result.violation.is_some() {
            self.failed.push(result);
        } else {
            self.passed += 1;
        }
    }
}

impl Sweep {
    /// What is run for a seed.
    pub fn config(&self, seed: u64) -> RunConfig {
        let Self { tasks, workflows, clients_rename, .. } = *self;
        RunConfig { workflows, clients_rename, ..RunConfig::of(seed, tasks) }
    }

    /// Runs the seeds. The result does not depend on the number of threads: seeds are handed out
    /// in order, and a run that has begun is finished.
    pub fn run(&self) -> SweepResult {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        let all = Mutex::new(SweepResult::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(&next, &is_over, &all));
            }
        });
        let mut all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.failed.sort_by_key(|result| result.seed);
        all.undetermined.sort_unstable();
        all.took = start.elapsed();
        all
    }

    fn work(&self, next: &AtomicUsize, is_over: &AtomicBool, all: &Mutex<SweepResult>) {
        while !is_over.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(seed) = self.seeds.get(place).copied() else { return };
            let result = run(&self.config(seed));
            let is_sample = self.checks_determinism || seed.is_multiple_of(DETERMINISM_SAMPLE);
            let differs = is_sample && run(&self.config(seed)).trace.hash() != result.trace.hash();
            if result.violation.is_some() && self.stops_early {
                is_over.store(true, Ordering::Relaxed);
            }
            let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.undetermined.extend(differs.then_some(seed));
            all.add(result);
        }
    }
}
