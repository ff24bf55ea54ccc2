//! Reads events on its own, and comes back after every cut to where it was.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use worker::client::ClientError;
use worker::client::lines::Lines;

use super::frame::{Frame, Frames};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// The server says something at least every 15 s; three misses and it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// So long without the server, and it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);
/// The pause before the next try; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Events on their way to whoever wants them.
const EVENTS_MAX: usize = 256;
/// A cut that is over sooner is not worth a word.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// What was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The stream is open: what happens from here on is told.
    Open,
    /// Something happened.
    Event(Frame),
    /// The server is not there; it is asked again.
    Away,
    /// It is there again.
    Back,
}

/// Where events are read from.
pub(crate) struct EventReader {
    context: Context,
    path: String,
    last: Option<u64>,
    contact: Instant,
    pause: Duration,
    is_away_told: bool,
}

impl EventReader {
    /// Of the events that `query` lets through; from after `last`, if it is given.
    pub(crate) fn new(context: &Context, query: &str, last: Option<u64>) -> Self {
        let mark = if query.is_empty() { "" } else { "?" };
        Self {
            context: context.clone(),
            path: format!("/api/v1/events{mark}{query}"),
            last,
            contact: Instant::now(),
            pause: PAUSE,
            is_away_told: false,
        }
    }

    /// Reads on its own until nobody listens any more; an error is the last that is heard.
    pub(crate) fn spawn(self) -> mpsc::Receiver<Result<Heard>> {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            if let Err(failure) = self.read(&sender).await {
                let _ = sender.send(Err(failure)).await;
            }
        });
        receiver
    }

    async fn read(mut self, sender: &mpsc::Sender<Result<Heard>>) -> Result<()> {
        while !sender.is_closed() {
            let ended = match self.context.client.get_events(&self.path, self.last).await {
                Ok(lines) => self.drain(lines, sender).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                self.endure(error, sender).await?;
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        Ok(())
    }

    async fn drain(
        &mut self,
        mut lines: Lines,
        sender: &mpsc::Sender<Result<Heard>>,
    ) -> std::result::Result<(), ClientError> {
        let mut frames = Frames::default();
        self.contact = Instant::now();
        let greeting =
            if std::mem::take(&mut self.is_away_told) { Heard::Back } else { Heard::Open };
        let _ = sender.send(Ok(greeting)).await;
        while let Some(line) = lines.next(SILENCE_MAX).await? {
            self.contact = Instant::now();
            self.pause = PAUSE;
            let Some(frame) = frames.take(&String::from_utf8_lossy(&line)) else { continue };
            self.last = frame.id.or(self.last);
            if frame.data.is_empty() {
                continue;
            }
            if sender.send(Ok(Heard::Event(frame))).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Decides whether the server is asked again.
    async fn endure(
        &mut self,
        error: ClientError,
        sender: &mpsc::Sender<Result<Heard>>,
    ) -> Result<()> {
        if !error.is_passing() {
            return Err(self.context.explain(error));
        }
        let away = self.contact.elapsed();
        if away > AWAY_MAX {
            let endpoint = self.context.client.endpoint();
            let message = format!("{endpoint} has not answered for {}s", away.as_secs());
            let hint = "look again later";
            return Err(Failure::new(ExitCode::Unreachable, message, hint));
        }
        if away > TOLD_AFTER && !std::mem::replace(&mut self.is_away_told, true) {
            let _ = sender.send(Ok(Heard::Away)).await;
        }
        Ok(())
    }
}
