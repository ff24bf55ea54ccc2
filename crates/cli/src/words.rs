//! How states, ages and amounts read for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use model::Timestamp;
use protocol::rest::runs::{NodeStatus, RunStatus};
use protocol::rest::tasks::State;

/// The word on screen for a state; the same on every surface.
pub(crate) const fn state(state: State) -> &'static str {
    match state {
        State::Waiting => "Waiting",
        State::Queued => "Queued",
        State::Retrying => "Retrying",
        State::Running => "Running",
        State::Completed => "Succeeded",
        State::Failed => "Failed",
        State::Dead => "Dead",
        State::Stopped => "Stopped",
    }
}

/// A mark that goes with the word, so that colour is never alone.
pub(crate) const fn mark(state: State) -> &'static str {
    match state {
        State::Waiting | State::Queued | State::Retrying => "·",
        State::Running => "▸",
        State::Completed => "✓",
        State::Failed | State::Dead => "✗",
        State::Stopped => "■",
    }
}

pub(crate) fn style(state: State) -> Style {
    match state {
        State::Waiting | State::Queued | State::Retrying => Style::new(),
        State::Running => AnsiColor::Blue.on_default(),
        State::Completed => AnsiColor::Green.on_default(),
        State::Failed | State::Dead => AnsiColor::Red.on_default(),
        State::Stopped => AnsiColor::Yellow.on_default(),
    }
}

/// The word on screen for where a node of a workflow stands.
pub(crate) const fn node_status(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Queued => "Queued",
        NodeStatus::Running => "Running",
        NodeStatus::Succeeded => "Succeeded",
        NodeStatus::Failed => "Failed",
        NodeStatus::Cancelled => "Stopped",
        NodeStatus::Skipped => "Skipped",
    }
}

/// A mark that goes with the word, so that colour is never alone.
pub(crate) const fn node_mark(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Queued => "·",
        NodeStatus::Running => "▸",
        NodeStatus::Succeeded => "✓",
        NodeStatus::Failed => "✗",
        NodeStatus::Cancelled => "■",
        NodeStatus::Skipped => "○",
    }
}

pub(crate) fn node_style(status: NodeStatus) -> Style {
    match status {
        NodeStatus::Queued | NodeStatus::Skipped => Style::new(),
        NodeStatus::Running => AnsiColor::Blue.on_default(),
        NodeStatus::Succeeded => AnsiColor::Green.on_default(),
        NodeStatus::Failed => AnsiColor::Red.on_default(),
        NodeStatus::Cancelled => AnsiColor::Yellow.on_default(),
    }
}

/// A run stands where a node can stand, in the same words.
pub(crate) const fn as_node(status: RunStatus) -> NodeStatus {
    match status {
        RunStatus::Queued => NodeStatus::Queued,
        RunStatus::Running => NodeStatus::Running,
        RunStatus::Succeeded => NodeStatus::Succeeded,
        RunStatus::Failed => NodeStatus::Failed,
        RunStatus::Cancelled => NodeStatus::Cancelled,
    }
}

/// The mark and the word of a run.
pub(crate) fn run_status(status: RunStatus) -> String {
    let status = as_node(status);
    format!("{} {}", node_mark(status), node_status(status))
}

/// A stretch of time in its two largest units: `250ms`, `3.2s`, `2m 10s`, `4h 5m`, `3d 2h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..=9 => format!("{:.1}s", span.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3_599 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// How long ago a moment of the server was, by this machine's clock.
pub(crate) fn ago(moment: &str) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => format!("{} ago", span(now().since(moment))),
        Err(_) => moment.to_owned(),
    }
}

/// The time between two moments of the server.
pub(crate) fn between(start: &str, end: &str) -> Option<String> {
    let (start, end): (Timestamp, Timestamp) = (start.parse().ok()?, end.parse().ok()?);
    Some(span(end.since(start)))
}

pub(crate) fn now() -> Timestamp {
    Timestamp::default().after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number as u64))
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Adds to a text without a copy in between.
pub(crate) fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    std::fmt::Write::write_fmt(text, more).expect("a String takes everything");
}

/// `text` as a part of a path or a query.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            push(&mut encoded, format_args!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_in_their_two_largest_units() {
        let spans = [0, 250, 3_210, 45_000, 130_000, 14_700_000, 266_400_000];
        let shown = spans.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "250ms", "3.2s", "45s", "2m 10s", "4h 5m", "3d 2h"]);
    }

    #[test]
    fn what_is_special_in_a_path_is_encoded() {
        assert_eq!(percent_encoded("a-b_c.~9"), "a-b_c.~9");
        assert_eq!(percent_encoded("a b/c+\u{e4}"), "a%20b%2Fc%2B%C3%A4");
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(thousands), ["7", "999", "1,000", "1,234,567"]);
        assert_eq!(count(1, "task"), "1 task");
        assert_eq!(count(2_000, "task"), "2,000 tasks");
    }
}
