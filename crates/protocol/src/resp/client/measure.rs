//! How long a reply is, found out by going over each of its bytes once.

use super::super::number;
use super::ReplyError;

/// No value is shorter on the wire: a kind and the end of a line.
const VALUE_BYTES_MIN: usize = 3;

/// How lines and bulks end.
const LINE_END: &[u8] = b"\r\n";

/// How far a reply was looked at.
#[derive(Debug)]
pub(super) struct Measure {
    /// Everything before is done with; a value begins here, or lies beyond what has come.
    at: usize,
    /// From `at` on, so many bytes hold no end of a line.
    n_searched: usize,
    /// How many values are still to come. A list is done when all its items are, so that one
    /// number stands for any nesting.
    n_missing: usize,
}

impl Default for Measure {
    fn default() -> Self {
        Self { at: 0, n_searched: 0, n_missing: 1 }
    }
}

impl Measure {
    /// Goes on through what has come. Gives the length of the reply once its last byte is there.
    pub(super) fn go_on(
        &mut self,
        buffer: &[u8],
        bytes_max: usize,
    ) -> Result<Option<usize>, ReplyError> {
        while self.n_missing > 0 {
            if !self.pass_value(buffer, bytes_max)? {
                return Ok(None);
            }
            let due = self.n_missing.saturating_mul(VALUE_BYTES_MIN);
            if self.at.saturating_add(due) > bytes_max {
                return Err(ReplyError::TooBig { bytes_max });
            }
        }
        Ok((self.at <= buffer.len()).then_some(self.at))
    }

    /// Goes past a value, or past the head of a list. Says whether it was there.
    fn pass_value(&mut self, buffer: &[u8], bytes_max: usize) -> Result<bool, ReplyError> {
        // What lies beyond the limit is not looked at: what is wrong with a reply must not depend
        // on the pieces in which it comes.
        let rest = buffer.get(self.at..buffer.len().min(bytes_max)).unwrap_or_default();
        let Some(line) = self.find_line(rest) else {
            if buffer.len() >= bytes_max {
                return Err(ReplyError::TooBig { bytes_max });
            }
            return Ok(false);
        };
        let kind = rest[0];
        let length = || read_length(&rest[1..line]);
        let (n_bytes, n_values) = match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (0, 0),
            b'$' | b'!' | b'=' => (length()?.map_or(0, |n| n.saturating_add(LINE_END.len())), 0),
            b'*' | b'~' | b'>' => (0, length()?.unwrap_or_default()),
            b'%' => (0, length()?.unwrap_or_default().saturating_mul(2)),
            other => return Err(ReplyError::UnsupportedKind(other)),
        };
        self.at = self.at.saturating_add(line).saturating_add(n_bytes);
        self.n_missing = (self.n_missing - 1).saturating_add(n_values);
        self.n_searched = 0;
        Ok(true)
    }

    fn find_line(&mut self, rest: &[u8]) -> Option<usize> {
        let fresh = rest.get(self.n_searched..).unwrap_or_default();
        let found = fresh.iter().position(|byte| *byte == b'\n');
        let line = found.map(|found| self.n_searched + found + 1);
        self.n_searched = rest.len();
        line
    }
}

/// Reads the length in the rest of a line; none stands for `-1`, which has nothing after it.
fn read_length(text: &[u8]) -> Result<Option<usize>, ReplyError> {
    let number = text.strip_suffix(LINE_END).and_then(number::parse);
    match number.ok_or(ReplyError::InvalidLength)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| ReplyError::InvalidLength),
    }
}
