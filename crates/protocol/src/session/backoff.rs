//! How long a worker waits before it connects again.

use std::time::Duration;

use model::Rng;

/// The longest wait after the first failure.
pub const RECONNECT_DELAY_BASE: Duration = Duration::from_secs(1);

/// The longest wait after any number of failures.
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(30);

/// A session shorter than this counts as one more failure, unless work got through: a peer that
/// accepts and drops at once must not be asked a hundred times a second, and a worker whose network
/// fails now and then must be back before its leases end.
pub const USEFUL_SESSION_MIN: Duration = Duration::from_secs(10);

/// Counts failures in a row; the waits are fully jittered, so that a thousand workers that lost
/// the same server do not come back in step.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure, at least what the server asked for.
    pub(crate) fn next_delay(&mut self, rng: &mut Rng, asked: Option<Duration>) -> Duration {
        let limit = self.limit();
        self.failures = self.failures.saturating_add(1);
        let jittered = rng.up_to(limit);
        // What the server asks for is spread too: it asks all its workers the same.
        asked.map_or(jittered, |asked| asked.min(RECONNECT_DELAY_MAX) + jittered)
    }

    /// The longest that the next wait can be, if the server asks for nothing.
    pub fn limit(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures.min(16)).unwrap_or(u32::MAX);
        RECONNECT_DELAY_BASE.saturating_mul(factor).min(RECONNECT_DELAY_MAX)
    }

    /// A connection ended that was ready for so long; business frames got through or did not.
    pub(crate) fn session_lasted(&mut self, ready_for: Duration, had_business: bool) {
        if had_business || ready_for >= USEFUL_SESSION_MIN {
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_limit() {
        let mut backoff = Backoff::default();
        let mut rng = Rng::new(1);
        let mut limits = Vec::new();
        for _ in 0..7 {
            let limit = backoff.limit();
            assert!(backoff.next_delay(&mut rng, None) <= limit);
            limits.push(limit.as_secs());
        }
        assert_eq!(limits, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn only_a_useful_session_forgets_the_failures() {
        let mut backoff = Backoff { failures: 5 };
        let too_short = USEFUL_SESSION_MIN.saturating_sub(Duration::from_millis(1));
        backoff.session_lasted(too_short, false);
        assert_eq!(backoff.limit(), RECONNECT_DELAY_MAX);
        backoff.session_lasted(USEFUL_SESSION_MIN, false);
        assert_eq!(backoff.limit(), RECONNECT_DELAY_BASE);
        let mut backoff = Backoff { failures: 5 };
        backoff.session_lasted(Duration::ZERO, true);
        assert_eq!(backoff.limit(), RECONNECT_DELAY_BASE);
    }

    #[test]
    fn what_the_server_asks_for_is_waited_at_least() {
        let mut rng = Rng::new(1);
        let asked = Duration::from_secs(7);
        assert!(Backoff::default().next_delay(&mut rng, Some(asked)) >= asked);
    }
}
