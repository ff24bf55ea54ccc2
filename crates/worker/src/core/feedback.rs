//! What an attempt says before its end: gathered here, taken in batches by the session.
//!
//! The sink is bounded. Who writes more than the session takes waits, and so does the program
//! whose output it is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use protocol::session::codec::OpenObject;
use protocol::session::payload::exec::{Channel, Chunk};
use serde_json::Number;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A batch leaves at most this often, unless it is full.
pub const BATCH_EVERY: Duration = Duration::from_millis(20);
/// A batch of so many bytes is full.
pub const BATCH_BYTES: usize = 32 * 1024;
/// What waits for the session, for each attempt; then the attempt waits too.
pub const GATHERED_BYTES_MAX: usize = 1024 * 1024;
/// The longest message; the rest of it is dropped.
const MESSAGE_CHARS_MAX: usize = 4096;
/// The longest name of a stage or a measure.
const NAME_CHARS_MAX: usize = 128;
/// The most measures in one batch; others wait for the next.
const METRICS_MAX: usize = 256;

/// Takes what an attempt has to say. Cheap to clone.
#[derive(Clone, Default)]
pub struct FeedbackSink {
    /// `None` if nobody listens.
    shared: Option<Arc<Shared>>,
}

struct Shared {
    gathered: Mutex<Gathered>,
    room: Notify,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// How an attempt fares. What is not set says nothing; of two words within a batch the later
/// counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// What it is at, in a word.
    pub stage: Option<String>,
    /// How much is done, from 0 to 1.
    pub progress: Option<f64>,
    /// What it is at, for people.
    pub message: Option<String>,
    /// What it measured.
    pub metrics: BTreeMap<String, Number>,
}

/// What leaves in one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    pub(crate) status: Status,
    pub(crate) chunks: Vec<Chunk>,
}

#[derive(Default)]
struct Gathered {
    pieces: VecDeque<(Channel, BytesMut)>,
    /// The beginnings of characters whose ends have not come, one for each channel.
    tails: Vec<(Channel, Bytes)>,
    n_bytes: usize,
    status: Status,
    /// How many bytes have left, over all channels.
    offset: u64,
    last_taken: Option<Instant>,
    is_announced: bool,
    is_over: bool,
    is_closed: bool,
}

impl FeedbackSink {
    /// A sink that forgets everything.
    pub fn deaf() -> Self {
        Self::default()
    }

    /// A sink that calls `wake` when there is something to take, and again when a batch is full.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (gathered, room) = (Mutex::default(), Notify::new());
        Self { shared: Some(Arc::new(Shared { gathered, room, wake: Box::new(wake) })) }
    }

    /// Adds output; waits as long as too much is gathered.
    pub async fn write(&self, channel: Channel, bytes: impl Into<Bytes>) {
        let (Some(shared), mut bytes) = (&self.shared, bytes.into()) else { return };
        while !bytes.is_empty() {
            let is_waiting = shared.with(|gathered| {
                let n = gathered.room().min(bytes.len());
                gathered.push(channel, &bytes.split_to(n));
                !gathered.is_closed
            });
            if is_waiting && !bytes.is_empty() {
                shared.room.notified().await;
            } else {
                break;
            }
        }
        // Another one may wait for the room that is left.
        shared.room.notify_one();
    }

    /// How many bytes may be added before the session takes some.
    pub(crate) fn room(&self) -> usize {
        self.shared.as_ref().map_or(usize::MAX, |shared| shared.gathered.lock().room())
    }

    /// Adds output for which there is room.
    pub(crate) fn push(&self, channel: Channel, bytes: &[u8]) {
        if let Some(shared) = &self.shared {
            shared.with(|gathered| gathered.push(channel, bytes));
        }
    }

    /// Waits until the session has taken something.
    pub(crate) async fn taken(&self) {
        match &self.shared {
            Some(shared) => shared.room.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Says how it goes. Never waits.
    pub fn say(&self, status: Status) {
        if let Some(shared) = &self.shared {
            shared.with(|gathered| gathered.merge(status));
        }
    }

    /// Says how much is done, from 0 to 1.
    pub fn progress(&self, share: f64) {
        self.say(Status { progress: Some(share.clamp(0.0, 1.0)), ..Status::default() });
    }

    /// When the next batch should leave; `None` if there is nothing to say.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        let gathered = self.shared.as_ref()?.gathered.lock();
        if gathered.is_silent() {
            return None;
        }
        let is_pressing = gathered.is_over || gathered.n_bytes >= BATCH_BYTES;
        let by_time = gathered.last_taken.map_or(now, |taken| taken + BATCH_EVERY);
        Some(if is_pressing { now } else { by_time })
    }

    /// The next batch.
    pub(crate) fn take(&self, now: Instant) -> Option<Batch> {
        let shared = self.shared.as_ref()?;
        let batch = shared.gathered.lock().take(now);
        shared.room.notify_one();
        batch
    }

    /// Nothing more will be said: what is left leaves without waiting for more.
    pub(crate) fn finish(&self) {
        if let Some(shared) = &self.shared {
            shared.gathered.lock().is_over = true;
        }
    }

    /// Forgets what was said and what will be.
    pub(crate) fn close(&self) {
        if let Some(shared) = &self.shared {
            let forgotten = Gathered { is_closed: true, is_announced: true, ..Gathered::default() };
            *shared.gathered.lock() = forgotten;
            shared.room.notify_one();
        }
    }
}

impl Shared {
    /// Changes what is gathered, and says so if that is news.
    fn with<T>(&self, change: impl FnOnce(&mut Gathered) -> T) -> T {
        let mut gathered = self.gathered.lock();
        let was_full = gathered.n_bytes >= BATCH_BYTES;
        let answer = change(&mut gathered);
        let is_news = !gathered.is_announced && !gathered.is_silent();
        let is_full = !was_full && gathered.n_bytes >= BATCH_BYTES;
        gathered.is_announced |= is_news;
        drop(gathered);
        if is_news || is_full {
            (self.wake)();
        }
        answer
    }
}

impl Gathered {
    fn room(&self) -> usize {
        if self.is_closed { usize::MAX } else { GATHERED_BYTES_MAX.saturating_sub(self.n_bytes) }
    }

    fn push(&mut self, channel: Channel, bytes: &[u8]) {
        if self.is_closed || bytes.is_empty() {
            return;
        }
        self.n_bytes += bytes.len();
        match self.pieces.back_mut() {
            Some((last, piece)) if *last == channel => piece.extend_from_slice(bytes),
            Some(_) | None => self.pieces.push_back((channel, BytesMut::from(bytes))),
        }
    }

    fn merge(&mut self, said: Status) {
        if self.is_closed {
            return;
        }
        let status = &mut self.status;
        status.stage = said.stage.map(|text| cut(&text, NAME_CHARS_MAX)).or(status.stage.take());
        status.progress = said.progress.or(status.progress);
        let message = said.message.map(|text| cut(&text, MESSAGE_CHARS_MAX));
        status.message = message.or(status.message.take());
        for (name, number) in said.metrics {
            if status.metrics.len() < METRICS_MAX || status.metrics.contains_key(&name) {
                status.metrics.insert(cut(&name, NAME_CHARS_MAX), number);
            }
        }
    }

    /// Whether there is nothing that could leave. Half a character cannot, until all is over.
    fn is_silent(&self) -> bool {
        let has_tails = self.is_over && !self.tails.is_empty();
        self.pieces.is_empty() && !has_tails && self.status == Status::default()
    }

    fn take(&mut self, now: Instant) -> Option<Batch> {
        let mut chunks = Vec::new();
        let mut room = BATCH_BYTES;
        while room > 0
            && let Some((channel, bytes)) = self.next_piece(room)
        {
            room -= bytes.len().min(room);
            if !bytes.is_empty() {
                chunks.push(chunk(channel, &bytes, self.offset));
                self.offset += bytes.len() as u64;
                self.n_bytes -= bytes.len();
            }
        }
        let status = std::mem::take(&mut self.status);
        self.is_announced = self.is_closed || !self.is_silent();
        let is_empty = chunks.is_empty() && status == Status::default();
        self.last_taken = if is_empty { self.last_taken } else { Some(now) };
        (!is_empty).then_some(Batch { status, chunks })
    }

    /// The next bytes of one channel, at most `room`, never cut inside a character.
    fn next_piece(&mut self, room: usize) -> Option<(Channel, Bytes)> {
        let Some((channel, mut piece)) = self.pieces.pop_front() else {
            return if self.is_over { self.tails.pop() } else { None };
        };
        if let Some(place) = self.tails.iter().position(|(held, _)| *held == channel) {
            let (_, tail) = self.tails.swap_remove(place);
            piece = BytesMut::from(&[&tail[..], &piece].concat()[..]);
        }
        let n_whole = whole_characters(&piece[..piece.len().min(room)]);
        if piece.len() <= room {
            let tail = piece.split_off(n_whole);
            if !tail.is_empty() {
                self.tails.push((channel, tail.freeze()));
            }
            return Some((channel, piece.freeze()));
        }
        let rest = piece.split_off(n_whole);
        self.pieces.push_front((channel, rest));
        // Where no character fits, the next batch has room for it.
        (n_whole > 0).then(|| (channel, piece.freeze()))
    }
}

/// How many bytes there are before a character that goes on after the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let n_before = bytes.len().saturating_sub(3);
    let last = bytes[n_before..].iter().rposition(|byte| *byte >= 0b1100_0000);
    let Some(start) = last.map(|place| n_before + place) else { return bytes.len() };
    let is_begun = match bytes[start..].utf8_chunks().next() {
        Some(chunk) => chunk.valid().is_empty() && chunk.invalid().len() == bytes.len() - start,
        None => false,
    };
    let n_wanted = match bytes[start] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 0,
    };
    if is_begun && bytes.len() - start < n_wanted { start } else { bytes.len() }
}

fn chunk(channel: Channel, bytes: &[u8], offset: u64) -> Chunk {
    let (text, data_base64) = match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(BASE64_STANDARD.encode(bytes))),
    };
    let metadata = RawValue::from_string(format!("{{\"offset\":{offset}}}")).ok();
    let metadata = metadata.and_then(OpenObject::new);
    Chunk { channel, index: None, mime_type: None, text, data_base64, metadata }
}

fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

impl fmt::Debug for FeedbackSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_bytes = self.shared.as_ref().map(|shared| shared.gathered.lock().n_bytes);
        out.debug_struct("FeedbackSink").field("n_bytes", &n_bytes).finish()
    }
}

#[cfg(test)]
mod tests;
