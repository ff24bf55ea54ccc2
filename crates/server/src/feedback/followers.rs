//! Who waits for more of a log.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use model::TaskId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The hub has stopped: nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the feedback hub has stopped")]
pub struct HubStopped;

/// All who wait, by task. There is an entry only while somebody waits.
#[derive(Debug, Default)]
pub(super) struct Followers {
    by_task: Mutex<HashMap<TaskId, watch::Sender<Seen>, RandomState>>,
}

/// What those who wait are told: not the news, only that there are some.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_settled: bool,
}

/// Waits for more of one log. It may miss how often there was more, never that there was.
#[derive(Debug)]
pub struct Follower {
    task: TaskId,
    seen: watch::Receiver<Seen>,
    followers: Arc<Followers>,
}

impl Followers {
    pub(super) fn follow(self: &Arc<Self>, task: TaskId) -> Follower {
        let mut by_task = self.by_task.lock();
        let sender = by_task.entry(task).or_insert_with(|| watch::Sender::new(Seen::default()));
        Follower { task, seen: sender.subscribe(), followers: Arc::clone(self) }
    }

    /// These logs have more.
    pub(super) fn wake(&self, tasks: impl Iterator<Item = TaskId>) {
        let by_task = self.by_task.lock();
        if by_task.is_empty() {
            return;
        }
        for sender in tasks.filter_map(|task| by_task.get(&task)) {
            sender.send_modify(|_| {});
        }
    }

    /// Nothing more is expected. Who comes later starts anew: the task may have been requeued.
    pub(super) fn settle(&self, task: TaskId) {
        if let Some(sender) = self.by_task.lock().remove(&task) {
            sender.send_modify(|seen| seen.is_settled = true);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self, task: TaskId) -> usize {
        self.by_task.lock().get(&task).map_or(0, watch::Sender::receiver_count)
    }

    /// Nothing more will come to anyone.
    pub(super) fn stop(&self) {
        self.by_task.lock().clear();
    }
}

impl Follower {
    /// Waits until there may be more, or until nothing more is expected. May be dropped and called
    /// again.
    pub async fn changed(&mut self) -> Result<(), HubStopped> {
        let changed = self.seen.changed().await;
        // Once a task is settled, its followers are let go: their end is not the hub's.
        if changed.is_err() && !self.is_settled() { Err(HubStopped) } else { Ok(()) }
    }

    /// Whether nothing more is expected. What came before can be read by now.
    pub fn is_settled(&self) -> bool {
        self.seen.borrow().is_settled
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut by_task = self.followers.by_task.lock();
        // This one counts as a receiver until it is gone, which is after this.
        if by_task.get(&self.task).is_some_and(|sender| sender.receiver_count() <= 1) {
            by_task.remove(&self.task);
        }
    }
}
