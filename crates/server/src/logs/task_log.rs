//! One log: as it is written, while it is open, and as it is found after a restart.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::io::{BufReader, Write};

use bytes::{Buf, Bytes};
use foldhash::fast::RandomState;
use model::{LeaseId, TaskId, Timestamp};
use parking_lot::Mutex;

use super::folder::{Folder, Index, SEGMENTS_PER_LOG, Segment};
use super::hub::NewChunk;
use super::record::{Place, Positions, Record, Source};

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

/// Logs whose state is in memory; that of another one is read from its last file.
const STATES_MAX: usize = 65_536;
/// Files that are open for writing.
const FILES_MAX: usize = 128;

/// The logs that were written last.
#[derive(Debug)]
pub(super) struct OpenLogs {
    logs: HashMap<TaskId, TaskLog, RandomState>,
    used: Recent<TaskId>,
    with_file: Recent<TaskId>,
}

impl OpenLogs {
    pub(super) fn new() -> Self {
        Self { logs: HashMap::default(), used: Recent::new(), with_file: Recent::new() }
    }

    /// The log of a task, from memory or from its files.
    pub(super) fn open(
        &mut self,
        folder: &Folder,
        index: &Mutex<Index>,
        task: TaskId,
    ) -> io::Result<&mut TaskLog> {
        let log = match self.logs.entry(task) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let segments = index.lock().segments(folder, task)?;
                unknown.insert(TaskLog::open(folder, task, segments)?)
            }
        };
        self.used.touch(task);
        Ok(log)
    }

    /// Writes what was added to a log; gives the log as its files have it.
    pub(super) fn flush(&mut self, folder: &Folder, task: TaskId) -> io::Result<&TaskLog> {
        self.with_file.touch(task);
        while self.with_file.len() > FILES_MAX {
            let oldest = self.with_file.pop_oldest();
            if let Some(log) = oldest.and_then(|oldest| self.logs.get_mut(&oldest)) {
                log.close_file();
            }
        }
        let log = self.logs.get_mut(&task).expect("only open logs are added to");
        log.flush(folder)?;
        Ok(log)
    }

    /// The files of a log were removed.
    pub(super) fn forget_files(&mut self, task: TaskId) {
        if let Some(log) = self.logs.get_mut(&task) {
            log.forget_files();
        }
    }

    /// Closes what was not used for longest. Only between batches: nothing is half done then.
    pub(super) fn shrink(&mut self) {
        while self.used.len() > STATES_MAX {
            let Some(oldest) = self.used.pop_oldest() else { break };
            self.logs.remove(&oldest);
            self.with_file.remove(oldest);
        }
    }
}

/// Where a log stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogState {
    /// Its files, oldest first; the last one is written to.
    pub(super) segments: Vec<Segment>,
    /// The offset of the next byte.
    pub(super) offset: u64,
    /// How much of each attempt is held.
    pub(super) positions: Positions,
}

/// The state that these files stand for. A tail that was cut off by a crash does not count; a file
/// without a whole beginning says nothing and is removed.
pub(super) fn recover(
    folder: &Folder,
    task: TaskId,
    mut segments: Vec<Segment>,
) -> io::Result<LogState> {
    while let Some(last) = segments.last_mut() {
        if let Some((offset, positions, file_bytes)) = scan(folder, task, last.base)? {
            last.file_bytes = file_bytes;
            return Ok(LogState { segments, offset, positions });
        }
        folder.remove(task, last.base)?;
        segments.pop();
    }
    Ok(LogState::default())
}

fn scan(folder: &Folder, task: TaskId, base: u64) -> io::Result<Option<(u64, Positions, u64)>> {
    let mut file = BufReader::new(folder.open_to_read(task, base)?);
    let (mut offset, mut positions, mut file_bytes) = (base, Positions::default(), 0);
    while let Some((record, n_bytes)) = Record::read(&mut file)? {
        let is_first = file_bytes == 0;
        if is_first && !matches!(record, Record::Start { base: told, .. } if told == base) {
            return Ok(None);
        }
        record.advance(&mut positions);
        offset += record.length();
        file_bytes += n_bytes;
    }
    Ok((file_bytes > 0).then_some((offset, positions, file_bytes)))
}

/// Which keys were used, and in which order.
#[derive(Debug)]
pub(super) struct Recent<K> {
    by_turn: BTreeMap<u64, K>,
    turns: HashMap<K, u64, RandomState>,
    next_turn: u64,
}

impl<K: Copy + Eq + Hash> Recent<K> {
    pub(super) fn new() -> Self {
        Self { by_turn: BTreeMap::new(), turns: HashMap::default(), next_turn: 0 }
    }

    /// The key is in use.
    pub(super) fn touch(&mut self, key: K) {
        let turn = self.next_turn;
        self.next_turn += 1;
        if let Some(before) = self.turns.insert(key, turn) {
            self.by_turn.remove(&before);
        }
        self.by_turn.insert(turn, key);
    }

    pub(super) fn remove(&mut self, key: K) {
        if let Some(turn) = self.turns.remove(&key) {
            self.by_turn.remove(&turn);
        }
    }

    /// Takes the key that was not used for longest.
    pub(super) fn pop_oldest(&mut self) -> Option<K> {
        let (_, key) = self.by_turn.pop_first()?;
        self.turns.remove(&key);
        Some(key)
    }

    pub(super) fn len(&self) -> usize {
        self.by_turn.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_goes_last() {
        let mut recent = Recent::new();
        for key in [1, 2, 3, 1] {
            recent.touch(key);
        }
        recent.remove(3);
        assert_eq!(recent.len(), 2);
        assert_eq!((recent.pop_oldest(), recent.pop_oldest()), (Some(2), Some(1)));
        assert_eq!(recent.pop_oldest(), None);
    }
}
