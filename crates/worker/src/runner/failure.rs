//! How the bad end of a program is told.

use crate::executor::Outcome;
use crate::runner::supervise::SpawnError;

/// A program that did not start.
const NOT_STARTED: &str = "E.RUNNER.SPAWN";
/// A program that the worker does not allow.
const NOT_ALLOWED: &str = "E.RUNNER.NOT_ALLOWED";
/// A program that ended with another code than 0, or by a signal.
pub(super) const EXIT: &str = "E.RUNNER.EXIT";
/// How much of the last line of standard error a failure quotes.
const QUOTE_CHARS_MAX: usize = 300;

/// The failure of a program that did not start.
pub(super) fn not_started(error: &SpawnError, reason: String) -> Outcome {
    let outcome = if error.is_passing() { Outcome::passing } else { Outcome::hopeless };
    outcome(code_of(error), reason)
}

/// The code of a program that did not start.
pub(super) fn code_of(error: &SpawnError) -> &'static str {
    match error {
        SpawnError::NotAllowed(_) => NOT_ALLOWED,
        SpawnError::Folder(_)
        | SpawnError::Program(_)
        | SpawnError::Scratch(_)
        | SpawnError::Bounds(_)
        | SpawnError::OutOfSight(_)
        | SpawnError::System { .. } => NOT_STARTED,
    }
}

/// The last thing that was said, fit for a sentence.
pub(super) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(line.chars().map(plain).take(QUOTE_CHARS_MAX).collect())
}
