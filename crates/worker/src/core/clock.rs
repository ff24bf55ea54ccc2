//! The time of the machine, and deadlines that do not move with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use tokio::time::Instant;

/// The moment by the machine's clock.
pub(crate) fn now() -> Timestamp {
    Timestamp::default().after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Moments of the machine and of the runtime, side by side. Setting the machine's clock does
/// not move deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    wall: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), wall: now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall.after(self.began.elapsed())
    }

    /// When the runtime's clock has reached a moment. Never earlier, or a timer would spin.
    pub(crate) fn instant(&self, moment: Timestamp) -> Instant {
        self.began + moment.since(self.wall) + Duration::from_millis(1)
    }
}
