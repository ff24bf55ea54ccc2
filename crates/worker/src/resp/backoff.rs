//! How long a worker waits before it connects again (seed 004 section 5.1).

use std::time::Duration;

use uuid::Uuid;

use super::pace::Pace;

/// Counts failures in a row: 1 s, 2 s, 4 s and so on up to a minute.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(pace: &Pace) -> Self {
        Self { first: pace.reconnect_first, longest: pace.reconnect_max, failures: 0 }
    }

    /// A connection failed, or ended before it was of use.
    pub(super) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// An answer came.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The wait before the next try; nothing before the first.
    pub(super) fn delay(&self) -> Duration {
        // The clock and the process are in it, so that workers that lost the same server do not
        // come back in step.
        self.jittered(Uuid::new_v4().as_u64_pair().0)
    }

    /// From half of the whole wait to all of it.
    fn jittered(&self, dice: u64) -> Duration {
        let half = self.limit() / 2;
        let millis = u64::try_from(half.as_millis()).unwrap_or(u64::MAX - 1);
        half + Duration::from_millis(dice % (millis + 1))
    }

    fn limit(&self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32 << doublings.min(16);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_are_spread() {
        let mut backoff = Backoff::new(&Pace::default());
        assert_eq!(backoff.delay(), Duration::ZERO, "the first try does not wait");
        let mut limits = Vec::new();
        for dice in 0..9 {
            backoff.failed();
            let limit = backoff.limit();
            assert!((limit / 2..=limit).contains(&backoff.jittered(dice * 997)));
            limits.push(limit.as_secs());
        }
        assert_eq!(limits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_ne!(backoff.jittered(1), backoff.jittered(2));
        backoff.succeeded();
        assert_eq!(backoff.delay(), Duration::ZERO);
    }
}
