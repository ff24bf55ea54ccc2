//! The body of an answer: one page after the other, as fast as its reader takes them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;

use super::lines::Form;
use super::task_end::LogEnd;
use crate::feedback::{FeedbackHub, Follower, LogCursor};

/// What one follower holds in memory, and what is sent at once.
const PAGE_BYTES: usize = 64 * 1024;
/// Proxies close connections that are silent for longer.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Resolves at the end of the task.
pub(super) type EndFuture = Pin<Box<dyn Future<Output = LogEnd> + Send>>;

/// A log on its way to a reader.
pub(super) struct LogStream {
    hub: Arc<FeedbackHub>,
    cursor: LogCursor,
    form: Form,
    state: State,
    /// Whether anything was read yet.
    is_started: bool,
}

enum State {
    /// What there is, and then the last line.
    ToTheEnd { is_settled: bool },
    /// More may come.
    Following { follower: Follower, end: EndFuture },
    /// The last line is out.
    Over,
}

/// What a follower without news does next.
enum Next {
    Read,
    KeepAlive,
    Finish(LogEnd),
}

impl LogStream {
    /// What there is.
    pub(super) fn once(
        hub: Arc<FeedbackHub>,
        cursor: LogCursor,
        form: Form,
        is_settled: bool,
    ) -> Self {
        Self { hub, cursor, form, state: State::ToTheEnd { is_settled }, is_started: false }
    }

    /// What there is, and what comes until the end of the task.
    pub(super) fn follow(
        hub: Arc<FeedbackHub>,
        cursor: LogCursor,
        form: Form,
        (follower, end): (Follower, EndFuture),
    ) -> Self {
        Self { hub, cursor, form, state: State::Following { follower, end }, is_started: false }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        unfold(self, |mut stream| async {
            let sent = stream.next().await.transpose()?;
            Some((sent, stream))
        })
    }

    /// The next bytes to send; `None` when the answer is complete.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !matches!(self.state, State::Over) {
            let wanted = self.cursor.offset();
            let (cursor, page) = self.hub.next_page(self.cursor.clone(), PAGE_BYTES).await?;
            self.cursor = cursor;
            let is_beyond = !self.is_started && page.next_offset < wanted;
            self.is_started = true;
            if !page.entries.is_empty() {
                return Ok(Some(self.form.page(&page.entries)));
            }
            match &mut self.state {
                State::ToTheEnd { is_settled } => {
                    let is_settled = *is_settled;
                    return Ok(self.finish(page.next_offset, is_settled));
                }
                State::Following { .. } if is_beyond => {
                    return Ok(self.finish(page.next_offset, false));
                }
                State::Following { follower, end } => match wait(follower, end).await {
                    Next::Read => {}
                    Next::KeepAlive if self.form.keep_alive().is_empty() => {}
                    Next::KeepAlive => return Ok(Some(self.form.keep_alive())),
                    // What came before the end is still to be read.
                    Next::Finish(end) => {
                        self.state = State::ToTheEnd { is_settled: end == LogEnd::Settled };
                    }
                },
                State::Over => {}
            }
        }
        Ok(None)
    }

    fn finish(&mut self, next_offset: u64, is_settled: bool) -> Option<Bytes> {
        self.state = State::Over;
        let last = self.form.last_line(next_offset, is_settled);
        (!last.is_empty()).then_some(last)
    }
}

async fn wait(follower: &mut Follower, end: &mut EndFuture) -> Next {
    if follower.is_settled() {
        return Next::Finish(LogEnd::Settled);
    }
    tokio::select! {
        end = end => Next::Finish(end),
        changed = follower.changed() => match changed {
            Ok(()) => Next::Read,
            Err(_) => Next::Finish(LogEnd::ServerStops),
        },
        () = tokio::time::sleep(KEEP_ALIVE_EVERY) => Next::KeepAlive,
    }
}

#[cfg(test)]
mod tests {
    use model::{ShardId, TaskId};

    use super::*;
    use crate::feedback::LogLimits;

    #[tokio::test(start_paused = true)]
    async fn silence_is_kept_alive_and_ends_with_the_task() {
        let folder = tempfile::tempdir().expect("a folder");
        let hub = FeedbackHub::open(folder.path().to_owned(), LogLimits::default());
        let hub = Arc::new(hub.expect("a hub"));
        let task = TaskId::of(ShardId::new(1).expect("fits"), 1);
        let end: EndFuture = Box::pin(async {
            tokio::time::sleep(KEEP_ALIVE_EVERY * 5 / 2).await;
            LogEnd::Settled
        });
        let follower = hub.follow(task);
        let cursor = LogCursor::new(task, 0);
        let mut stream = LogStream::follow(hub, cursor, Form::Lines, (follower, end));
        let started = tokio::time::Instant::now();
        let mut sent = Vec::new();
        while let Some(bytes) = stream.next().await.expect("readable") {
            sent.push((started.elapsed().as_millis(), bytes));
        }
        let sent: Vec<_> = sent.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        let last = &b"{\"next_offset\":0,\"end\":true}\n"[..];
        assert_eq!(sent, [(15_000, &b"\n"[..]), (30_000, b"\n"), (37_500, last)]);
    }
}
