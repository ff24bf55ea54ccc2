//! Ctrl-C while a run is followed: once leaves it alone, twice stops it.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::stop;
use super::voice::Voice;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// How long a second one is waited for.
const SECOND_WITHIN: Duration = Duration::from_secs(2);

/// Hears Ctrl-C from the moment it is made.
pub(super) struct Interrupts(Signal);

impl Interrupts {
    pub(super) fn new() -> Result<Self> {
        let signal = signal(SignalKind::interrupt());
        signal.map(Self).map_err(|error| {
            Failure::new(ExitCode::Failed, format!("cannot hear Ctrl-C: {error}"), "")
        })
    }

    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// After the first one.
    pub(super) async fn leave(
        &mut self,
        run: &str,
        voice: Voice,
        context: &Context,
    ) -> Result<ExitCode> {
        voice.break_line();
        voice.note(format!(
            "left run {run}, which goes on; follow it with `astra run follow {run}`, stop it with \
             `astra run stop {run}` or Ctrl-C again"
        ));
        tokio::select! {
            () = self.next() => {
                let stopped = stop::all(context, run).await?;
                voice.note(format!("■ run {run} was stopped ({})", stopped.in_words()));
            }
            () = tokio::time::sleep(SECOND_WITHIN) => {}
        }
        Ok(ExitCode::Interrupted)
    }
}
