//! How workers leave: what runs is finished, then stopped, and nothing new is taken.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Orders that wait; nobody gives more than two.
pub(crate) const ORDERS_MAX: usize = 4;
/// How long work that was told to stop may take to do so in order; then it is dropped. Longer
/// than the grace of a program.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(15);

/// What a worker can be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Finish within this time, then leave.
    Drain(Duration),
    /// Leave at once.
    Stop,
}

/// ```text
/// Working   --> Finishing  it was told to drain
/// Finishing --> Stopping   the deadline has passed
/// Finishing --> Parting    nothing is under way any more
/// Stopping  --> Parting    all work has stopped, or it cannot be stopped
/// any       --> AtOnce     it was told to stop
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drain {
    /// It takes work.
    Working,
    /// What runs is finished, until then.
    Finishing { until: Instant },
    /// What still ran was told to stop, and has until then.
    Stopping { until: Instant },
    /// The last words are heard, until then.
    Parting { until: Instant },
    /// There is no time for any of this.
    AtOnce,
}

impl Drain {
    /// Gives the time that is left if the worker begins to finish. Without anyone left who could
    /// order anything, it ends too.
    pub(crate) fn on_order(&mut self, order: Option<Order>) -> Option<Duration> {
        match order {
            Some(Order::Drain(deadline)) if matches!(self, Self::Working) => {
                *self = Self::Finishing { until: Instant::now() + deadline };
                Some(deadline)
            }
            Some(Order::Drain(_)) => None,
            Some(Order::Stop) | None => {
                *self = Self::AtOnce;
                None
            }
        }
    }

    /// When something has to happen.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Working => None,
            Self::Finishing { until } | Self::Stopping { until } | Self::Parting { until } => {
                Some(*until)
            }
            Self::AtOnce => Some(Instant::now()),
        }
    }

    /// Waits for that moment.
    pub(crate) async fn deadline(self) {
        match self.next_deadline() {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}
