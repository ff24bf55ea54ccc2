//! Where lines end, when they come in pieces.

/// A line may grow to this, its end included: a head of a request, or a command typed by hand.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Remembers how far it looked, so that no byte is looked at twice.
#[derive(Debug, Default)]
pub(super) struct LineFinder {
    n_searched: usize,
}

/// What is known of the line that a buffer begins with.
pub(super) enum Line {
    /// It has so many bytes, its end included.
    Found(usize),
    /// Its end has not come.
    Open,
    /// It is longer than any line may be.
    TooLong,
    /// It is longer than the room that is left for it.
    NoRoom,
}

impl LineFinder {
    /// Looks for the end of the line that the buffer begins with.
    ///
    /// What lies beyond the room is not looked at: whether a line is too long must not depend on
    /// the pieces in which it comes.
    pub(super) fn find(&mut self, buffer: &[u8], room: usize) -> Line {
        let reach = buffer.len().min(room).min(LINE_BYTES_MAX);
        let fresh = buffer.get(self.n_searched..reach).unwrap_or_default();
        if let Some(found) = fresh.iter().position(|byte| *byte == b'\n') {
            let line = self.n_searched + found + 1;
            self.n_searched = 0;
            return Line::Found(line);
        }
        self.n_searched = reach;
        if reach == LINE_BYTES_MAX {
            Line::TooLong
        } else if reach == room {
            Line::NoRoom
        } else {
            Line::Open
        }
    }
}
