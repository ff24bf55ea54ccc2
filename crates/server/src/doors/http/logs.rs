//! Logs: what a task puts out, from any offset, also while it runs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coordinator::TaskState;
use futures_util::Stream;
use futures_util::stream::unfold;
use model::TaskId;
use protocol::error_code::ErrorCode;
use protocol::rest::logs::{LogLine, TaskFeedback};

use super::auth_layer::Context;
use super::convert::LOG_OFFSET;
use super::request::{PathName, QueryPairs};
use super::tasks::load;
use crate::app::App;
use crate::handle::{AskError, ShardHandle};
use crate::logs::{FeedbackHub, Follower, LogContent, LogCursor, LogEntry};
use crate::wire_words::problem::Answer;

/// Read a task's log
///
/// One JSON object per line: entries, gaps (`dropped`), and a last line with `end`. To go on after
/// a break, give the `next_offset` of the last line that was read as `offset`. An `offset` beyond
/// the end gets the last line alone. With `Accept: text/plain`, the bytes themselves; where some
/// were dropped, a line says so. With `follow=1` the answer goes on until the task comes to its end;
/// empty lines keep the connection alive.
#[utoipa::path(
    get, path = "/api/v1/tasks/{task_id}/log", operation_id = "get_task_log",
    params(
        ("offset" = Option<i64>, Query, description = "From this byte on. Default 0."),
        ("follow" = Option<i64>, Query, description = "1 to wait for more. Default 0.")
    ),
    responses(
        (status = 200, body = LogLine, content_type = "application/x-ndjson",
            description = "The log, a line for each entry.")
    )
)]
pub(super) async fn show(
    context: Context,
    path: PathName,
    query: QueryPairs,
    headers: HeaderMap,
) -> Answer {
    let task = path.task(context.shard())?;
    let query = query.only(&["offset", "follow"])?;
    let offset = query.number(LOG_OFFSET)?.unwrap_or(0).unsigned_abs();
    let wants_more = query.flag("follow", "it is 0 or 1")?.unwrap_or(false);
    let is_settled =
        matches!(load(&context.app, task).await?.progress.state, TaskState::Settled(_));
    let hub = Arc::clone(&context.app.feedback);
    if is_settled {
        // What was taken before the end must be there; a disk that is too slow costs logs.
        let _ = hub.settled(task).await;
    }
    let (cursor, form) = (LogCursor::new(task, offset), Form::wanted(&headers));
    let state = if wants_more && !is_settled {
        let follower = hub.follow(task);
        Stage::Following { follower, end: Box::pin(task_end(context.app, context.handle, task)) }
    } else {
        Stage::ToTheEnd { is_settled }
    };
    let stream = LogStream { hub, cursor, form, state, is_started: false };
    let mut response = Response::new(Body::from_stream(stream.into_stream()));
    let content_type = HeaderValue::from_static(form.content_type());
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}

/// How a task fares, if the hub knows.
pub(super) fn feedback(hub: &FeedbackHub, task: TaskId) -> Option<TaskFeedback> {
    hub.snapshot(task).map(|snapshot| TaskFeedback {
        stage: snapshot.stage,
        progress: snapshot.progress,
        message: snapshot.message,
        metrics: snapshot.metrics,
        at: snapshot.at.to_string(),
    })
}

/// A character of UTF-8 that is cut in two leaves at most so many bytes on a side.
const CUT_BYTES_MAX: usize = 3;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A JSON object per line.
    Lines,
    /// The bytes themselves.
    Text,
}

impl Form {
    /// What the reader asked for.
    pub(super) fn wanted(headers: &HeaderMap) -> Self {
        let accepted =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = accepted.flat_map(|value| value.split(','));
        let is_text =
            |one: &str| one.split(';').next().is_some_and(|name| name.trim() == "text/plain");
        if types.any(is_text) { Self::Text } else { Self::Lines }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    /// Entries, as they are sent.
    pub(super) fn page(self, entries: &[LogEntry]) -> Bytes {
        let mut out = Vec::new();
        for entry in entries {
            match self {
                Self::Lines => write_lines(&mut out, entry),
                Self::Text => write_text(&mut out, entry),
            }
        }
        out.into()
    }

    /// What is sent when there is nothing to send.
    pub(super) fn keep_alive(self) -> Bytes {
        match self {
            Self::Lines => Bytes::from_static(b"\n"),
            Self::Text => Bytes::new(),
        }
    }

    pub(super) fn last_line(self, next_offset: u64, end: bool) -> Bytes {
        let mut out = Vec::new();
        if self == Self::Lines {
            write_line(&mut out, &LogLine { next_offset, end: Some(end), ..LogLine::default() });
        }
        out.into()
    }
}

fn write_text(out: &mut Vec<u8>, entry: &LogEntry) {
    match &entry.content {
        LogContent::Said { bytes, .. } => out.extend_from_slice(bytes),
        LogContent::Dropped => {
            let n_dropped = entry.next_offset - entry.offset;
            out.extend_from_slice(format!("\n[... {n_dropped} bytes dropped ...]\n").as_bytes());
        }
    }
}

fn write_lines(out: &mut Vec<u8>, entry: &LogEntry) {
    let LogEntry { offset, next_offset, content } = entry;
    match content {
        LogContent::Dropped => {
            let dropped = Some(next_offset - offset);
            let next_offset = *next_offset;
            let line =
                LogLine { offset: Some(*offset), next_offset, dropped, ..LogLine::default() };
            write_line(out, &line);
        }
        LogContent::Said { attempt, channel, at, bytes } => {
            let mut offset = *offset;
            for (piece, is_text) in pieces(bytes) {
                let next_offset = offset + piece.len() as u64;
                let text = is_text.then(|| String::from_utf8_lossy(piece).into_owned());
                let line = LogLine {
                    offset: Some(offset),
                    next_offset,
                    attempt: Some(*attempt),
                    channel: Some(channel.word().to_owned()),
                    at: Some(at.to_string()),
                    data_base64: text.is_none().then(|| STANDARD.encode(piece)),
                    text,
                    ..LogLine::default()
                };
                write_line(out, &line);
                offset = next_offset;
            }
        }
    }
}

fn write_line(out: &mut Vec<u8>, line: &LogLine) {
    serde_json::to_writer(&mut *out, line).expect("a line is plain data, a Vec takes everything");
    out.push(b'\n');
}

/// The bytes in order, each piece with whether it is text. Half a character at an end is no text,
/// but it does not make the rest of the entry unreadable.
fn pieces(bytes: &[u8]) -> Vec<(&[u8], bool)> {
    let is_continuation = |byte: &&u8| (0x80..0xC0).contains(*byte);
    let n_head = bytes.iter().take(CUT_BYTES_MAX).take_while(is_continuation).count();
    let (head, rest) = bytes.split_at(n_head);
    let n_text = match std::str::from_utf8(rest) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return vec![(bytes, false)],
    };
    let (text, tail) = rest.split_at(n_text);
    if text.is_empty() {
        return vec![(bytes, false)];
    }
    let all = [(head, false), (text, true), (tail, false)];
    all.into_iter().filter(|(piece, _)| !piece.is_empty()).collect()
}

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
    state: Stage,
    /// Whether anything was read yet.
    is_started: bool,
}

enum Stage {
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
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        unfold(self, |mut stream| async {
            let sent = stream.next().await.transpose()?;
            Some((sent, stream))
        })
    }

    /// The next bytes to send; `None` when the answer is complete.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !matches!(self.state, Stage::Over) {
            let wanted = self.cursor.offset();
            let (cursor, page) = self.hub.next_page(self.cursor.clone(), PAGE_BYTES).await?;
            self.cursor = cursor;
            let is_beyond = !self.is_started && page.next_offset < wanted;
            self.is_started = true;
            if !page.entries.is_empty() {
                return Ok(Some(self.form.page(&page.entries)));
            }
            match &mut self.state {
                Stage::ToTheEnd { is_settled } => {
                    let is_settled = *is_settled;
                    return Ok(self.finish(page.next_offset, is_settled));
                }
                Stage::Following { .. } if is_beyond => {
                    return Ok(self.finish(page.next_offset, false));
                }
                Stage::Following { follower, end } => match wait(follower, end).await {
                    Next::Read => {}
                    Next::KeepAlive if self.form.keep_alive().is_empty() => {}
                    Next::KeepAlive => return Ok(Some(self.form.keep_alive())),
                    // What came before the end is still to be read.
                    Next::Finish(end) => {
                        self.state = Stage::ToTheEnd { is_settled: end == LogEnd::Settled };
                    }
                },
                Stage::Over => {}
            }
        }
        Ok(None)
    }

    fn finish(&mut self, next_offset: u64, is_settled: bool) -> Option<Bytes> {
        self.state = Stage::Over;
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
        lives = follower.changed() => {
            if lives { Next::Read } else { Next::Finish(LogEnd::ServerStops) }
        }
        () = tokio::time::sleep(KEEP_ALIVE_EVERY) => Next::KeepAlive,
    }
}

/// The coordinator is asked again this often: it forgets nobody, but a restarted one would.
const WATCH_FOR: Duration = Duration::from_mins(1);
/// After a question that got no answer, or none that helps.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Why a log is not followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// The task has come to its end.
    Settled,
    /// The server is stopping, the task goes on.
    ServerStops,
}

/// Resolves when the task is settled, or when nobody can tell any more.
pub(super) async fn task_end(app: Arc<App>, handle: ShardHandle, task: TaskId) -> LogEnd {
    loop {
        let until = app.clock.now().after(WATCH_FOR);
        let watched = handle.watch(task, until).await;
        if watched == Err(AskError::Stopping) {
            return LogEnd::ServerStops;
        }
        match load(&app, task).await {
            Ok(record) if matches!(record.progress.state, TaskState::Settled(_)) => break,
            Err(error) if error.code == ErrorCode::TaskNotFound => break,
            Ok(_) | Err(_) => {}
        }
        if watched != Ok(true) {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }
    // Everything that was taken before the end is read before the log ends; a disk that is too
    // slow for that costs logs.
    let _ = app.feedback.settled(task).await;
    LogEnd::Settled
}

#[cfg(test)]
mod lines_tests {
    use super::*;

    #[test]
    fn half_a_character_does_not_spoil_the_rest() {
        let text = "aé€😀z";
        for start in 0..text.len() {
            for end in start + 1..=text.len() {
                let bytes = &text.as_bytes()[start..end];
                let pieces = pieces(bytes);
                let whole: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.to_vec()).collect();
                assert_eq!(whole, bytes);
                for (piece, is_text) in &pieces {
                    assert!(!piece.is_empty());
                    assert_eq!(std::str::from_utf8(piece).is_ok(), *is_text, "{piece:?}");
                }
            }
        }
        assert_eq!(pieces(b"abc\xffabc"), [(&b"abc\xffabc"[..], false)]);
        assert_eq!(pieces(b"\xa9ok\xe2\x82").len(), 3);
    }

    #[test]
    fn text_is_for_those_who_ask_for_it() {
        let form = |accept: &str| {
            let accept = (header::ACCEPT, accept.parse().expect("a header"));
            Form::wanted(&HeaderMap::from_iter([accept]))
        };
        assert_eq!(form("text/plain"), Form::Text);
        assert_eq!(form("text/html, text/plain;q=0.5"), Form::Text);
        assert_eq!(form("*/*"), Form::Lines);
        assert_eq!(form("application/x-ndjson"), Form::Lines);
        assert_eq!(Form::wanted(&HeaderMap::new()), Form::Lines);
    }
}

#[cfg(test)]
mod stream_tests {
    use model::{ShardId, TaskId};

    use super::*;
    use crate::logs::LogLimits;

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
        let state = Stage::Following { follower, end };
        let mut stream = LogStream { hub, cursor, form: Form::Lines, state, is_started: false };
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
