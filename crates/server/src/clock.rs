//! The server's clock: it starts at the wall's time and never runs backwards.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;

/// Wall time at the start plus the monotonic time since: a stepped wall clock (NTP, a resumed
/// machine) can neither end a lease early nor revive one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), started_at: wall_now() }
    }

    /// The moment.
    pub fn now(&self) -> Timestamp {
        self.started_at.after(self.started.elapsed())
    }

    /// How long it runs.
    pub(crate) fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }

    /// The runtime's instant for a moment of this clock.
    pub(crate) fn instant_of(&self, moment: Timestamp) -> tokio::time::Instant {
        (self.started + moment.since(self.started_at)).into()
    }
}

/// The time on the wall: who writes `0 3 * * *` means that one, even after a machine has slept.
pub(crate) fn wall_now() -> Timestamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(wall)
}
