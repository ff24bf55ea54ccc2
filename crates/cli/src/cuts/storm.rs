//! Faults and kills while tasks run. Tasks are submitted as faults happen, so that the run is full
//! of both from its beginning to its end.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use protocol::rest::tasks::{SubmitTasks, SubmittedTasks, Task, TaskPage};
use worker::client::Patience;

use super::crew::Member;
use super::job::Job;
use super::plan::Planned;
use crate::bench::resident_bytes;
use crate::chaos::Dice;
use crate::lab::Lab;
use crate::proxy::Fault;

/// From one look at the tasks to the next.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Whatever happens, tasks come to their end: with no progress for so long, they never will.
const STUCK_AFTER: Duration = Duration::from_secs(90);
/// Tasks that are submitted before the first fault, and never fewer at a time.
const AHEAD: usize = 50;
/// Workers are not left without tasks for longer.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// A worker has so much peace between two faults, in milliseconds.
const PEACE_MS: (u64, u64) = (100, 800);
const PATIENCE: Patience = Patience { total: Duration::from_mins(1) };

/// What is to happen.
pub(super) struct Storm<'a> {
    jobs: &'a [Job],
    executions: &'a Path,
    n_faults: usize,
    n_kills: usize,
    /// What happens to each worker, and when the next of it may.
    queues: Vec<(VecDeque<Fault>, Instant)>,
    dice: Dice,
    seen: Seen,
}

/// What was seen meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    submitted: usize,
    pub(super) injected: usize,
    pub(super) kills: usize,
    /// Tasks that lost too many workers.
    pub(super) requeued: usize,
    pub(super) resident_bytes_max: u64,
}

impl<'a> Storm<'a> {
    pub(super) fn new(
        jobs: &'a [Job],
        executions: &'a Path,
        faults: &[Planned],
        n_kills: usize,
        dice: Dice,
    ) -> Self {
        let n_workers = faults.iter().map(|planned| planned.worker + 1).max().unwrap_or(0);
        let mut queues = vec![(VecDeque::new(), Instant::now()); n_workers];
        for Planned { worker, fault } in faults {
            queues[*worker].0.push_back(*fault);
        }
        let (n_faults, seen) = (faults.len(), Seen::default());
        Self { jobs, executions, n_faults, n_kills, queues, dice, seen }
    }

    /// Lets everything happen, and returns when all tasks have come to their end.
    pub(super) async fn rage(mut self, lab: &mut Lab, crew: &[Member]) -> Result<Seen> {
        let (mut least, mut moved_at) = (usize::MAX, Instant::now());
        let mut busy_at = Instant::now();
        loop {
            if self.submit_due(lab, busy_at.elapsed() >= IDLE_MAX).await? {
                (least, moved_at) = (usize::MAX, Instant::now());
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let live = usize::try_from(lab.live_tasks().await?).unwrap_or(usize::MAX);
            let is_over = live == 0 && self.seen.submitted == self.jobs.len();
            if is_over && !self.requeue_unlucky(lab).await? {
                return Ok(self.seen);
            }
            if live > 0 {
                busy_at = Instant::now();
            }
            if live < least {
                (least, moved_at) = (live, Instant::now());
            }
            ensure!(
                moved_at.elapsed() < STUCK_AFTER,
                "{live} tasks are left, and none has ended for {STUCK_AFTER:?}"
            );
            if let Some(id) = lab.server().id() {
                let bytes = resident_bytes(id).unwrap_or(0);
                self.seen.resident_bytes_max = self.seen.resident_bytes_max.max(bytes);
            }
            self.inject(crew);
            self.kill_if_due(lab).await?;
        }
    }

    /// As large a part of the tasks as of the faults, and some ahead. Idle workers get some more:
    /// a fault may wait for what they say.
    async fn submit_due(&mut self, lab: &Lab, are_idle: bool) -> Result<bool> {
        let part = self.jobs.len() * self.seen.injected / self.n_faults.max(1);
        let is_last = self.seen.injected == self.n_faults;
        let ahead = if are_idle { part.max(self.seen.submitted) + AHEAD } else { part + AHEAD };
        let due = if is_last { self.jobs.len() } else { ahead.min(self.jobs.len()) };
        let batch = &self.jobs[self.seen.submitted..due.max(self.seen.submitted)];
        if batch.is_empty() {
            return Ok(false);
        }
        let tasks: Result<_> = batch.iter().map(|job| job.task(self.executions)).collect();
        let tasks = SubmitTasks { tasks: tasks? };
        let _: SubmittedTasks =
            lab.client.post_patiently("/api/v1/tasks", &tasks, PATIENCE).await?;
        self.seen.submitted += tasks.tasks.len();
        Ok(true)
    }

    /// A task that lost three workers in a row is dead, as it should be. These did not harm their
    /// workers, so they are brought back by hand; whether leases could end at all is for the audit.
    async fn requeue_unlucky(&mut self, lab: &Lab) -> Result<bool> {
        let dead: TaskPage = lab.client.get("/api/v1/tasks?state=DEAD&limit=100").await?;
        for task in &dead.tasks {
            let path = format!("/api/v1/tasks/{}/requeue", task.task_id);
            let _: Task = lab.client.post(&path, &serde_json::json!({})).await?;
        }
        self.seen.requeued += dead.tasks.len();
        Ok(!dead.tasks.is_empty())
    }

    /// The next fault of each worker that has none before it.
    fn inject(&mut self, crew: &[Member]) {
        let now = Instant::now();
        for ((queue, next_at), member) in self.queues.iter_mut().zip(crew) {
            if !member.proxy.is_calm() {
                *next_at = now + self.dice.millis(PEACE_MS.0, PEACE_MS.1);
            } else if *next_at <= now
                && let Some(fault) = queue.pop_front()
            {
                member.proxy.inject(fault);
                self.seen.injected += 1;
            }
        }
    }

    async fn kill_if_due(&mut self, lab: &mut Lab) -> Result<()> {
        // Spread over the run: never before its first part is over.
        let due = self.seen.submitted * (self.n_kills + 1) / self.jobs.len().max(1);
        if self.seen.kills >= due.min(self.n_kills) {
            return Ok(());
        }
        lab.server().kill().await?;
        tokio::time::sleep(self.dice.millis(1, 300)).await;
        lab.restart_server(None).await?;
        self.seen.kills += 1;
        Ok(())
    }
}
