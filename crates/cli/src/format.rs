//! How states, ages and amounts read for people.

use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use model::Timestamp;
use protocol::rest::runs::{NodeStatus, RunStatus};
use protocol::rest::tasks::State;

/// How a state looks on every surface. The mark goes with the word, so that colour is never alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) mark: &'static str,
    pub(crate) word: &'static str,
    color: Option<AnsiColor>,
}

impl Look {
    pub(crate) fn styled(self, text: impl Display) -> String {
        let style = self.color.map_or_else(Style::new, AnsiColor::on_default);
        format!("{style}{text}{style:#}")
    }

    pub(crate) fn styled_mark(self) -> String {
        self.styled(self.mark)
    }
}

/// The mark and the word.
impl Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.mark, self.word)
    }
}

impl From<State> for Look {
    fn from(state: State) -> Self {
        let (mark, word, color) = match state {
            State::Waiting => ("·", "Waiting", None),
            State::Queued => ("·", "Queued", None),
            State::Retrying => ("·", "Retrying", None),
            State::Running => ("▸", "Running", Some(AnsiColor::Blue)),
            State::Completed => ("✓", "Succeeded", Some(AnsiColor::Green)),
            State::Failed => ("✗", "Failed", Some(AnsiColor::Red)),
            State::Dead => ("✗", "Dead", Some(AnsiColor::Red)),
            State::Stopped => ("■", "Stopped", Some(AnsiColor::Yellow)),
        };
        Self { mark, word, color }
    }
}

impl From<NodeStatus> for Look {
    fn from(status: NodeStatus) -> Self {
        match status {
            NodeStatus::Queued => State::Queued.into(),
            NodeStatus::Running => State::Running.into(),
            NodeStatus::Succeeded => State::Completed.into(),
            NodeStatus::Failed => State::Failed.into(),
            NodeStatus::Cancelled => State::Stopped.into(),
            NodeStatus::Skipped => Self { mark: "○", word: "Skipped", color: None },
        }
    }
}

impl From<RunStatus> for Look {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Queued => State::Queued.into(),
            RunStatus::Running => State::Running.into(),
            RunStatus::Succeeded => State::Completed.into(),
            RunStatus::Failed => State::Failed.into(),
            RunStatus::Cancelled => State::Stopped.into(),
        }
    }
}

/// The look of a state or a status.
pub(crate) fn look(state: impl Into<Look>) -> Look {
    state.into()
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

/// What is not there is a dash.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number))
}

/// `text` without line breaks and runs of spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text`, cut to so many letters.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Adds to a text without a copy in between.
pub(crate) fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    std::fmt::Write::write_fmt(text, more).expect("a String takes everything");
}

/// A path with the parameters that are given.
pub(crate) fn query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut path = path.to_owned();
    for (name, value) in parameters.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        let mark = if path.contains('?') { '&' } else { '?' };
        push(&mut path, format_args!("{mark}{name}={}", percent_encoded(value)));
    }
    path
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
