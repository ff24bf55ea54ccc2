//! What a program says: the part that is kept within bounds, and all of it for another program.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Stdio;

use bytes::Bytes;
use tempfile::{SpooledTempFile, spooled_tempfile};

/// The beginning and the end of what was said, within a limit: the beginning tells what it was
/// about, the end what went wrong.
#[derive(Clone, Debug)]
pub struct Capture {
    head: Vec<u8>,
    head_max: usize,
    tail: VecDeque<u8>,
    tail_max: usize,
    n_said: u64,
}

/// A capture as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedText {
    /// What was kept; where bytes were dropped, a line says so.
    pub text: String,
    /// How many bytes were dropped.
    pub dropped_bytes: u64,
}

impl Capture {
    /// Keeps at most `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let head_max = bytes_max / 2;
        let tail_max = bytes_max - head_max;
        Self { head: Vec::new(), head_max, tail: VecDeque::new(), tail_max, n_said: 0 }
    }

    /// Adds what was said.
    pub fn push(&mut self, bytes: &[u8]) {
        self.n_said += bytes.len() as u64;
        let n_head = bytes.len().min(self.head_max - self.head.len());
        let (head, rest) = bytes.split_at(n_head);
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// The same with less of it.
    #[must_use]
    pub fn narrowed(&self, bytes_max: usize) -> Self {
        let mut narrow = Self::new(bytes_max);
        let (front, back) = self.tail.as_slices();
        for part in [&self.head[..], front, back] {
            narrow.push(part);
        }
        narrow.n_said = self.n_said;
        narrow
    }

    /// How many bytes are held.
    pub fn n_kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// What was kept, as text. Bytes that are no UTF-8 become U+FFFD; those who need the bytes
    /// themselves read the chunks.
    pub fn text(&self) -> CapturedText {
        let dropped = self.n_said - self.n_kept() as u64;
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if dropped == 0 {
            let whole = [&self.head[..], &tail].concat();
            let text = String::from_utf8_lossy(&whole).into_owned();
            return CapturedText { text, dropped_bytes: 0 };
        }
        // A character that was cut in two is dropped whole: half of it is noise.
        let head = without_cut_end(&self.head);
        let tail_kept = without_cut_start(&tail);
        let n_cut = self.n_kept() - head.len() - tail_kept.len();
        let dropped_bytes = dropped + n_cut as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail_kept));
        let text = format!("{head}\n[... {dropped_bytes} bytes dropped ...]\n{tail}");
        CapturedText { text, dropped_bytes }
    }
}

fn without_cut_end(bytes: &[u8]) -> &[u8] {
    match bytes.utf8_chunks().last() {
        // Three bytes at most can be the start of a character that went on.
        Some(last) if (1..=3).contains(&last.invalid().len()) && is_start(last.invalid()) => {
            &bytes[..bytes.len() - last.invalid().len()]
        }
        Some(_) | None => bytes,
    }
}

/// Whether more bytes could have made a character of these.
fn is_start(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let is_continuation = |byte: &&u8| (0x80..0xC0).contains(*byte);
    let n_cut = bytes.iter().take(3).take_while(is_continuation).count();
    &bytes[n_cut..]
}

/// What is held in memory.
pub const SPOOL_MEMORY_BYTES: usize = 1024 * 1024;
/// The most that one program can hand to another.
pub const SPOOL_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Takes what a program says. Little stays in memory; more goes to a file that has no name, so that
/// it is gone with the last who holds it, however that one ends.
#[derive(Debug)]
pub struct Spool {
    kept: SpooledTempFile,
    n_kept: u64,
    bytes_max: u64,
}

/// Everything that a program said, or what a program is given to read.
#[derive(Debug)]
pub enum Spooled {
    /// In memory.
    Bytes(Bytes),
    /// In a file without a name.
    File(File),
}

/// Output that cannot be handed on.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// There is too much of it.
    #[error("it wrote more than {0} bytes, which is more than can be handed to another task")]
    TooLong(u64),
    /// There is no room for it.
    #[error("its output could not be kept for another task: {0}")]
    Disk(#[from] io::Error),
    /// It was not read to its end.
    #[error("its output was not read to its end, because a process that it left behind holds it")]
    Unfinished,
}

impl Spool {
    /// Takes at most `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self { kept: spooled_tempfile(SPOOL_MEMORY_BYTES), n_kept: 0, bytes_max }
    }

    /// Adds what was said. The file is written in place: what is read at once is small, and the
    /// kernel takes it into memory first.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.n_kept += bytes.len() as u64;
        if self.n_kept > self.bytes_max {
            return Err(SpoolError::TooLong(self.bytes_max));
        }
        Ok(self.kept.write_all(bytes)?)
    }

    /// Nothing more is said.
    pub(super) fn finish(mut self) -> Result<Spooled, SpoolError> {
        if self.kept.is_rolled() {
            return Ok(Spooled::File(self.kept.into_file()?));
        }
        self.kept.rewind()?;
        let mut bytes = Vec::new();
        self.kept.read_to_end(&mut bytes)?;
        Ok(Spooled::Bytes(bytes.into()))
    }
}

impl Spooled {
    /// The same once more, for one more reader.
    pub fn reader(&self) -> io::Result<Self> {
        match self {
            Self::Bytes(bytes) => Ok(Self::Bytes(bytes.clone())),
            // Opened anew, so that each reader begins at the start and none can write.
            Self::File(file) => {
                File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map(Self::File)
            }
        }
    }

    /// What the program gets as its standard input, and what is to be written to it.
    pub(super) fn into_stdin(self) -> (Stdio, Bytes) {
        match self {
            Self::Bytes(bytes) => (Stdio::piped(), bytes),
            Self::File(file) => (Stdio::from(file), Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests;
