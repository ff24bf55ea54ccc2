//! One log, as it is written.

use std::fs::File;
use std::io::{self, Write};

use bytes::{Buf, Bytes};
use model::{LeaseId, TaskId, Timestamp};

use super::chunk::NewChunk;
use super::folder::{Folder, Segment};
use super::limits::SEGMENTS_PER_LOG;
use super::positions::Place;
use super::record::{Record, Source};
use super::recover::{LogState, recover};

/// Offsets end where JSON readers begin to round.
const OFFSET_MAX: u64 = 1 << 53;

/// A log and what is still to be written to it.
#[derive(Debug)]
pub(super) struct TaskLog {
    task: TaskId,
    /// What is in the files.
    kept: LogState,
    /// What will be, once `buffer` is written to the last file.
    draft: LogState,
    buffer: Vec<u8>,
    file: Option<File>,
}

impl TaskLog {
    /// The log as its files have it.
    pub(super) fn open(folder: &Folder, task: TaskId, segments: Vec<Segment>) -> io::Result<Self> {
        let kept = recover(folder, task, segments)?;
        let draft = kept.clone();
        Ok(Self { task, kept, draft, buffer: Vec::new(), file: None })
    }

    /// What is in the files.
    pub(super) fn kept(&self) -> &LogState {
        &self.kept
    }

    /// Adds what of the chunk is not held yet.
    pub(super) fn append(
        &mut self,
        folder: &Folder,
        lease: LeaseId,
        at: Timestamp,
        chunk: &NewChunk,
    ) -> io::Result<()> {
        let mut source = Source { epoch: lease.epoch, at, position: chunk.position };
        let mut rest = chunk.bytes.clone();
        if let Some(position) = chunk.position {
            let place = self.draft.positions.place(lease.epoch, position, rest.len() as u64);
            let Place::Fresh { skip, gap } = place else { return Ok(()) };
            self.lose_before(folder, source, gap)?;
            rest.advance(usize::try_from(skip).expect("less than the chunk"));
            source.position = Some(position + skip);
        }
        while !rest.is_empty() {
            let bytes = rest.split_to(piece(&rest, folder.limits.record_bytes_max()));
            let length = bytes.len() as u64;
            self.push(folder, &Record::Said { source, channel: chunk.channel, bytes })?;
            source.position = source.position.map(|position| position + length);
        }
        Ok(())
    }

    /// Notes that bytes without a place are lost.
    pub(super) fn lose(
        &mut self,
        folder: &Folder,
        lease: LeaseId,
        at: Timestamp,
        count: u64,
    ) -> io::Result<()> {
        let source = Source { epoch: lease.epoch, at, position: None };
        self.push_lost(folder, source, count)
    }

    /// Notes that everything that this attempt put out before `position` and that is not held is
    /// lost.
    pub(super) fn lose_until(
        &mut self,
        folder: &Folder,
        lease: LeaseId,
        at: Timestamp,
        position: u64,
    ) -> io::Result<()> {
        let Place::Fresh { gap, .. } = self.draft.positions.place(lease.epoch, position, 1) else {
            return Ok(());
        };
        let source = Source { epoch: lease.epoch, at, position: Some(position) };
        self.lose_before(folder, source, gap)
    }

    fn lose_before(&mut self, folder: &Folder, source: Source, gap: u64) -> io::Result<()> {
        let position = source.position.map(|position| position - gap);
        self.push_lost(folder, Source { position, ..source }, gap)
    }

    fn push_lost(&mut self, folder: &Folder, source: Source, count: u64) -> io::Result<()> {
        // A log that says it lost the universe would leave no offsets for what follows.
        let has_room = self.draft.offset.saturating_add(count) <= OFFSET_MAX;
        if count == 0 || !has_room {
            return Ok(());
        }
        self.push(folder, &Record::Lost { source, count })
    }

    fn push(&mut self, folder: &Folder, record: &Record) -> io::Result<()> {
        self.make_room(folder, record.file_bytes())?;
        record.encode(&mut self.buffer);
        record.advance(&mut self.draft.positions);
        self.draft.offset += record.length();
        Ok(())
    }

    /// Starts the next file if the last one would become too large.
    fn make_room(&mut self, folder: &Folder, n_bytes: u64) -> io::Result<()> {
        if let Some(last) = self.draft.segments.last() {
            let after = last.file_bytes + self.buffer.len() as u64 + n_bytes;
            if after <= folder.limits.segment_bytes_max() {
                return Ok(());
            }
            self.flush(folder)?;
        }
        let base = self.draft.offset;
        self.file = None;
        self.draft.segments.push(Segment { base, file_bytes: 0 });
        Record::Start { base, positions: self.draft.positions.clone() }.encode(&mut self.buffer);
        Ok(())
    }

    /// Writes what is to be written. If that fails, the log is as it was before.
    pub(super) fn flush(&mut self, folder: &Folder) -> io::Result<()> {
        let written = self.write(folder);
        match &written {
            Ok(()) => {}
            // Somebody removed the file; the log goes on in a new one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.forget_files(),
            Err(_) => self.roll_back(),
        }
        written
    }

    fn write(&mut self, folder: &Folder) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let last = self.draft.segments.last_mut().expect("records are in a segment");
        if self.file.is_none() {
            self.file = Some(folder.open_to_append(self.task, *last)?);
        }
        let file = self.file.as_mut().expect("opened above");
        file.write_all(&self.buffer)?;
        last.file_bytes += self.buffer.len() as u64;
        // Many logs are open at once; their buffers must not add up.
        self.buffer = Vec::new();
        while self.draft.segments.len() > SEGMENTS_PER_LOG {
            let oldest = self.draft.segments.remove(0);
            // A file that cannot be removed is found again by the next server.
            let _ = folder.remove(self.task, oldest.base);
        }
        self.kept.clone_from(&self.draft);
        Ok(())
    }

    /// Forgets what could not be written. Whatever of it reached the file is cut off when the file
    /// is opened again.
    fn roll_back(&mut self) {
        self.draft.clone_from(&self.kept);
        self.buffer = Vec::new();
        self.file = None;
    }

    /// The files were removed; offsets go on.
    pub(super) fn forget_files(&mut self) {
        self.roll_back();
        self.kept.segments.clear();
        self.draft.segments.clear();
    }

    pub(super) fn close_file(&mut self) {
        self.file = None;
    }
}

/// How much of the bytes goes into one record: whole characters, where there are any.
fn piece(bytes: &Bytes, bytes_max: usize) -> usize {
    if bytes.len() <= bytes_max {
        return bytes.len();
    }
    let is_start = |at: &usize| !(0x80..0xC0).contains(&bytes[*at]);
    (bytes_max - 3..=bytes_max).rev().find(is_start).unwrap_or(bytes_max)
}
