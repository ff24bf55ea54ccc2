//! Reads a log, a page at a time, from any offset.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use bytes::Bytes;
use model::{TaskId, Timestamp};
use protocol::session::payload::exec::Channel;

use super::folder::Segment;
use super::record::Record;
use super::writer::Shared;

/// Entries on a page, however small they are.
const PAGE_ENTRIES_MAX: usize = 1024;
/// How much is read from a file at once.
const READ_BYTES: usize = 64 * 1024;

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Where it begins.
    pub offset: u64,
    /// Where it ends.
    pub next_offset: u64,
    /// What is there.
    pub content: LogContent,
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogContent {
    /// Something that the task put out.
    Said {
        /// The attempt, by its lease's epoch.
        attempt: u32,
        /// Where it was put out.
        channel: Channel,
        /// When it came in.
        at: Timestamp,
        /// What it was.
        bytes: Bytes,
    },
    /// Nothing: it was too old, or got lost.
    Dropped,
}

/// Consecutive pieces of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The pieces, without holes between them.
    pub entries: Vec<LogEntry>,
    /// Where to go on. Without entries it is the end of the log, which may lie before the offset
    /// that was asked for.
    pub next_offset: u64,
}

/// Where a reader stands in a log.
#[derive(Clone, Debug)]
pub struct LogCursor {
    task: TaskId,
    offset: u64,
    mark: Option<Mark>,
}

/// A place between two records that need not be looked for again.
#[derive(Clone, Copy, Debug)]
struct Mark {
    base: u64,
    file_position: u64,
    offset: u64,
}

impl LogCursor {
    /// A reader that wants the log from `offset` on.
    pub fn new(task: TaskId, offset: u64) -> Self {
        Self { task, offset, mark: None }
    }

    /// What it wants next.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next page, of at most `bytes_max` bytes. Blocks.
    pub(super) fn read(&mut self, shared: &Shared, bytes_max: usize) -> io::Result<LogPage> {
        let segments = shared.index.lock().segments(&shared.folder, self.task)?;
        let mut page = Page::new(self.offset, bytes_max);
        let first = segments.partition_point(|segment| segment.base <= self.offset);
        let mut end = 0;
        for segment in &segments[first.saturating_sub(1)..] {
            page.skip_to(segment.base);
            end = match self.read_segment(shared, *segment, &mut page) {
                Ok(end) => end,
                // It was removed a moment ago: what was in it is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => segment.base,
                Err(error) => return Err(error),
            };
            if page.is_full() {
                break;
            }
        }
        self.offset = page.offset;
        let next_offset = if page.entries.is_empty() { end.min(page.offset) } else { page.offset };
        Ok(LogPage { entries: page.entries, next_offset })
    }

    /// Puts what is wanted of a segment on the page; gives the offset at which it stopped.
    fn read_segment(
        &mut self,
        shared: &Shared,
        segment: Segment,
        page: &mut Page,
    ) -> io::Result<u64> {
        let start = Mark { base: segment.base, file_position: 0, offset: segment.base };
        let known =
            self.mark.filter(|mark| mark.base == segment.base && mark.offset <= page.offset);
        let mut mark = known.unwrap_or(start);
        if mark.file_position >= segment.file_bytes {
            return Ok(mark.offset);
        }
        let file = shared.folder.open_to_read(self.task, segment.base)?;
        let mut records = records_of(file, segment, mark)?;
        while !page.is_full() {
            let Some((record, n_bytes)) = Record::read(&mut records)? else { break };
            let next = mark.offset + record.length();
            page.add(mark.offset, record);
            if page.offset < next {
                break;
            }
            mark.offset = next;
            mark.file_position += n_bytes;
        }
        self.mark = Some(mark);
        Ok(mark.offset)
    }
}

/// What counts of a file, from the mark on.
fn records_of(mut file: File, segment: Segment, mark: Mark) -> io::Result<impl Read> {
    file.seek(SeekFrom::Start(mark.file_position))?;
    let rest = file.take(segment.file_bytes - mark.file_position);
    Ok(BufReader::with_capacity(READ_BYTES, rest))
}

/// A page that is being filled.
struct Page {
    entries: Vec<LogEntry>,
    /// What is wanted next.
    offset: u64,
    room: usize,
}

impl Page {
    fn new(offset: u64, bytes_max: usize) -> Self {
        Self { entries: Vec::new(), offset, room: bytes_max }
    }

    fn is_full(&self) -> bool {
        self.room == 0 || self.entries.len() >= PAGE_ENTRIES_MAX
    }

    /// Adds what is wanted of a record that stands at `offset`, if there is room for all of it. The
    /// first entry is cut rather than left out.
    fn add(&mut self, offset: u64, record: Record) {
        let length = record.length();
        let skip = self.offset.saturating_sub(offset);
        if length <= skip {
            return;
        }
        match record {
            Record::Start { .. } => {}
            Record::Lost { .. } => self.skip_to(offset + length),
            Record::Said { source, channel, bytes } => {
                let skip = usize::try_from(skip).expect("less than the record");
                let Some(bytes) = self.fit(bytes.slice(skip..)) else { return };
                let (attempt, at) = (source.epoch, source.at);
                self.room -= bytes.len();
                let next_offset = self.offset + bytes.len() as u64;
                self.push(next_offset, LogContent::Said { attempt, channel, at, bytes });
            }
        }
    }

    fn fit(&mut self, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() <= self.room {
            return Some(bytes);
        }
        if !self.entries.is_empty() {
            self.room = 0;
            return None;
        }
        let is_start = |at: &usize| !(0x80..0xC0).contains(&bytes[*at]);
        let whole = (self.room.saturating_sub(3)..=self.room).rev().find(is_start);
        let length = whole.filter(|length| *length > 0).unwrap_or(self.room);
        self.room = length;
        Some(bytes.slice(..length))
    }

    /// Everything before `offset` that is still wanted is not there.
    fn skip_to(&mut self, offset: u64) {
        if offset > self.offset {
            self.push(offset, LogContent::Dropped);
        }
    }

    fn push(&mut self, next_offset: u64, content: LogContent) {
        // Neighbouring holes are one hole.
        if let (LogContent::Dropped, Some(last)) = (&content, self.entries.last_mut())
            && last.content == LogContent::Dropped
        {
            last.next_offset = next_offset;
        } else {
            self.entries.push(LogEntry { offset: self.offset, next_offset, content });
        }
        self.offset = next_offset;
    }
}
