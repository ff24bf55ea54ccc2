//! Signals to stop, and Ctrl-C while something is followed: once leaves it alone, twice stops it.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{ExitCode, Failure, Result};

/// How long a second one is waited for.
const SECOND_WITHIN: Duration = Duration::from_secs(2);

/// Hears Ctrl-C from the moment it is made.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn new() -> Result<Self> {
        let signal = signal(SignalKind::interrupt());
        signal.map(Self).map_err(|error| {
            Failure::new(ExitCode::Failed, format!("cannot hear Ctrl-C: {error}"), "")
        })
    }

    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// After the first one: whether a second one follows.
    pub(crate) async fn is_repeated(&mut self) -> bool {
        tokio::time::timeout(SECOND_WITHIN, self.next()).await.is_ok()
    }
}

/// Waits for a signal to stop: Ctrl-C or SIGTERM.
pub(crate) async fn told_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
