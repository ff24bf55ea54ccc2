//! What a log knows of itself after a restart: read from its last file alone.

use std::io::{self, BufReader};

use model::TaskId;

use super::folder::{Folder, Segment};
use super::positions::Positions;
use super::record::Record;

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
