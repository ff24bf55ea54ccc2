//! How it ends: what runs is finished, nothing new is taken, and there is a last moment.

use std::time::Duration;

use tokio::time::Instant;

use super::Link;
use crate::session::attempt::STOP_LIMIT;
use crate::session::desk::DRAINING;
use crate::session::worker::{Order, State, WorkerError};
use crate::worker::Summary;

/// How long verdicts are waited for that follow their confirmed reports.
const VERDICT_PATIENCE: Duration = Duration::from_millis(300);
/// How long the last words may take after the work was stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// ```text
/// Finishing --> Stopping   the deadline has passed
/// Finishing --> Parting    nothing is under way any more
/// Stopping  --> Parting    all work has stopped, or it cannot be stopped
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    /// What runs is finished, until then.
    Finishing { until: Instant },
    /// What still ran was told to stop, and has until then.
    Stopping { until: Instant },
    /// The last words are heard, until then.
    Parting { until: Instant },
    /// There is no time for any of this.
    AtOnce,
}

impl Leaving {
    pub(super) fn next_deadline(&self) -> Instant {
        match self {
            Self::Finishing { until } | Self::Stopping { until } | Self::Parting { until } => {
                *until
            }
            Self::AtOnce => Instant::now(),
        }
    }
}

impl Link {
    /// Without anyone left who could order anything, it ends too.
    pub(super) fn on_order(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Drain(deadline)) if self.leaving.is_none() => {
                let until = Instant::now() + deadline;
                tracing::info!(?deadline, n_running = self.parts.desk.n_running(), "finishing");
                self.leaving = Some(Leaving::Finishing { until });
                self.say_state();
                self.beat();
            }
            Some(Order::Drain(_)) => {}
            Some(Order::Stop) | None => self.leaving = Some(Leaving::AtOnce),
        }
    }

    /// The server wants this worker to finish. It sees to it itself that nothing new comes, and
    /// may think better of it; here only what runs beyond the deadline is given back.
    pub(super) fn on_drain(&mut self, reason: Option<&str>, deadline: Option<Duration>) {
        tracing::info!(reason, ?deadline, "the server asks to finish");
        self.drained_until = deadline.map(|deadline| Instant::now() + deadline);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.leaving.is_some()
    }

    /// Acts on deadlines that have passed.
    pub(super) fn watch_drain(&mut self) {
        let now = Instant::now();
        if self.drained_until.is_some_and(|until| until <= now) {
            self.give_back_all();
            self.drained_until = None;
        }
        let is_clear = self.parts.desk.is_clear() && self.backlog.is_empty();
        let is_confirmed = self.is_confirmed();
        let patience = if is_confirmed { VERDICT_PATIENCE } else { LAST_WORDS };
        self.leaving = match self.leaving {
            Some(Leaving::Finishing { until }) if is_clear && is_confirmed => {
                Some(Leaving::Parting { until: until.min(now + patience) })
            }
            Some(Leaving::Finishing { until }) if until <= now => {
                tracing::warn!(n_running = self.parts.desk.n_running(), "the time is up");
                self.give_back_all();
                Some(Leaving::Stopping { until: now + STOP_LIMIT })
            }
            Some(Leaving::Stopping { until }) if is_clear || until <= now => {
                Some(Leaving::Parting { until: now + patience })
            }
            other => other,
        };
    }

    /// Stops what runs; what has not begun is given back on the spot.
    fn give_back_all(&mut self) {
        for errand in self.parts.desk.give_back_all() {
            self.refuse(&errand, DRAINING, "this worker finishes and takes nothing new");
        }
    }

    fn is_confirmed(&self) -> bool {
        self.unconfirmed.is_empty() && self.unconfirmed_refusals.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        let is_heard = self.is_confirmed() && self.parts.desk.history.n_unjudged() == 0;
        match self.leaving {
            Some(Leaving::AtOnce) => true,
            Some(Leaving::Parting { until }) => is_heard || until <= Instant::now(),
            Some(Leaving::Finishing { .. } | Leaving::Stopping { .. }) => false,
            None => self.refused.is_some(),
        }
    }

    /// Ends what is left, says goodbye and tells how it went.
    pub(super) async fn leave(mut self) -> Result<Summary, WorkerError> {
        // Programs die with the tasks that watch them.
        self.tasks.shutdown().await;
        self.parts.machine.close();
        if let Some(socket) = self.socket.take() {
            socket.close().await;
        }
        self.summary.unheard = u64::try_from(self.unconfirmed.len()).unwrap_or(u64::MAX);
        self.parts.state.send_replace(State::Stopped);
        match self.refused {
            Some(error) => Err(error),
            None => Ok(self.summary),
        }
    }
}
