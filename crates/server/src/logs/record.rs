//! What a log's file is made of: records, each with its length and a checksum.
//!
//! ```text
//! record = length of the body (u32) · checksum of the body (u32) · body
//! body   = 0 · base (u64) · n (u16) · n times: epoch (u32), position (u64)      a segment starts
//!        | 1 · channel (u8) · epoch (u32) · at (u64) · position (u64) · bytes   something was said
//!        | 2 · epoch (u32) · at (u64) · position (u64) · count (u64)            bytes are lost
//! ```
//! Numbers are little-endian, `at` counts milliseconds since 1970, and a position of all ones
//! stands for none. A segment starts with what its forerunners knew of positions, so that those can
//! be removed. [`Positions`] recognise output that is sent again.

use std::collections::BTreeMap;
use std::io;
use std::io::Read;

use aws_lc_rs::digest;
use bytes::{Buf, Bytes};
use model::Timestamp;
use protocol::session::payload::exec::Channel;

use super::folder::RECORD_BYTES_MAX;

/// What stands before a body.
const FRAME_BYTES: usize = 8;
/// What a body holds beside content, at most, or nearly so.
const HEAD_BYTES: usize = 32;
const BODY_BYTES_MAX: usize = RECORD_BYTES_MAX + HEAD_BYTES;
const NO_POSITION: u64 = u64::MAX;
const START: u8 = 0;
const SAID: u8 = 1;
const LOST: u8 = 2;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A segment starts.
    Start { base: u64, positions: Positions },
    /// A task said something.
    Said { source: Source, channel: Channel, bytes: Bytes },
    /// So many bytes are not here.
    Lost { source: Source, count: u64 },
}

/// Who said it, when, and where it stands in what that attempt said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) epoch: u32,
    pub(super) at: Timestamp,
    pub(super) position: Option<u64>,
}

impl Record {
    /// How far it moves the log's offset.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Start { .. } => 0,
            Self::Said { bytes, .. } => bytes.len() as u64,
            Self::Lost { count, .. } => *count,
        }
    }

    /// What it takes in a file, at most.
    pub(super) fn file_bytes(&self) -> u64 {
        let content = match self {
            Self::Start { positions, .. } => 12 * positions.iter().len(),
            Self::Said { bytes, .. } => bytes.len(),
            Self::Lost { .. } => 0,
        };
        (FRAME_BYTES + HEAD_BYTES + content) as u64
    }

    /// Notes what it says about positions.
    pub(super) fn advance(&self, positions: &mut Positions) {
        match self {
            Self::Start { positions: known, .. } => positions.clone_from(known),
            Self::Said { source, .. } | Self::Lost { source, .. } => {
                if let Some(position) = source.position {
                    positions.advance(source.epoch, position.saturating_add(self.length()));
                }
            }
        }
    }

    /// Writes it to the end of `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let frame = out.len();
        out.extend_from_slice(&[0; FRAME_BYTES]);
        match self {
            Self::Start { base, positions } => encode_start(out, *base, positions),
            Self::Said { source, channel, bytes } => {
                out.extend_from_slice(&[SAID, channel_code(*channel)]);
                encode_source(out, source);
                out.extend_from_slice(bytes);
            }
            Self::Lost { source, count } => {
                out.push(LOST);
                encode_source(out, source);
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
        let (before, body) = out.split_at_mut(frame + FRAME_BYTES);
        let length = u32::try_from(body.len()).expect("bodies are bounded");
        before[frame..frame + 4].copy_from_slice(&length.to_le_bytes());
        before[frame + 4..].copy_from_slice(&checksum(body));
    }

    /// The next record, with the bytes that it takes; `None` at the end, and where a write was cut
    /// off or damaged.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<(Self, u64)>> {
        let mut frame = [0; FRAME_BYTES];
        if !read_whole(from, &mut frame)? {
            return Ok(None);
        }
        let (length, sum) = frame.split_at(4);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        if length == 0 || length > BODY_BYTES_MAX {
            return Ok(None);
        }
        let mut body = vec![0; length];
        if !read_whole(from, &mut body)? || checksum(&body) != sum {
            return Ok(None);
        }
        Ok(decode(body.into()).map(|record| (record, (FRAME_BYTES + length) as u64)))
    }
}

fn encode_start(out: &mut Vec<u8>, base: u64, positions: &Positions) {
    out.push(START);
    out.extend_from_slice(&base.to_le_bytes());
    let count = u16::try_from(positions.iter().len()).expect("at most EPOCHS_MAX");
    out.extend_from_slice(&count.to_le_bytes());
    for (epoch, position) in positions.iter() {
        out.extend_from_slice(&epoch.to_le_bytes());
        out.extend_from_slice(&position.to_le_bytes());
    }
}

fn encode_source(out: &mut Vec<u8>, source: &Source) {
    out.extend_from_slice(&source.epoch.to_le_bytes());
    out.extend_from_slice(&source.at.as_millis().to_le_bytes());
    out.extend_from_slice(&source.position.unwrap_or(NO_POSITION).to_le_bytes());
}

/// `None` for a body that this version does not write.
fn decode(mut body: Bytes) -> Option<Record> {
    match body.try_get_u8().ok()? {
        START => decode_start(body),
        SAID => {
            let channel = channel_of(body.try_get_u8().ok()?)?;
            let source = decode_source(&mut body)?;
            Some(Record::Said { source, channel, bytes: body })
        }
        LOST => {
            let source = decode_source(&mut body)?;
            let count = body.try_get_u64_le().ok()?;
            Some(Record::Lost { source, count })
        }
        _ => None, // A later version's; what follows it cannot be placed either.
    }
}

fn decode_start(mut body: Bytes) -> Option<Record> {
    let base = body.try_get_u64_le().ok()?;
    let mut positions = Positions::default();
    for _ in 0..body.try_get_u16_le().ok()? {
        let epoch = body.try_get_u32_le().ok()?;
        positions.advance(epoch, body.try_get_u64_le().ok()?);
    }
    Some(Record::Start { base, positions })
}

fn decode_source(body: &mut Bytes) -> Option<Source> {
    let epoch = body.try_get_u32_le().ok()?;
    let at = Timestamp::from_millis(body.try_get_u64_le().ok()?);
    let position = body.try_get_u64_le().ok()?;
    Some(Source { epoch, at, position: (position != NO_POSITION).then_some(position) })
}

/// Whether there was enough to fill the buffer.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The beginning of a SHA-256: it is at hand, and fast on today's machines.
fn checksum(body: &[u8]) -> [u8; 4] {
    let digest = digest::digest(&digest::SHA256, body);
    let (first, _) = digest.as_ref().split_first_chunk().expect("32 bytes");
    *first
}

/// Their places are their codes in files.
const CHANNELS: [Channel; 6] = [
    Channel::Stdout,
    Channel::Stderr,
    Channel::Log,
    Channel::Llm,
    Channel::Metric,
    Channel::Custom,
];

fn channel_code(channel: Channel) -> u8 {
    let code = CHANNELS.iter().position(|known| *known == channel);
    code.and_then(|code| u8::try_from(code).ok()).expect("every channel has a code")
}

fn channel_of(code: u8) -> Option<Channel> {
    CHANNELS.get(usize::from(code)).copied()
}

/// Attempts of one task whose position is known; what an older one sends late is not kept.
const EPOCHS_MAX: usize = 64;

/// For each lease epoch, the byte of its output that comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Positions(BTreeMap<u32, u64>);

/// What is to be done with bytes that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing: all of them are held.
    Held,
    /// Note that `gap` bytes before them never came, leave out the first `skip` and keep the rest.
    Fresh { skip: u64, gap: u64 },
}

impl Positions {
    /// Where `length` bytes from `position` on belong.
    pub(super) fn place(&self, epoch: u32, position: u64, length: u64) -> Place {
        if self.has_forgotten(epoch) {
            return Place::Held;
        }
        let next = self.next_of(epoch);
        if position + length <= next {
            return Place::Held;
        }
        Place::Fresh { skip: next.saturating_sub(position), gap: position.saturating_sub(next) }
    }

    /// Everything before `next` is held, or known to be lost.
    pub(super) fn advance(&mut self, epoch: u32, next: u64) {
        let known = self.0.entry(epoch).or_default();
        *known = next.max(*known);
        if self.0.len() > EPOCHS_MAX {
            self.0.pop_first();
        }
    }

    /// The byte that comes next.
    pub(super) fn next_of(&self, epoch: u32) -> u64 {
        self.0.get(&epoch).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u64)> {
        self.0.iter().map(|(epoch, next)| (*epoch, *next))
    }

    /// Whether the epoch is older than all that are remembered.
    fn has_forgotten(&self, epoch: u32) -> bool {
        let oldest = self.0.first_key_value().map(|(oldest, _)| *oldest);
        self.0.len() == EPOCHS_MAX && oldest.is_some_and(|oldest| epoch < oldest)
    }
}

#[cfg(test)]
mod record_tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let mut positions = Positions::default();
        positions.advance(1, 7);
        positions.advance(3, 1 << 40);
        let at = Timestamp::from_millis(1_790_000_000_123);
        let source = Source { epoch: 3, at, position: Some(17) };
        let loose = Source { position: None, ..source };
        let mut examples = vec![
            Record::Start { base: 12, positions },
            Record::Start { base: 0, positions: Positions::default() },
            Record::Lost { source, count: 4096 },
            Record::Lost { source: loose, count: 1 },
        ];
        for channel in CHANNELS {
            examples.push(Record::Said { source, channel, bytes: Bytes::from_static(b"hello\n") });
            examples.push(Record::Said { source: loose, channel, bytes: Bytes::new() });
        }
        examples
    }

    #[test]
    fn records_come_back_one_after_the_other() {
        let mut file = Vec::new();
        for record in examples() {
            record.encode(&mut file);
        }
        let mut rest = file.as_slice();
        for expected in examples() {
            let before = rest.len();
            let (record, n_bytes) = Record::read(&mut rest).expect("memory").expect("a record");
            assert_eq!(record, expected);
            assert_eq!(n_bytes, (before - rest.len()) as u64);
            assert!(n_bytes <= record.file_bytes());
        }
        assert_eq!(Record::read(&mut rest).expect("memory"), None);
    }

    #[test]
    fn a_record_that_was_cut_off_or_changed_is_none() {
        for record in examples() {
            let mut file = Vec::new();
            record.encode(&mut file);
            for length in 0..file.len() {
                assert_eq!(Record::read(&mut &file[..length]).expect("memory"), None, "{length}");
            }
            for at in 0..file.len() {
                let mut changed = file.clone();
                changed[at] ^= 0x10;
                assert_eq!(Record::read(&mut changed.as_slice()).expect("memory"), None, "{at}");
            }
        }
        assert_eq!(Record::read(&mut &[0; 64][..]).expect("memory"), None, "a tail of zeros");
    }
}

#[cfg(test)]
mod positions_tests {
    use super::*;

    #[test]
    fn what_is_held_is_left_out_and_what_never_came_is_noted() {
        let mut positions = Positions::default();
        assert_eq!(positions.place(1, 0, 4), Place::Fresh { skip: 0, gap: 0 });
        positions.advance(1, 4);
        assert_eq!(positions.place(1, 0, 4), Place::Held);
        assert_eq!(positions.place(1, 3, 1), Place::Held);
        assert_eq!(positions.place(1, 2, 5), Place::Fresh { skip: 2, gap: 0 });
        assert_eq!(positions.place(1, 9, 1), Place::Fresh { skip: 0, gap: 5 });
        assert_eq!(positions.place(2, 0, 1), Place::Fresh { skip: 0, gap: 0 });
    }

    #[test]
    fn attempts_that_are_long_over_are_forgotten() {
        let mut positions = Positions::default();
        for epoch in 1..=200 {
            positions.advance(epoch, 10);
        }
        assert_eq!(positions.iter().len(), EPOCHS_MAX);
        assert_eq!(positions.place(1, 50, 1), Place::Held);
        assert_eq!(positions.place(201, 0, 1), Place::Fresh { skip: 0, gap: 0 });
    }
}
