//! What is written while a run of commands is followed: its output once each byte, what is said about it,
//! and how it ended.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{ClientError, Lines};
use protocol::rest::logs::LogLine;
use protocol::rest::tasks::{State, Task, TaskError};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::format;
use crate::output::{self, Format, Output};
use crate::reconnect::{Reconnect, SILENCE_MAX};

/// How a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Output as it is, remarks on stderr.
    People,
    /// Output as it is, and nothing else.
    OutputAlone,
    /// One value at the end.
    Json,
    /// Every line of the log, and the task at the end.
    JsonLines,
}

/// Writes what a run says, and what is said about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunOutput {
    mode: Mode,
    output: Output,
}

impl RunOutput {
    pub(super) fn new(output: Output, is_quiet: bool) -> Self {
        let mode = match output.format() {
            Format::Text if is_quiet => Mode::OutputAlone,
            Format::Text => Mode::People,
            Format::Quiet => Mode::OutputAlone,
            Format::Json => Mode::Json,
            Format::Jsonl => Mode::JsonLines,
        };
        Self { mode, output }
    }

    pub(super) fn is_for_people(self) -> bool {
        self.mode == Mode::People
    }

    /// A remark.
    pub(super) fn note(self, text: impl Display) {
        if self.is_for_people() {
            self.output.note(text);
        }
    }

    /// What a program reads at the end.
    pub(super) fn data(self, value: &impl serde::Serialize) {
        if matches!(self.mode, Mode::Json | Mode::JsonLines) {
            self.output.answer(value, "", "");
        }
    }

    /// A line of the log. An error means that nobody reads any more.
    pub(super) fn line(self, line: &LogLine) -> io::Result<()> {
        match self.mode {
            Mode::Json => Ok(()),
            Mode::JsonLines => {
                let mut stdout = io::stdout().lock();
                writeln!(stdout, "{}", output::json(line))?;
                stdout.flush()
            }
            Mode::People | Mode::OutputAlone => {
                if let Some(dropped) = line.dropped {
                    self.note(format!("[... {dropped} bytes dropped ...]"));
                }
                let channel = line.channel.as_deref().unwrap_or("stdout");
                write_to(channel, &bytes_of(line))
            }
        }
    }

    /// Output that came with a result, from a worker that keeps no log.
    pub(super) fn late(self, channel: &str, text: &str) -> io::Result<()> {
        match self.mode {
            Mode::People | Mode::OutputAlone => write_to(channel, text.as_bytes()),
            Mode::Json | Mode::JsonLines => Ok(()),
        }
    }

    /// Starts a new line for a remark after output that did not end its own.
    pub(super) fn break_line(self) {
        if self.is_for_people() && io::stdout().is_terminal() && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
    }
}

/// What was no standard output goes beside it. Bytes stay as they are, colours and all.
fn write_to(channel: &str, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if channel == "stdout" {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    } else {
        io::stderr().lock().write_all(bytes)
    }
}

/// The bytes that a line carries.
pub(super) fn bytes_of(line: &LogLine) -> Vec<u8> {
    match (&line.text, &line.data_base64) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(data)) => STANDARD.decode(data).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

/// Gives a line other bytes.
pub(super) fn put_bytes(line: &mut LogLine, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => (line.text, line.data_base64) = (Some(text), None),
        Err(error) => {
            (line.text, line.data_base64) = (None, Some(STANDARD.encode(error.as_bytes())));
        }
    }
}

/// Lines on their way to whoever writes them.
const LINES_MAX: usize = 64;

/// What was heard.
#[derive(Debug)]
pub(super) enum LogEvent {
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
    reconnect: Reconnect,
}

impl LogReader {
    pub(super) fn new(context: &Context, task_id: &str, offset: u64, follows: bool) -> Self {
        Self {
            context: context.clone(),
            task_id: task_id.into(),
            offset,
            follows,
            reconnect: Reconnect::new(),
        }
    }

    /// Reads on its own until the end; whoever listens may come and go.
    pub(super) fn spawn(self) -> mpsc::Receiver<Result<LogEvent>> {
        let (sender, receiver) = mpsc::channel(LINES_MAX);
        tokio::spawn(async move {
            let last = self.read(&sender).await;
            // Nobody listens any more, or it is told.
            let _ = sender.send(last).await;
        });
        receiver
    }

    async fn read(mut self, sender: &mpsc::Sender<Result<LogEvent>>) -> Result<LogEvent> {
        loop {
            let error = match self.open().await {
                Ok(lines) => match self.drain(lines, sender).await {
                    Ok(true) => return Ok(LogEvent::End),
                    // The server stops, or knows less than we do: it needs a moment.
                    Ok(false) => None,
                    Err(error) => Some(error),
                },
                Err(error) => Some(error),
            };
            if sender.is_closed() {
                return Ok(LogEvent::End);
            }
            let hint = "the task may go on; look again later";
            if let Some(error) = error
                && self.reconnect.tolerate(error, &self.context, hint)?
            {
                let _ = sender.send(Ok(LogEvent::Away)).await;
            }
            self.reconnect.pause().await;
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
        sender: &mpsc::Sender<Result<LogEvent>>,
    ) -> std::result::Result<bool, ClientError> {
        while let Some(line) = lines.next(SILENCE_MAX).await? {
            if self.reconnect.heard() {
                let _ = sender.send(Ok(LogEvent::Back)).await;
            }
            if line.is_empty() {
                continue;
            }
            // The line cannot be parsed: reconnect.
            let Ok(line) = serde_json::from_slice::<LogLine>(&line) else { return Ok(false) };
            if let Some(is_settled) = line.end {
                return Ok(is_settled || !self.follows);
            }
            let next_offset = line.next_offset;
            let Some(fresh) = fresh_part(line, self.offset) else { continue };
            if sender.send(Ok(LogEvent::Line(fresh))).await.is_err() {
                return Ok(true);
            }
            self.offset = next_offset;
            self.reconnect.reset_pause();
        }
        Ok(false)
    }
}

/// Where a log ends right now.
pub(super) async fn log_end(context: &Context, task_id: &str) -> Result<u64> {
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
        let bytes = bytes_of(&line);
        let rest = bytes.get(usize::try_from(n_heard).ok()?..)?.to_vec();
        put_bytes(&mut line, rest);
    }
    Some(line)
}

/// Codes of the runner of commands.
const EXIT: &str = "E.RUNNER.EXIT";
const SPAWN: &str = "E.RUNNER.SPAWN";
const TIMEOUT: &str = "E.TIMEOUT";
/// How the runner begins its sentence. The task of a failed command has no result, so that this
/// is where its number is.
const EXITED: &str = "the program exited with code ";
const KILLED: &str = "the program was killed by signal ";
/// What a shell adds to the number of a signal.
const SIGNAL_BASE: u8 = 128;
/// What `timeout` exits with.
const TIMED_OUT: u8 = 124;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Code(u8),
    Signal(u8),
    TimedOut,
    /// It did not start, its worker was lost, a person stopped it.
    Other,
}

fn end_of(task: &Task) -> End {
    match (&task.error, task.state) {
        (_, State::Completed) => End::Code(0),
        (Some(error), _) if error.code == EXIT => end_in(&error.reason),
        (Some(error), _) if error.code == TIMEOUT => End::TimedOut,
        _ => End::Other,
    }
}

fn end_in(reason: &str) -> End {
    if let Some(rest) = reason.strip_prefix(EXITED) {
        return number(rest).map_or(End::Other, End::Code);
    }
    let signal = reason.strip_prefix(KILLED).and_then(number);
    signal.map_or(End::Other, End::Signal)
}

fn number(text: &str) -> Option<u8> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

/// Success only if the command succeeded; with `propagates`, the command's own code.
pub(super) fn exit_code(task: &Task, propagates: bool) -> ExitCode {
    match (task.state, end_of(task)) {
        (State::Completed, _) => ExitCode::Success,
        (_, End::Code(code)) if propagates => ExitCode::Own(code),
        (_, End::Signal(signal)) if propagates => ExitCode::Own(SIGNAL_BASE.saturating_add(signal)),
        (_, End::TimedOut) if propagates => ExitCode::Own(TIMED_OUT),
        _ => ExitCode::Failed,
    }
}

/// Why it did not succeed, in a few words.
pub(super) fn why(task: &Task) -> String {
    let reason = task.error.as_ref().map_or("nobody said why", |error| error.reason.as_str());
    match end_of(task) {
        End::Code(code) => format!("exit code {code}"),
        End::Signal(signal) => format!("killed by signal {signal}"),
        End::TimedOut | End::Other => reason.to_owned(),
    }
}

/// What to do about it, beyond looking closer.
pub(super) fn way_out(error: &TaskError) -> Option<&'static str> {
    let is_folder = error.code == SPAWN && error.reason.contains("working folder");
    is_folder.then_some("give a folder that exists on the worker's machine with --cwd")
}

/// The last line about a run of one command.
pub(super) fn headline(run: &str, task: &Task) -> String {
    let mark = format::look(task.state).styled_mark();
    match task.state {
        State::Completed => format!("{mark} run {run} succeeded in {}", took(task)),
        State::Stopped => format!("{mark} run {run} was stopped after {}", took(task)),
        _ => format!("{mark} run {run} failed: {}", why(task)),
    }
}

fn took(task: &Task) -> String {
    let settled = task.settled_at.as_deref().unwrap_or(&task.created_at);
    format::between(&task.created_at, settled).unwrap_or_default()
}

/// What the result of a command that succeeded says that it wrote.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResultOutput {
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
}

impl ResultOutput {
    pub(super) fn of(task: &Task) -> Self {
        let result = task.result.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        result.unwrap_or_default()
    }
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
        assert_eq!(bytes_of(&half), b"\xa9ll");
        let gap =
            LogLine { offset: Some(0), next_offset: 9, dropped: Some(9), ..LogLine::default() };
        assert_eq!(fresh_part(gap, 4).and_then(|gap| gap.dropped), Some(5));
    }

    #[test]
    fn the_number_is_read_out_of_the_runners_sentence() {
        for (reason, end, code) in [
            ("the program exited with code 3", End::Code(3), 3),
            ("the program exited with code 255: code 7 it said", End::Code(255), 255),
            ("the program was killed by signal 9", End::Signal(9), 137),
            ("the program was killed by signal 15: bye", End::Signal(15), 143),
            ("something else with code 3", End::Other, 1),
            ("the program exited with code x", End::Other, 1),
        ] {
            let task = failed(EXIT, reason);
            assert_eq!(end_of(&task), end, "{reason}");
            assert_eq!(exit_code(&task, true).number(), code, "{reason}");
            assert_eq!(exit_code(&task, false), ExitCode::Failed);
        }
        assert_eq!(exit_code(&failed(TIMEOUT, "too long"), true).number(), 124);
        assert_eq!(exit_code(&failed("E.WORKER.LOST", "gone"), true), ExitCode::Failed);
    }

    #[test]
    fn a_failure_is_told_in_a_few_words() {
        let task = failed(EXIT, "the program exited with code 3: no such thing");
        assert_eq!(why(&task), "exit code 3");
        assert_eq!(why(&failed("E.WORKER.LOST", "its worker was lost")), "its worker was lost");
    }

    fn failed(code: &str, reason: &str) -> Task {
        let task = serde_json::json!({
            "task_id": "t", "type": "command", "queue": "default", "state": "DEAD", "priority": 0,
            "parameters": {}, "created_at": "2026-01-01T00:00:00Z", "attempt": 1,
            "max_attempts": 1, "error": {"code": code, "reason": reason},
        });
        serde_json::from_str(&task.to_string()).expect("a task")
    }
}
