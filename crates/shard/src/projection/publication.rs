//! All that one turn tells outside.

use std::sync::Arc;

use coordinator::{Command, Load, Moment, Question, Renewal, Step};
use model::{Timestamp, WorkerId};

use super::event::Event;
use super::events::Maker;
use super::live_runs::LiveRuns;
use super::log_line::LogLine;
use super::notices::{RunWorkers, WorkerNotice, revoked};
use super::numbers::Numbers;
use super::updates::TaskUpdate;
use crate::sessions::Registration;
use crate::turn::Restored;

/// What a turn made true, for those who follow it and decide nothing.
#[derive(Debug, Default)]
pub struct Publication {
    /// The shard's clock when the turn was closed.
    pub at: Timestamp,
    /// How many facts the turn has.
    pub n_facts: usize,
    /// How much the coordinator had in hand after the turn.
    pub load: Load,
    /// What is counted.
    pub numbers: Numbers,
    /// Workers without a session that registered, or were forgotten (`None`), in order.
    pub members: Vec<(WorkerId, Option<Arc<Registration>>)>,
    /// What workers are told, in order.
    pub notices: Vec<(WorkerId, WorkerNotice)>,
    /// Tasks that moved on, in order; empty when nobody listens.
    pub updates: Vec<TaskUpdate>,
    /// What became of runs, nodes and workers, in order.
    pub events: Vec<Event>,
    /// What stands in the log, in order.
    pub log: Vec<LogLine>,
}

/// The memory of the projections. A restart rebuilds it from what the store holds.
#[derive(Debug, Default)]
pub struct Projections {
    live_runs: LiveRuns,
    run_workers: RunWorkers,
    pub(crate) has_listeners: bool,
}

impl Projections {
    pub(crate) fn restored(restored: &Restored) -> Self {
        Self {
            live_runs: LiveRuns::restored(&restored.tasks, &restored.runs),
            run_workers: RunWorkers::restored(&restored.tasks, &restored.runs),
            has_listeners: false,
        }
    }

    /// Whether a worker shows that it has what it was given: no fact comes of it, but it is told.
    pub fn overhear(&mut self, command: &Command, at: Moment, into: &mut Publication) {
        if let Command::Ask(
            _,
            Question::Heartbeat { worker, leases: Renewal::Listed(leases), .. },
        ) = command
        {
            Maker::new(&mut self.live_runs, at.now, &mut into.events).confirmed(worker, leases);
        }
    }

    /// Takes in one step, and adds what is told of it.
    pub fn observe(&mut self, step: &Step, at: Moment, into: &mut Publication) {
        into.at = at.now;
        into.numbers.observe(&step.changes);
        into.notices.extend(step.changes.iter().filter_map(revoked));
        into.log.extend(step.changes.iter().filter_map(LogLine::of_task));
        into.log.extend(step.tenant.iter().filter_map(LogLine::of_tenant));
        self.run_workers.observe(step, &mut into.notices);
        if self.has_listeners {
            let updates = step.changes.iter().map(|change| TaskUpdate::of(change, at.now));
            into.updates.extend(updates);
        }
        let maker = Maker::new(&mut self.live_runs, at.now, &mut into.events);
        maker.observe(&step.changes, &step.runs);
    }
}
