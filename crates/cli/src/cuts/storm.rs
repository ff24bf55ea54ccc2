//! Faults and kills, spread over the run by how far the tasks are.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::crew::Member;
use super::plan::Planned;
use crate::bench::resident_bytes;
use crate::chaos::Dice;
use crate::lab::Lab;

/// From one look at the tasks to the next.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Whatever happens, tasks come to their end: with no progress for so long, they never will.
const STUCK_AFTER: Duration = Duration::from_secs(90);

/// What is left to happen.
pub(super) struct Storm {
    pub(super) faults: Vec<Planned>,
    pub(super) n_kills: usize,
    pub(super) n_tasks: usize,
    pub(super) dice: Dice,
}

/// What was seen meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) injected: usize,
    pub(super) kills: usize,
    pub(super) resident_bytes_max: u64,
}

impl Storm {
    /// Lets everything happen, and returns when all tasks have come to their end.
    pub(super) async fn rage(mut self, lab: &mut Lab, crew: &[Member]) -> Result<Seen> {
        let mut seen = Seen::default();
        let (mut n_live, mut moved_at) = (self.n_tasks, Instant::now());
        while n_live > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
            let live = usize::try_from(lab.live_tasks().await?).unwrap_or(usize::MAX);
            if live < n_live {
                (n_live, moved_at) = (live, Instant::now());
            }
            ensure!(
                moved_at.elapsed() < STUCK_AFTER,
                "{live} tasks are left, and none has ended for {STUCK_AFTER:?}"
            );
            if let Some(id) = lab.server().id() {
                let bytes = resident_bytes(id).unwrap_or(0);
                seen.resident_bytes_max = seen.resident_bytes_max.max(bytes);
            }
            let n_done = self.n_tasks.saturating_sub(n_live);
            self.inject_due(n_done, crew, &mut seen);
            if seen.kills < due(n_done, self.n_kills, self.n_tasks) {
                self.kill_server(lab).await?;
                seen.kills += 1;
            }
        }
        Ok(seen)
    }

    fn inject_due(&self, n_done: usize, crew: &[Member], seen: &mut Seen) {
        let n_due = due(n_done, self.faults.len(), self.n_tasks);
        for Planned { worker, fault } in &self.faults[seen.injected..n_due] {
            tracing::info!(worker, ?fault, "fault");
            crew[*worker].proxy.inject(*fault);
        }
        seen.injected = n_due;
    }

    async fn kill_server(&mut self, lab: &mut Lab) -> Result<()> {
        lab.server().kill().await?;
        tokio::time::sleep(self.dice.millis(1, 300)).await;
        lab.restart_server(None).await?;
        Ok(())
    }
}

/// How many of `n` things are due when so many tasks are done: the first before any is, the last
/// when nine in ten are, so that it still has its effect.
fn due(n_done: usize, n: usize, n_tasks: usize) -> usize {
    ((n_done + 1) * n).div_ceil((n_tasks * 9 / 10).max(1)).min(n)
}
