//! After the faults: everything that was accepted comes to its end within a bound that follows
//! from its spec.

use std::time::Duration;

use coordinator::{Command, Effect, Moment, Question, Ticket};
use model::TaskId;

use crate::oracle::{Place, TaskModel};
use crate::server::ShardAt;
use crate::world::{World, tenant_of};

/// Room for restarts, calls that wait for a dead asker, and queues.
const SLACK: Duration = Duration::from_mins(1);
/// How long a run may take once the faults are over.
const RUN_MAX: Duration = Duration::from_mins(5);
/// The longest that an honest worker works on a task once the faults are over.
const WORK_MAX: Duration = Duration::from_millis(500);

impl World {
    /// By when the last task must be settled.
    pub(crate) fn liveness_bound(&self) -> u64 {
        let mut longest_wait = Duration::ZERO;
        let mut work = SLACK;
        for tenant in &self.tenants {
            let now = self.server_now(tenant.front);
            for task in tenant.durable.tasks.values() {
                match task.place {
                    Place::Settled(_) => continue,
                    Place::Waiting { until, .. } | Place::Blocked { until } => {
                        longest_wait = longest_wait.max(until.since(now));
                    }
                    Place::Ready | Place::Leased | Place::Own { .. } => {}
                }
                // A task may lose as many workers as it takes to call it poison, and each loss
                // costs a term; a queue or a concurrency key may put all tasks in a row.
                work += WORK_MAX + (task.spec.lease_ttl + task.spec.retry.backoff_max) * 4;
            }
        }
        // The tasks of a run come one after another.
        work += RUN_MAX * u32::try_from(self.runs.live().count()).unwrap_or(u32::MAX);
        u64::try_from((longest_wait + work).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_all_done(&self) -> bool {
        let is_settled = |place: Place| matches!(place, Place::Settled(_));
        self.submitters.iter().all(crate::submitter::Submitter::is_content)
            && self.all_tasks().all(|(_, task)| is_settled(task.place))
            && self.runs.live().next().is_none()
            && !self.session_workers.iter().any(|worker| worker.is_alive && worker.is_reporting())
            && !self.workers.iter().any(|worker| worker.is_alive && worker.is_reporting())
    }

    fn all_tasks(&self) -> impl Iterator<Item = (&TaskId, &TaskModel)> {
        self.tenants.iter().flat_map(|tenant| &tenant.durable.tasks)
    }

    /// Says what stands still, and why by the coordinator's own word.
    pub(crate) fn report_stuck(&mut self) {
        let stuck = self.all_tasks().find(|(_, task)| !matches!(task.place, Place::Settled(_)));
        let Some((id, task)) = stuck.map(|(id, task)| (*id, task.clone())) else {
            if let Some(run) = self.runs.live().next() {
                return self.notes.broken("P5", || format!("run {run} does not end"));
            }
            return self.notes.broken("P3", || "a client waits for an answer for ever".into());
        };
        let why = self.explain(id);
        let workers: Vec<String> = self
            .workers
            .iter()
            .map(|worker| {
                format!("{} alive {} jobs {}", worker.id, worker.is_alive, worker.jobs.len())
            })
            .collect();
        self.notes.broken("P5", || {
            let number = id.number();
            format!("task {number} is not settled in time: {task:?}; explained: {why}; workers: {workers:?}")
        });
    }

    fn explain(&mut self, task: TaskId) -> String {
        let tenant = tenant_of(task);
        let at = ShardAt { server: self.tenants[tenant].front, tenant };
        let now = self.server_now(at.server);
        let moment = Moment { now, wall: now, entropy: 0 };
        let Some(live) = &mut self.served(at).live else { return "no coordinator".into() };
        let ticket = Ticket(u64::MAX);
        let step = live
            .shard
            .coordinator_mut()
            .handle(moment, Command::Ask(ticket, Question::Explain { task }));
        let answers = step.effects.into_iter().filter_map(|effect| match effect {
            Effect::Answer { answer, .. } => Some(format!("{answer:?}")),
            Effect::Load { .. } | Effect::Prepare { .. } => None,
        });
        answers.collect()
    }
}
