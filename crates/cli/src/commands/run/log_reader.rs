//! The output of a task, once each byte, however often the way to the server is cut.

use protocol::rest::logs::LogLine;
use tokio::sync::mpsc;
use worker::client::ClientError;
use worker::client::lines::Lines;

use crate::contact::{Contact, SILENCE_MAX};
use crate::context::Context;
use crate::failure::Result;

/// Lines on their way to whoever writes them.
const LINES_MAX: usize = 64;

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// Output, or a gap in it.
    Line(LogLine),
    /// The server is not there; it is asked again.
    Away,
    /// It is there again.
    Back,
    /// Nothing more will come.
    End,
}

/// Where a task's output is read from.
pub(super) struct LogReader {
    context: Context,
    task_id: String,
    offset: u64,
    follows: bool,
    contact: Contact,
}

impl LogReader {
    pub(super) fn new(context: &Context, task_id: &str, offset: u64, follows: bool) -> Self {
        Self {
            context: context.clone(),
            task_id: task_id.into(),
            offset,
            follows,
            contact: Contact::new(),
        }
    }

    /// Reads on its own until the end; whoever listens may come and go.
    pub(super) fn spawn(self) -> mpsc::Receiver<Result<Heard>> {
        let (sender, receiver) = mpsc::channel(LINES_MAX);
        tokio::spawn(async move {
            let last = self.read(&sender).await;
            // Nobody listens any more, or it is told.
            let _ = sender.send(last).await;
        });
        receiver
    }

    async fn read(mut self, sender: &mpsc::Sender<Result<Heard>>) -> Result<Heard> {
        loop {
            let error = match self.open().await {
                Ok(lines) => match self.drain(lines, sender).await {
                    Ok(true) => return Ok(Heard::End),
                    // The server stops, or knows less than we do: it needs a moment.
                    Ok(false) => None,
                    Err(error) => Some(error),
                },
                Err(error) => Some(error),
            };
            if sender.is_closed() {
                return Ok(Heard::End);
            }
            let hint = "the task may go on; look again later";
            if let Some(error) = error
                && self.contact.endure(error, &self.context, hint)?
            {
                let _ = sender.send(Ok(Heard::Away)).await;
            }
            self.contact.pause().await;
        }
    }

    async fn open(&self) -> std::result::Result<Lines, ClientError> {
        let follow = u8::from(self.follows);
        let (id, offset) = (&self.task_id, self.offset);
        let path = format!("/api/v1/tasks/{id}/log?follow={follow}&offset={offset}");
        self.context.client.get_lines(&path).await
    }

    /// Whether the log is complete. Whoever does not follow takes what there is.
    async fn drain(
        &mut self,
        mut lines: Lines,
        sender: &mpsc::Sender<Result<Heard>>,
    ) -> std::result::Result<bool, ClientError> {
        while let Some(line) = lines.next(SILENCE_MAX).await? {
            if self.contact.heard() {
                let _ = sender.send(Ok(Heard::Back)).await;
            }
            if line.is_empty() {
                continue;
            }
            // A line that is none comes from no AstraFlow; asking again is as good as anything.
            let Ok(line) = serde_json::from_slice::<LogLine>(&line) else { return Ok(false) };
            if let Some(is_settled) = line.end {
                return Ok(is_settled || !self.follows);
            }
            let next_offset = line.next_offset;
            let Some(fresh) = fresh_part(line, self.offset) else { continue };
            if sender.send(Ok(Heard::Line(fresh))).await.is_err() {
                return Ok(true);
            }
            self.offset = next_offset;
            self.contact.got_on();
        }
        Ok(false)
    }
}

/// Where a log ends right now.
pub(super) async fn end_of(context: &Context, task_id: &str) -> Result<u64> {
    // Beyond any end there is the last line alone.
    let path = format!("/api/v1/tasks/{task_id}/log?offset={}", i64::MAX);
    let mut lines = context.ask(context.client.get_lines(&path)).await?;
    let mut end = 0;
    while let Some(line) = context.ask(lines.next(SILENCE_MAX)).await? {
        if let Ok(line) = serde_json::from_slice::<LogLine>(&line) {
            end = line.next_offset;
        }
    }
    Ok(end)
}

/// The part of a line that was not heard yet.
fn fresh_part(mut line: LogLine, offset: u64) -> Option<LogLine> {
    if line.next_offset <= offset {
        return None;
    }
    let begin = line.offset.unwrap_or(offset);
    if begin >= offset {
        return Some(line);
    }
    let n_heard = offset - begin;
    line.offset = Some(offset);
    line.dropped = line.dropped.map(|dropped| dropped.saturating_sub(n_heard));
    if line.text.is_some() || line.data_base64.is_some() {
        let bytes = super::voice::bytes_of(&line);
        let rest = bytes.get(usize::try_from(n_heard).ok()?..)?.to_vec();
        super::voice::put_bytes(&mut line, rest);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_is_not_said_again() {
        let line = LogLine {
            offset: Some(10),
            next_offset: 15,
            text: Some("héll".into()),
            ..LogLine::default()
        };
        assert_eq!(fresh_part(line.clone(), 10), Some(line.clone()));
        assert_eq!(fresh_part(line.clone(), 15), None);
        assert_eq!(fresh_part(line.clone(), 13).and_then(|line| line.text), Some("ll".into()));
        let half = fresh_part(line, 12).expect("a part");
        assert_eq!((half.offset, half.text.as_deref()), (Some(12), None));
        assert_eq!(super::super::voice::bytes_of(&half), b"\xa9ll");
        let gap =
            LogLine { offset: Some(0), next_offset: 9, dropped: Some(9), ..LogLine::default() };
        assert_eq!(fresh_part(gap, 4).and_then(|gap| gap.dropped), Some(5));
    }
}
