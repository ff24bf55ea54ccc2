//! What a program says: the part that is kept, and the chunks that are passed on while it runs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

/// A batch of chunks leaves at most this often, so that a chatty program costs 50 frames a second
/// and not one for each line.
pub const FLUSH_EVERY: Duration = Duration::from_millis(20);
/// A batch of so many bytes leaves without waiting.
pub const FLUSH_BYTES: usize = 32 * 1024;
/// What waits for a slow reader; then the program has to wait too.
pub const PENDING_BYTES_MAX: usize = 128 * 1024;

/// Where a program says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Channel {
    /// The name on the wire (seed 001 section 3.3).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A piece of what a program said, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where it was said.
    pub channel: Channel,
    /// How many bytes were said there before.
    pub offset: u64,
    /// The bytes as they came; not necessarily text.
    pub bytes: Bytes,
}

/// Collects what was said into batches that are worth a frame, in the order of arrival. The first
/// bytes after a silence leave at once, because somebody may be watching.
#[derive(Debug, Default)]
pub struct Coalescer {
    pending: Vec<(Channel, BytesMut)>,
    n_pending: usize,
    stdout_offset: u64,
    stderr_offset: u64,
    last_taken: Option<Instant>,
}

impl Coalescer {
    /// Adds what was said.
    pub fn push(&mut self, channel: Channel, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.n_pending += bytes.len();
        match self.pending.last_mut() {
            Some((last, said)) if *last == channel => said.extend_from_slice(bytes),
            Some(_) | None => self.pending.push((channel, BytesMut::from(bytes))),
        }
    }

    /// When the batch should leave; a moment that has passed means at once. `None` without a batch.
    pub fn due_at(&self, now: Instant) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let by_time = self.last_taken.map_or(now, |taken| taken + FLUSH_EVERY);
        Some(if self.n_pending >= FLUSH_BYTES { now } else { by_time })
    }

    /// The batch. It has been said at `now`.
    pub fn take(&mut self, now: Instant) -> Vec<Chunk> {
        self.last_taken = Some(now);
        self.n_pending = 0;
        std::mem::take(&mut self.pending)
            .into_iter()
            .map(|(channel, said)| self.chunk(channel, said.freeze()))
            .collect()
    }

    /// How much more it holds.
    pub fn room(&self) -> usize {
        PENDING_BYTES_MAX.saturating_sub(self.n_pending)
    }

    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.n_pending == 0
    }

    fn chunk(&mut self, channel: Channel, bytes: Bytes) -> Chunk {
        let next = match channel {
            Channel::Stdout => &mut self.stdout_offset,
            Channel::Stderr => &mut self.stderr_offset,
        };
        let offset = *next;
        *next += bytes.len() as u64;
        Chunk { channel, offset, bytes }
    }
}

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

#[cfg(test)]
mod tests;
