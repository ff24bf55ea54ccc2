//! How long a worker may be silent, and what its silence means.

use std::time::Duration;

use model::Timestamp;

use crate::effect::WorkerHealth;

/// How often a worker should be heard of, unless it registered with another rhythm.
pub const WORKER_HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// A lost worker that holds nothing is forgotten after this time.
pub const WORKER_FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// When silence becomes worrying: one missed heartbeat, two, three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// So much silence is one missed heartbeat.
    pub warn_after: Duration,
    /// So much is two.
    pub degraded_after: Duration,
    /// So much is three: the worker is taken for lost.
    pub lost_after: Duration,
}

impl Ladder {
    /// A heartbeat every ten seconds, which counts as missed when it is five seconds late.
    pub const STANDARD: Self = Self::of_secs(15, 25, 35);
    /// A heartbeat every thirty seconds, as workers of seed 004 have it; lost after ninety.
    pub const SLOW: Self = Self::of_secs(35, 65, 90);

    const fn of_secs(warn: u64, degraded: u64, lost: u64) -> Self {
        Self {
            warn_after: Duration::from_secs(warn),
            degraded_after: Duration::from_secs(degraded),
            lost_after: Duration::from_secs(lost),
        }
    }

    /// What so long a silence means.
    pub(crate) fn health_after(&self, silence: Duration) -> WorkerHealth {
        match silence {
            _ if silence >= self.lost_after => WorkerHealth::Lost,
            _ if silence >= self.degraded_after => WorkerHealth::Degraded,
            _ if silence >= self.warn_after => WorkerHealth::Warn,
            _ => WorkerHealth::Healthy,
        }
    }

    /// The moment at which a worker that was last heard of at `last_seen` takes the next step
    /// down.
    pub(crate) fn next_step_down(&self, last_seen: Timestamp, health: WorkerHealth) -> Timestamp {
        last_seen.after(match health {
            WorkerHealth::Healthy => self.warn_after,
            WorkerHealth::Warn => self.degraded_after,
            WorkerHealth::Degraded => self.lost_after,
            WorkerHealth::Lost => WORKER_FORGOTTEN_AFTER.max(self.lost_after),
        })
    }
}

impl Default for Ladder {
    fn default() -> Self {
        Self::STANDARD
    }
}
