//! What is known of a server that is read from for long: whether it is there, and when to ask it
//! again.

use std::time::{Duration, Instant};

use client::ClientError;

use crate::context::{AWAY_MAX, Context};
use crate::failure::{ExitCode, Failure, Result};

/// The server says something at least every 15 s; three misses and it is gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The pause before the next try; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A cut that is over sooner is not worth a word.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// The way to the server.
#[derive(Debug)]
pub(crate) struct Reconnect {
    heard_at: Instant,
    pause: Duration,
    is_away_told: bool,
}

impl Reconnect {
    pub(crate) fn new() -> Self {
        Self { heard_at: Instant::now(), pause: PAUSE, is_away_told: false }
    }

    /// The server speaks; `true` if somebody was told that it is away.
    pub(crate) fn heard(&mut self) -> bool {
        self.heard_at = Instant::now();
        std::mem::take(&mut self.is_away_told)
    }

    /// It gave something new: the next cut is a new one.
    pub(crate) fn reset_pause(&mut self) {
        self.pause = PAUSE;
    }

    /// Lets time pass before the server is asked again.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Decides whether the server is asked again; `true` if it is time to tell that it is away.
    pub(crate) fn tolerate(
        &mut self,
        error: ClientError,
        context: &Context,
        hint: &'static str,
    ) -> Result<bool> {
        if !error.is_passing() {
            return Err(context.explain(error));
        }
        let away = self.heard_at.elapsed();
        if away > AWAY_MAX {
            let endpoint = context.client.endpoint();
            let message = format!("{endpoint} has not answered for {}s", away.as_secs());
            return Err(Failure::new(ExitCode::Unreachable, message, hint));
        }
        Ok(away > TOLD_AFTER && !std::mem::replace(&mut self.is_away_told, true))
    }
}
