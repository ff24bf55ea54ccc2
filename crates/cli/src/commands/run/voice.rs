//! What is written while a run is followed: its output as it is, and what is said about it.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::rest::logs::LogLine;

use crate::output::{self, Format, Output};

/// How a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
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
pub(super) struct Voice {
    tone: Tone,
    output: Output,
}

impl Voice {
    pub(super) fn new(output: Output, is_quiet: bool) -> Self {
        let tone = match output.format() {
            Format::Text if is_quiet => Tone::OutputAlone,
            Format::Text => Tone::People,
            Format::Quiet => Tone::OutputAlone,
            Format::Json => Tone::Json,
            Format::Jsonl => Tone::JsonLines,
        };
        Self { tone, output }
    }

    pub(super) fn is_for_people(self) -> bool {
        self.tone == Tone::People
    }

    /// A remark.
    pub(super) fn note(self, text: impl Display) {
        if self.is_for_people() {
            self.output.note(text);
        }
    }

    /// What a program reads at the end.
    pub(super) fn data(self, value: &impl output::Show) {
        if matches!(self.tone, Tone::Json | Tone::JsonLines) {
            self.output.show(value);
        }
    }

    /// A line of the log. An error means that nobody reads any more.
    pub(super) fn line(self, line: &LogLine) -> io::Result<()> {
        match self.tone {
            Tone::Json => Ok(()),
            Tone::JsonLines => {
                let mut stdout = io::stdout().lock();
                writeln!(stdout, "{}", output::json(line))?;
                stdout.flush()
            }
            Tone::People | Tone::OutputAlone => {
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
        match self.tone {
            Tone::People | Tone::OutputAlone => write_to(channel, text.as_bytes()),
            Tone::Json | Tone::JsonLines => Ok(()),
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
