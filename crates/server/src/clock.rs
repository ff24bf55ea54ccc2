//! The server's clock: it starts at the wall's time and never runs backwards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;

/// How far a test moved the clocks of this process. `astra` never does.
static MOVED_SECONDS: AtomicU64 = AtomicU64::new(0);

/// Moves the clocks of this process ahead. A shard notices with the next message it gets.
pub fn move_ahead(seconds: u64) {
    MOVED_SECONDS.fetch_add(seconds, Ordering::Relaxed);
}

fn moved() -> Duration {
    Duration::from_secs(MOVED_SECONDS.load(Ordering::Relaxed))
}

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
        self.started_at.after(self.started.elapsed() + moved())
    }

    /// How long it runs.
    pub(crate) fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }

    /// The runtime's instant for a moment of this clock.
    pub(crate) fn instant_of(&self, moment: Timestamp) -> tokio::time::Instant {
        (self.started + moment.since(self.started_at).saturating_sub(moved())).into()
    }
}

/// The time on the wall: who writes `0 3 * * *` means that one, even after a machine has slept.
pub(crate) fn wall_now() -> Timestamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(wall)
}
