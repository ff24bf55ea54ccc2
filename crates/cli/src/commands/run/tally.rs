//! How many tasks of a run have ended, found out with few questions.

use std::collections::{BTreeSet, VecDeque};

use model::TaskId;
use protocol::rest::tasks::{State, Task};

use super::pages::Pages;
use crate::context::Context;
use crate::failure::{Failure, Result};

pub(super) const LIVE: [State; 4] =
    [State::Waiting, State::Queued, State::Retrying, State::Running];
pub(super) const UNSUCCESSFUL: [State; 3] = [State::Failed, State::Dead, State::Stopped];

/// Tasks end about in the order of their submission, so that it is enough to look at the oldest
/// that have not ended, however many there are.
const WINDOW: usize = 1_000;

/// A run of many tasks, as far as it is known.
pub(super) struct Tally {
    run: String,
    /// In the order of submission.
    unfinished: VecDeque<TaskId>,
    pub(super) total: usize,
    pub(super) running: usize,
    pub(super) failed: usize,
    pub(super) workers: BTreeSet<String>,
}

impl Tally {
    pub(super) fn new(run: &str, task_ids: &[String]) -> Result<Self> {
        let parsed: std::result::Result<BTreeSet<TaskId>, _> =
            task_ids.iter().map(|id| id.parse()).collect();
        let ids =
            parsed.map_err(|_| Failure::from(anyhow::anyhow!("the server names tasks oddly")))?;
        Ok(Self {
            run: run.into(),
            total: ids.len(),
            unfinished: ids.into_iter().collect(),
            running: 0,
            failed: 0,
            workers: BTreeSet::new(),
        })
    }

    pub(super) fn done(&self) -> usize {
        self.total - self.unfinished.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Any task that has not ended.
    pub(super) fn oldest(&self) -> Option<String> {
        self.unfinished.front().map(ToString::to_string)
    }

    /// Looks again. `true` if so much has ended that another look is worth it at once.
    pub(super) async fn look(&mut self, context: &Context) -> Result<bool> {
        let n_before = self.unfinished.len();
        let n_looked_at = n_before.min(WINDOW);
        let live = self.live(context).await?;
        let mut settled_in_window = 0;
        for _ in 0..n_looked_at {
            let Some(id) = self.unfinished.pop_front() else { break };
            if live.contains(&id) {
                self.unfinished.push_back(id);
            } else {
                settled_in_window += 1;
            }
        }
        // What is still live goes back to the front.
        self.unfinished.rotate_right(n_looked_at - settled_in_window);
        if settled_in_window > 0 {
            self.failed = unsuccessful(context, &self.run).await?.len();
        }
        Ok(settled_in_window == WINDOW)
    }

    /// The live tasks among the oldest that were not known to have ended.
    async fn live(&mut self, context: &Context) -> Result<BTreeSet<TaskId>> {
        let mut pages = Pages::of_run(&self.run, &LIVE);
        // The page begins before the first task that is not looked at.
        if let Some(bound) = self.unfinished.get(WINDOW) {
            pages = pages.before(bound.to_string());
        }
        let first = self.unfinished.front().copied();
        let mut live = BTreeSet::new();
        self.running = 0;
        while let Some(page) = pages.next(context).await? {
            for task in page {
                self.running += usize::from(task.state == State::Running);
                self.workers.extend(task.lease.map(|lease| lease.worker_id));
                live.extend(task.task_id.parse::<TaskId>().ok());
            }
            // Whatever is older has ended.
            let next = pages.cursor().and_then(|cursor| cursor.parse::<TaskId>().ok());
            if next.is_some() && next <= first {
                break;
            }
        }
        Ok(live)
    }
}

/// The tasks that ended without success, in the order of submission.
pub(super) async fn unsuccessful(context: &Context, run: &str) -> Result<Vec<Task>> {
    let mut tasks = Pages::of_run(run, &UNSUCCESSFUL).all(context).await?;
    tasks.reverse();
    Ok(tasks)
}
