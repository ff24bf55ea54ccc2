//! A log as it should be, byte by byte.

use std::collections::BTreeMap;

use protocol::session::payload::exec::Channel;

use super::super::{LogContent, LogEntry};

/// One byte of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Said { epoch: u32, channel: Channel, byte: u8 },
    Lost,
}

/// The whole log, however long.
#[derive(Debug, Default)]
pub(super) struct ModelLog {
    pub(super) cells: Vec<Cell>,
    next: BTreeMap<u32, u64>,
}

impl ModelLog {
    pub(super) fn next_of(&self, epoch: u32) -> u64 {
        self.next.get(&epoch).copied().unwrap_or(0)
    }

    pub(super) fn take(
        &mut self,
        epoch: u32,
        channel: Channel,
        position: Option<u64>,
        bytes: &[u8],
    ) {
        for (at, byte) in bytes.iter().enumerate() {
            if let Some(position) = position {
                let (position, next) = (position + at as u64, self.next_of(epoch));
                if position < next {
                    continue;
                }
                self.cells.extend((next..position).map(|_| Cell::Lost));
                self.next.insert(epoch, position + 1);
            }
            self.cells.push(Cell::Said { epoch, channel, byte: *byte });
        }
    }

    /// Where the log begins if everything before `offset` is missing: what never came is no cut.
    pub(super) fn cut_at(&self, offset: u64) -> u64 {
        let is_cut = self.cells[..index(offset)].iter().any(|cell| *cell != Cell::Lost);
        if is_cut { offset } else { 0 }
    }

    /// Whether the entries are the log from `offset` on. What lies before `kept_from` may be gone.
    pub(super) fn check(&self, entries: &[LogEntry], offset: u64, kept_from: u64) {
        let mut at = offset;
        for entry in entries {
            let (start, end) = (index(entry.offset), index(entry.next_offset));
            let cells = &self.cells[start..end];
            match &entry.content {
                LogContent::Dropped => {
                    let from = index(kept_from).clamp(start, end) - start;
                    assert!(cells[from..].iter().all(|cell| *cell == Cell::Lost), "{entry:?}");
                }
                LogContent::Said { attempt, channel, bytes, .. } => {
                    let said =
                        |byte: &u8| Cell::Said { epoch: *attempt, channel: *channel, byte: *byte };
                    assert_eq!(cells, bytes.iter().map(said).collect::<Vec<_>>());
                }
            }
            at = entry.next_offset;
        }
        assert_eq!(index(at), self.cells.len().max(index(offset)), "the log is whole");
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("small")
}
