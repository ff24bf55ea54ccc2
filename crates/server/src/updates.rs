//! Who wants to hear that tasks moved on, hears it here, once it is durable.

use std::sync::OnceLock;

use shard::projection::TaskUpdate;
use tokio::sync::broadcast;

/// Limit: updates that a listener may be behind; one that falls back further is cut off.
const UPDATES_BEHIND_MAX: usize = 4_096;

/// The listeners of one tenant.
#[derive(Default)]
pub(crate) struct Updates {
    /// Made for the first listener: it is large, and most tenants have none.
    listeners: OnceLock<broadcast::Sender<TaskUpdate>>,
}

impl Updates {
    /// Hears of every task from here on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<TaskUpdate> {
        self.listeners.get_or_init(|| broadcast::channel(UPDATES_BEHIND_MAX).0).subscribe()
    }

    /// Whether anybody listens; if not, nobody needs to put updates together.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.get().is_some_and(|listeners| listeners.receiver_count() > 0)
    }

    /// Tells everyone who listens.
    pub(crate) fn tell(&self, updates: Vec<TaskUpdate>) {
        let Some(listeners) = self.listeners.get() else { return };
        for update in updates {
            // Nobody may be left; then nobody missed it.
            let _ = listeners.send(update);
        }
    }
}
