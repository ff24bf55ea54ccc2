//! How a command ended, in words and as an exit code.

use protocol::rest::tasks::{State, Task, TaskError};
use serde::Deserialize;

use crate::exit_code::ExitCode;
use crate::words;

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
    let mark = crate::output::styled(words::style(task.state), words::mark(task.state));
    match task.state {
        State::Completed => format!("{mark} run {run} succeeded in {}", took(task)),
        State::Stopped => format!("{mark} run {run} was stopped after {}", took(task)),
        _ => format!("{mark} run {run} failed: {}", why(task)),
    }
}

fn took(task: &Task) -> String {
    let settled = task.settled_at.as_deref().unwrap_or(&task.created_at);
    words::between(&task.created_at, settled).unwrap_or_default()
}

/// What the result of a command that succeeded says that it wrote.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Written {
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
}

impl Written {
    pub(super) fn of(task: &Task) -> Self {
        let result = task.result.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        result.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
