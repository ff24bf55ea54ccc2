//! Commands typed by hand: words between blanks, with quotes.

use bytes::{Bytes, BytesMut};

use super::line::{Line, LineFinder};
use super::{Limits, ProtocolError, Step};

/// Reads a line and cuts it into its words, as Redis does. A line of blanks has none.
pub(super) fn read(
    buffer: &mut BytesMut,
    lines: &mut LineFinder,
    limits: &Limits,
) -> Result<Step, ProtocolError> {
    let line = match lines.find(buffer, limits.request_bytes_max) {
        Line::Found(line) => buffer.split_to(line).freeze(),
        Line::Open => return Ok(Step::Starved),
        Line::TooLong | Line::NoRoom => return Err(ProtocolError::TooBigInline),
    };
    let mut words = Vec::new();
    let mut rest = Cursor { line: &line, at: 0 };
    while rest.skip_blanks() {
        let word = rest.take_word()?;
        if word.len() > limits.argument_bytes_max || words.len() == limits.arguments_max {
            return Err(ProtocolError::TooBigInline);
        }
        words.push(word);
    }
    match words.first() {
        None => Ok(Step::Skipped),
        Some(name) if speaks_http(name) => Err(ProtocolError::CrossProtocol),
        Some(_) => Ok(Step::Complete(words)),
    }
}

/// The body of a form and the second line of any request: what a browser can be made to send.
fn speaks_http(name: &[u8]) -> bool {
    let host = b"host:";
    name.eq_ignore_ascii_case(b"post")
        || name.get(..host.len()).is_some_and(|start| start.eq_ignore_ascii_case(host))
}

struct Cursor<'a> {
    line: &'a Bytes,
    at: usize,
}

impl Cursor<'_> {
    /// Goes to the next word. Says whether there is one.
    fn skip_blanks(&mut self) -> bool {
        let is_blank = |byte: &&u8| is_blank(**byte);
        self.at += self.line[self.at..].iter().take_while(is_blank).count();
        self.at < self.line.len()
    }

    /// A word without quotes is a view of the line; others are put together anew.
    fn take_word(&mut self) -> Result<Bytes, ProtocolError> {
        let start = self.at;
        let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\'') && !ends_word(**byte);
        self.at += self.line[start..].iter().take_while(is_plain).count();
        let plain = start..self.at;
        // The end of a quote is the end of the word.
        match self.line.get(self.at) {
            Some(quote @ (b'"' | b'\'')) => self.take_quoted(*quote, self.line[plain].to_vec()),
            _ => Ok(self.line.slice(plain)),
        }
    }

    /// Between double quotes a backslash begins an escape, between single ones only before a quote.
    fn take_quoted(&mut self, quote: u8, mut word: Vec<u8>) -> Result<Bytes, ProtocolError> {
        let is_double = quote == b'"';
        self.at += 1;
        loop {
            let (byte, n) = match self.line[self.at..] {
                [] => return Err(ProtocolError::UnbalancedQuotes),
                [end, ..] if end == quote => return self.close_quote(word),
                [b'\\', b'x', high, low, ..] if is_double && is_hex(high) && is_hex(low) => {
                    (hex_digit(high) << 4 | hex_digit(low), 4)
                }
                [b'\\', escaped, ..] if is_double => (unescape(escaped), 2),
                [b'\\', b'\'', ..] => (b'\'', 2),
                [other, ..] => (other, 1),
            };
            self.at += n;
            word.push(byte);
        }
    }

    fn close_quote(&mut self, word: Vec<u8>) -> Result<Bytes, ProtocolError> {
        self.at += 1;
        if self.line.get(self.at).is_some_and(|byte| !is_blank(*byte)) {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        Ok(word.into())
    }
}

/// What a letter after a backslash stands for.
fn unescape(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// What the C function `isspace` finds blank.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Fewer than the blanks between words: Redis takes vertical tabs and form feeds into a word.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
