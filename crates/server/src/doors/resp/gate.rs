//! Who tries keys too often has to wait.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Failed tries of one address within [`WINDOW`]; then it has to wait.
pub(crate) const AUTH_FAILURES_MAX: u32 = 5;
/// The span in which failures are counted.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// The first wait; it doubles with every further failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// Addresses that are remembered; then the one that failed longest ago is forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// What is known of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since: Instant,
    wait_until: Instant,
}

/// Failed tries, by address; those of a Unix socket count as one address.
#[derive(Default)]
pub(crate) struct Attempts {
    by_address: Mutex<BTreeMap<Option<IpAddr>, Failures>>,
}

impl Attempts {
    /// How long an address still has to wait before its next try is looked at.
    pub(super) fn wait_of(&self, address: Option<IpAddr>) -> Option<Duration> {
        let by_address = self.by_address.lock();
        let wait = by_address.get(&address)?.wait_until.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// A try failed.
    pub(super) fn failed(&self, address: Option<IpAddr>) {
        let now = Instant::now();
        let mut by_address = self.by_address.lock();
        if by_address.len() >= ADDRESSES_MAX && !by_address.contains_key(&address) {
            let oldest = by_address.iter().min_by_key(|(_, failures)| failures.since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                by_address.remove(&oldest);
            }
        }
        let fresh = Failures { count: 0, since: now, wait_until: now };
        let failures = by_address.entry(address).or_insert(fresh);
        if now.duration_since(failures.since) > WINDOW && now >= failures.wait_until {
            *failures = fresh;
        }
        failures.count += 1;
        if let Some(beyond) = failures.count.checked_sub(AUTH_FAILURES_MAX) {
            let wait = WAIT_FIRST.saturating_mul(1 << beyond.min(16)).min(WAIT_MAX);
            failures.wait_until = now + wait;
        }
    }

    /// A try succeeded: earlier ones were typing errors.
    pub(super) fn succeeded(&self, address: Option<IpAddr>) {
        self.by_address.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_failures_make_an_address_wait_and_others_not() {
        let (attempts, address) = (Attempts::default(), Some(IpAddr::from([10, 0, 0, 1])));
        for _ in 0..AUTH_FAILURES_MAX {
            assert_eq!(attempts.wait_of(address), None);
            attempts.failed(address);
        }
        assert_eq!(attempts.wait_of(address), Some(WAIT_FIRST));
        assert_eq!(attempts.wait_of(None), None);
        tokio::time::advance(WAIT_FIRST).await;
        assert_eq!(attempts.wait_of(address), None);
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), Some(2 * WAIT_FIRST), "the wait grows");
        for _ in 0..20 {
            attempts.failed(address);
        }
        assert_eq!(attempts.wait_of(address), Some(WAIT_MAX));
        tokio::time::advance(WAIT_MAX + WINDOW).await;
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), None, "what is long ago is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_clears_an_address() {
        let (attempts, address) = (Attempts::default(), Some(IpAddr::from([10, 0, 0, 1])));
        for _ in 0..AUTH_FAILURES_MAX - 1 {
            attempts.failed(address);
        }
        attempts.succeeded(address);
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), None);
    }

    #[test]
    fn memory_of_addresses_is_bounded() {
        let attempts = Attempts::default();
        for number in 0..u32::try_from(ADDRESSES_MAX).expect("small") + 10 {
            attempts.failed(Some(IpAddr::from(number.to_be_bytes())));
        }
        assert_eq!(attempts.by_address.lock().len(), ADDRESSES_MAX);
    }
}
