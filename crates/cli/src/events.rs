//! Events of the server, as they happen: each once, however often the connection is cut.

use client::{ClientError, Lines};
use tokio::sync::mpsc;

use crate::context::Context;
use crate::failure::Result;
use crate::reconnect::{Reconnect, SILENCE_MAX};

/// One event as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where to go on after it.
    pub(crate) id: Option<u64>,
    /// What it is about.
    pub(crate) event: String,
    /// JSON.
    pub(crate) data: String,
}

/// Puts lines together.
#[derive(Debug, Default)]
struct Frames {
    open: Frame,
}

impl Frames {
    /// Takes a line; an empty one ends an event. One without data moves the reader's place on.
    fn take(&mut self, line: &str) -> Option<Frame> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let frame = std::mem::take(&mut self.open);
            return (!frame.data.is_empty() || frame.id.is_some()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.open.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.open.event),
            "data" => {
                if !self.open.data.is_empty() {
                    self.open.data.push('\n');
                }
                self.open.data.push_str(value);
            }
            // Comments keep the line alive, and other fields are not ours.
            _ => {}
        }
        None
    }
}

/// Events on their way to whoever wants them.
const EVENTS_MAX: usize = 256;

/// What was heard.
#[derive(Debug)]
pub(crate) enum StreamEvent {
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
    reconnect: Reconnect,
}

impl EventReader {
    /// Of the events that `query` lets through; from after `last`, if it is given.
    pub(crate) fn new(context: &Context, query: &str, last: Option<u64>) -> Self {
        let mark = if query.is_empty() { "" } else { "?" };
        Self {
            context: context.clone(),
            path: format!("/api/v1/events{mark}{query}"),
            last,
            reconnect: Reconnect::new(),
        }
    }

    /// Reads on its own until nobody listens any more; an error is the last that is heard.
    pub(crate) fn spawn(self) -> mpsc::Receiver<Result<StreamEvent>> {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            if let Err(failure) = self.read(&sender).await {
                let _ = sender.send(Err(failure)).await;
            }
        });
        receiver
    }

    async fn read(mut self, sender: &mpsc::Sender<Result<StreamEvent>>) -> Result<()> {
        while !sender.is_closed() {
            let ended = match self.context.client.get_events(&self.path, self.last).await {
                Ok(lines) => self.drain(lines, sender).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended
                && self.reconnect.tolerate(error, &self.context, "look again later")?
            {
                let _ = sender.send(Ok(StreamEvent::Away)).await;
            }
            self.reconnect.pause().await;
        }
        Ok(())
    }

    async fn drain(
        &mut self,
        mut lines: Lines,
        sender: &mpsc::Sender<Result<StreamEvent>>,
    ) -> std::result::Result<(), ClientError> {
        let mut frames = Frames::default();
        let greeting = if self.reconnect.heard() { StreamEvent::Back } else { StreamEvent::Open };
        let _ = sender.send(Ok(greeting)).await;
        while let Some(line) = lines.next(SILENCE_MAX).await? {
            self.reconnect.heard();
            self.reconnect.reset_pause();
            let Some(frame) = frames.take(&String::from_utf8_lossy(&line)) else { continue };
            self.last = frame.id.or(self.last);
            if frame.data.is_empty() {
                continue;
            }
            if sender.send(Ok(StreamEvent::Event(frame))).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events() {
        let lines = [
            ": heartbeat",
            "",
            ": heartbeat",
            "id: 6",
            "",
            "id: 7",
            "event: run.status",
            "data: {\"a\":",
            "data: 1}",
            "",
            "retry: 5",
            "data:x\r",
            "\r",
        ];
        let mut frames = Frames::default();
        let heard: Vec<_> = lines.into_iter().filter_map(|line| frames.take(line)).collect();
        let first = Frame { id: Some(7), event: "run.status".into(), data: "{\"a\":\n1}".into() };
        let place = Frame { id: Some(6), ..Frame::default() };
        let last = Frame { data: "x".into(), ..Frame::default() };
        assert_eq!(heard, [place, first, last]);
    }
}
