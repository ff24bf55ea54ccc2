//! How often a reader looks for more.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{FLOOD_EVENTS, LOOK_COSTS, LOOK_EVERY, LOOKS_AT_ONCE};

/// Lets a reader look at once while little happens, and every now and then while much does: turns
/// come by the thousand in a second, and a write for each would cost more than the turns.
#[derive(Debug)]
pub(super) struct Pace {
    /// When all looks that were taken in advance are paid for.
    paid_at: Instant,
    look_at: Instant,
}

/// What looks in advance may come to.
const CREDIT: Duration = LOOK_COSTS.saturating_mul(LOOKS_AT_ONCE);

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid_at: now, look_at: now }
    }

    /// When the reader may look again.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// The reader has looked, and found so many events.
    pub(super) fn looked(&mut self, now: Instant, n_events: usize) {
        let full = now + CREDIT;
        // In a flood there is no credit: the next look finds as much.
        let paid_at = if n_events > FLOOD_EVENTS { full } else { self.paid_at.max(now) };
        self.paid_at = paid_at + LOOK_COSTS;
        self.look_at = if self.paid_at > full { now + LOOK_EVERY } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_looks_are_at_once_and_many_are_paced() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        for _ in 0..LOOKS_AT_ONCE {
            pace.looked(began, 1);
            assert_eq!(pace.look_at(), began, "at once");
        }
        let (mut now, mut n_looks) = (began, 0);
        while now < began + Duration::from_secs(1) {
            pace.looked(now, 1);
            now = now.max(pace.look_at());
            n_looks += 1;
        }
        let n_paid = Duration::from_secs(1).as_millis() / LOOK_COSTS.as_millis();
        assert!((100..=n_paid + 1).contains(&n_looks), "{n_looks}");
        now += CREDIT + LOOK_EVERY;
        for _ in 0..LOOKS_AT_ONCE {
            pace.looked(now, 1);
            assert_eq!(pace.look_at(), now, "silence gives credit");
        }
    }

    #[test]
    fn a_flood_is_told_now_and_then() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.looked(now, FLOOD_EVENTS + 1);
        assert_eq!(pace.look_at(), now + LOOK_EVERY);
        pace.looked(now + LOOK_EVERY, FLOOD_EVENTS + 1);
        assert_eq!(pace.look_at(), now + LOOK_EVERY * 2);
    }
}
