//! The clock of a session: it starts at the time of day and then only ever runs forward.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use tokio::time::Instant;

/// Moments of the machine and of the runtime, side by side. Who sets the machine's clock does not
/// move deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    wall: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp::default().after(since);
        Self { began: Instant::now(), wall }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall.after(self.began.elapsed())
    }

    /// When the runtime's clock has reached a moment. Never earlier, or a timer would spin.
    pub(crate) fn instant(&self, moment: Timestamp) -> Instant {
        self.began + moment.since(self.wall) + Duration::from_millis(1)
    }
}
