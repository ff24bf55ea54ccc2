//! How it ends: what runs is finished, nothing new is taken, and there is a last moment (seed 004
//! section 8).

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::connection::request;
use super::execution::STOP_LIMIT;
use super::greeting::Dialect;
use super::worker::{Floor, Order};
use crate::worker::Summary;

/// How long the last word may take.
const LAST_WORD: Duration = Duration::from_secs(2);

/// ```text
/// Finishing --> Stopping   the deadline has passed
/// Finishing --> (gone)     nothing is under way any more
/// Stopping  --> (gone)     all work has stopped, or it cannot be stopped
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    /// What runs is finished, until then.
    Finishing { until: Instant },
    /// What still ran was told to stop, and has until then.
    Stopping { until: Instant },
    /// There is no time for any of this.
    AtOnce,
}

impl Leaving {
    /// Waits for the moment at which something has to happen.
    pub(super) async fn deadline(leaving: Option<Self>) {
        match leaving {
            Some(Self::Finishing { until } | Self::Stopping { until }) => sleep_until(until).await,
            Some(Self::AtOnce) => {}
            None => std::future::pending().await,
        }
    }
}

impl Floor {
    /// Without anyone left who could order anything, it ends too.
    pub(super) fn on_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Drain(deadline)) if self.leaving.is_none() => {
                tracing::info!(?deadline, n_running = self.jobs.len(), "finishing");
                self.stop_fetching.cancel();
                self.leaving = Some(Leaving::Finishing { until: Instant::now() + deadline });
            }
            Some(Order::Drain(_)) => {}
            Some(Order::Stop) | None => {
                self.stop_fetching.cancel();
                self.leaving = Some(Leaving::AtOnce);
            }
        }
    }

    /// Nothing new comes. A connection that only popped is closed, so that the server takes back
    /// what nobody read.
    pub(super) fn on_fetch_over(&mut self) {
        self.fetched = None;
        if self.dialect() == Some(Dialect::Registered) {
            self.main_keeper.abort();
        }
    }

    pub(super) fn on_deadline(&mut self) {
        match self.leaving {
            Some(Leaving::Finishing { .. }) => {
                let jobs = self.around.tally.active().join(", ");
                tracing::warn!(jobs, "the time is up for jobs that are not finished");
                self.around.leave.cancel();
                self.leaving = Some(Leaving::Stopping { until: Instant::now() + STOP_LIMIT });
            }
            Some(Leaving::Stopping { .. }) => self.leaving = Some(Leaving::AtOnce),
            Some(Leaving::AtOnce) | None => {}
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let is_clear = self.fetched.is_none() && self.jobs.is_empty();
        match self.leaving {
            Some(Leaving::AtOnce) => true,
            Some(Leaving::Finishing { .. } | Leaving::Stopping { .. }) => is_clear,
            None => false,
        }
    }

    /// Ends what is left, says goodbye and tells how it went.
    pub(super) async fn part(mut self) -> Summary {
        // Programs die with the tasks that watch them.
        self.jobs.shutdown().await;
        // A server that knows no workers knows no goodbye.
        if self.dialect() == Some(Dialect::Registered) {
            let words = request(&["WORKER.UNREGISTER", self.around.worker_id.as_str()]);
            let said = timeout(LAST_WORD, self.around.side.ask(words)).await;
            if !matches!(said, Ok(Ok(_))) {
                tracing::warn!("nobody heard the goodbye; what was held comes back by itself");
            }
        }
        self.summary
    }

    fn dialect(&self) -> Option<Dialect> {
        self.around.main.terms().borrow().map(|terms| terms.dialect)
    }
}
