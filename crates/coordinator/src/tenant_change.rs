//! Every fact about a tenant that belongs to no task and no run: what people and tests of tools
//! said about its queues and workers, and its schedules. `State::apply_tenant` makes them state, live and at recovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{QueueName, ToolName, WorkerId};

use crate::command::{Drain, Pause};
use crate::coordinator::Decision;
use crate::schedule::{ScheduleId, ScheduleProgress, ScheduleRecord};
use crate::state::State;
use crate::worker::drain::{VerifiedTool, VerifiedTools};

/// A fact. The store must keep it, together with the facts of tasks and runs of the same turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantChange {
    /// A person paused a queue, or paused it once more.
    QueuePaused {
        /// Which queue.
        queue: QueueName,
        /// Who paused it, and when; it replaces an earlier pause.
        pause: Pause,
    },
    /// A person lets a paused queue go on.
    QueueResumed {
        /// Which queue.
        queue: QueueName,
    },
    /// A person drained a worker, or drained it once more.
    WorkerDrained {
        /// Which worker.
        worker: WorkerId,
        /// Who drained it, and by when it is to leave; it replaces an earlier drain.
        drain: Drain,
    },
    /// A person lets a drained worker take work again.
    WorkerUndrained {
        /// Which worker.
        worker: WorkerId,
    },
    /// A worker executed a tool that it claims to have.
    ToolVerified {
        /// Which worker.
        worker: WorkerId,
        /// Which of its tools.
        tool: ToolName,
        /// What the tool said; it replaces an earlier word.
        verified: VerifiedTool,
    },
    /// A worker registered anew or left: none of its tools is verified any more.
    ToolsForgotten {
        /// Which worker.
        worker: WorkerId,
    },
    /// A person made a schedule or changed it; the whole of it.
    ScheduleSet(Box<ScheduleRecord>),
    /// A person removed a schedule.
    ScheduleRemoved {
        /// Which schedule.
        schedule: ScheduleId,
    },
    /// A moment of a schedule got its run, which started in the same turn, or passed without one.
    ScheduleFired {
        /// Which schedule.
        schedule: ScheduleId,
        /// How far it has come; its `last` is what happened.
        progress: Arc<ScheduleProgress>,
    },
    /// More moments of a schedule wait for the run before to end.
    ScheduleWaits {
        /// Which schedule.
        schedule: ScheduleId,
        /// How far it has come.
        progress: Arc<ScheduleProgress>,
    },
}

/// What the tenant's facts come to: what the store keeps and what a restart brings back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantSettings {
    /// The paused queues.
    pub pauses: BTreeMap<QueueName, Pause>,
    /// The workers that people drained.
    pub drains: BTreeMap<WorkerId, Drain>,
    /// The tools that workers were seen to have.
    pub verified: VerifiedTools,
    /// The schedules.
    pub schedules: BTreeMap<ScheduleId, ScheduleRecord>,
}

impl TenantSettings {
    /// The facts that lead here.
    fn facts(self) -> impl Iterator<Item = TenantChange> {
        let paused = |(queue, pause)| TenantChange::QueuePaused { queue, pause };
        let drained = |(worker, drain)| TenantChange::WorkerDrained { worker, drain };
        let verified = self.verified.into_iter().flat_map(|(worker, tools)| {
            let fact = move |(tool, verified)| TenantChange::ToolVerified {
                worker: worker.clone(),
                tool,
                verified,
            };
            tools.into_iter().map(fact)
        });
        let people =
            self.pauses.into_iter().map(paused).chain(self.drains.into_iter().map(drained));
        let set = |record| TenantChange::ScheduleSet(Box::new(record));
        people.chain(verified).chain(self.schedules.into_values().map(set))
    }
}

impl State {
    /// Makes a fact true. The only code that writes pauses, people's drains, verified tools and
    /// schedules.
    pub(crate) fn apply_tenant(&mut self, change: &TenantChange) {
        match change {
            TenantChange::QueuePaused { queue, pause } => {
                self.placement.set_pause(queue.clone(), Some(pause.clone()));
            }
            TenantChange::QueueResumed { queue } => self.placement.set_pause(queue.clone(), None),
            TenantChange::WorkerDrained { worker, drain } => {
                self.set_drains(worker, |drains| drains.set_ordered(worker, Some(drain.clone())));
            }
            TenantChange::WorkerUndrained { worker } => {
                self.set_drains(worker, |drains| drains.set_ordered(worker, None));
            }
            TenantChange::ToolVerified { worker, tool, verified } => {
                let own = self.verified.entry(worker.clone()).or_default();
                own.insert(tool.clone(), verified.clone());
            }
            TenantChange::ToolsForgotten { worker } => drop(self.verified.remove(worker)),
            TenantChange::ScheduleSet(record) => self.schedules.set((**record).clone()),
            TenantChange::ScheduleRemoved { schedule } => self.schedules.remove(*schedule),
            TenantChange::ScheduleFired { schedule, progress }
            | TenantChange::ScheduleWaits { schedule, progress } => {
                self.schedules.set_progress(*schedule, progress);
            }
        }
    }

    /// Takes in what the store kept.
    pub(crate) fn restore_settings(&mut self, settings: TenantSettings) {
        for change in settings.facts() {
            self.apply_tenant(&change);
        }
    }
}

impl Decision<'_> {
    /// Records a fact and makes it true.
    pub(crate) fn record_tenant(&mut self, change: TenantChange) {
        self.state.apply_tenant(&change);
        self.step.tenant.push(change);
    }
}
