//! How a log looks on the wire: lines of JSON, or the bytes themselves.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use protocol::rest::logs::LogLine;
use protocol::session::payload::feedback::Channel;

use crate::feedback::{LogContent, LogEntry};

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
                write_line(
                    out,
                    &LogLine {
                        offset: Some(offset),
                        next_offset,
                        attempt: Some(*attempt),
                        channel: Some(word(*channel).to_owned()),
                        at: Some(at.to_string()),
                        data_base64: text.is_none().then(|| STANDARD.encode(piece)),
                        text,
                        dropped: None,
                        end: None,
                    },
                );
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

fn word(channel: Channel) -> &'static str {
    match channel {
        Channel::Stdout => "stdout",
        Channel::Stderr => "stderr",
        Channel::Log => "log",
        Channel::Llm => "llm",
        Channel::Metric => "metric",
        Channel::Custom => "custom",
    }
}

#[cfg(test)]
mod tests {
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
