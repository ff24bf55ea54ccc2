//! Reads events on its own, and comes back after every cut to where it was.

use tokio::sync::mpsc;
use worker::client::ClientError;
use worker::client::lines::Lines;

use super::frame::{Frame, Frames};
use crate::contact::{Contact, SILENCE_MAX};
use crate::context::Context;
use crate::failure::Result;

/// Events on their way to whoever wants them.
const EVENTS_MAX: usize = 256;

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
    contact: Contact,
}

impl EventReader {
    /// Of the events that `query` lets through; from after `last`, if it is given.
    pub(crate) fn new(context: &Context, query: &str, last: Option<u64>) -> Self {
        let mark = if query.is_empty() { "" } else { "?" };
        Self {
            context: context.clone(),
            path: format!("/api/v1/events{mark}{query}"),
            last,
            contact: Contact::new(),
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
            if let Err(error) = ended
                && self.contact.endure(error, &self.context, "look again later")?
            {
                let _ = sender.send(Ok(Heard::Away)).await;
            }
            self.contact.pause().await;
        }
        Ok(())
    }

    async fn drain(
        &mut self,
        mut lines: Lines,
        sender: &mpsc::Sender<Result<Heard>>,
    ) -> std::result::Result<(), ClientError> {
        let mut frames = Frames::default();
        let greeting = if self.contact.heard() { Heard::Back } else { Heard::Open };
        let _ = sender.send(Ok(greeting)).await;
        while let Some(line) = lines.next(SILENCE_MAX).await? {
            self.contact.heard();
            self.contact.got_on();
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
}
