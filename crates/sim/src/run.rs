//! Runs a seed and says what came of it; a panic of the coordinator is a broken promise too.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::consequence::Counters;
use crate::oracle::Violation;
use crate::trace::Trace;
use crate::world::{RunConfig, World};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Its seed.
    pub seed: u64,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// How often everything happened.
    pub counters: Counters,
    /// Tasks that lived.
    pub tasks: u64,
    /// Runs of workflows.
    pub runs: u64,
    /// Steps of coordinators.
    pub steps: u64,
    /// What happened.
    pub trace: Trace,
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Assertions of the coordinator are findings, so their words are kept for the report and not
/// thrown at the terminal.
fn catch_words() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_RUNNING.get() {
                LAST_PANIC.with(|last| *last.borrow_mut() = info.to_string());
            } else {
                before(info);
            }
        }));
    });
}

/// What the last assertion said.
pub(crate) fn last_panic() -> String {
    LAST_PANIC.with(|last| last.borrow().clone())
}

/// Runs one seed.
pub fn run(config: &RunConfig) -> RunResult {
    catch_words();
    let mut world = World::new(config.clone());
    IS_RUNNING.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    IS_RUNNING.set(false);
    if ended.is_err() {
        world.notes.broken("an assertion", last_panic);
    }
    RunResult {
        seed: config.seed,
        violation: world.notes.broken,
        counters: world.notes.counters,
        tasks: world.tenants.iter().map(|tenant| tenant.durable.tasks.len() as u64).sum(),
        runs: world.runs.len() as u64,
        steps: world.steps,
        trace: world.trace,
    }
}
