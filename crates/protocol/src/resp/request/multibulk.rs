//! Requests as programs send them: an array of bulks.

use bytes::{Buf, Bytes, BytesMut};

use super::super::number;
use super::line::{Line, LineFinder};
use super::{Limits, ProtocolError, Step};

/// How lines and arguments end.
const LINE_END: &[u8] = b"\r\n";

/// Room that is made for arguments before they come. More is made as they come.
const ARGUMENTS_FORESEEN_MAX: usize = 16;

/// A request of which a part is there.
#[derive(Debug)]
pub(super) struct Multibulk {
    arguments: Vec<Bytes>,
    n_missing: usize,
    /// The length of the argument that is due, once its head was read.
    bulk_bytes: Option<usize>,
    /// What the request took of the wire, announced arguments included.
    wire_bytes: usize,
}

impl Multibulk {
    /// Reads `*N`.
    pub(super) fn open(
        buffer: &mut BytesMut,
        lines: &mut LineFinder,
        limits: &Limits,
    ) -> Result<Step, ProtocolError> {
        let line = match lines.find(buffer, limits.request_bytes_max) {
            Line::Found(line) => line,
            Line::Open => return Ok(Step::Starved),
            Line::TooLong => return Err(ProtocolError::TooBigMultibulkHeader),
            Line::NoRoom => return Err(ProtocolError::TooBigRequest),
        };
        let declared = read_length(&buffer[..line]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        buffer.advance(line);
        // Redis skips requests without arguments, also those with fewer than none.
        if declared <= 0 {
            return Ok(Step::Skipped);
        }
        let n_missing = usize::try_from(declared).unwrap_or(usize::MAX);
        if n_missing > limits.arguments_max {
            return Err(limits.refuse(
                ProtocolError::UnauthenticatedMultibulkLength,
                ProtocolError::InvalidMultibulkLength,
            ));
        }
        let arguments = Vec::with_capacity(n_missing.min(ARGUMENTS_FORESEEN_MAX));
        Ok(Step::Opened(Self { arguments, n_missing, bulk_bytes: None, wire_bytes: line }))
    }

    /// Reads arguments for as long as there are bytes.
    pub(super) fn read(
        &mut self,
        buffer: &mut BytesMut,
        lines: &mut LineFinder,
        limits: &Limits,
    ) -> Result<Step, ProtocolError> {
        while self.n_missing > 0 {
            let length = match self.bulk_bytes {
                Some(length) => length,
                None => match self.read_bulk_head(buffer, lines, limits)? {
                    Some(length) => length,
                    None => return Ok(Step::Starved),
                },
            };
            let Some(argument) = take_bulk(buffer, length)? else {
                self.bulk_bytes = Some(length);
                return Ok(Step::Starved);
            };
            self.bulk_bytes = None;
            self.arguments.push(argument);
            self.n_missing -= 1;
        }
        // Redis knows both as commands, whatever form they come in.
        let name = &self.arguments[0];
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            return Err(ProtocolError::CrossProtocol);
        }
        Ok(Step::Complete(std::mem::take(&mut self.arguments)))
    }

    /// Reads `$N`. Gives the length, once it is there and fits.
    fn read_bulk_head(
        &mut self,
        buffer: &mut BytesMut,
        lines: &mut LineFinder,
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        match buffer.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
        }
        let room = limits.request_bytes_max.saturating_sub(self.wire_bytes);
        let line = match lines.find(buffer, room) {
            Line::Found(line) => line,
            Line::Open => return Ok(None),
            Line::TooLong => return Err(ProtocolError::TooBigBulkHeader),
            Line::NoRoom => return Err(ProtocolError::TooBigRequest),
        };
        let declared = read_length(&buffer[..line]).ok_or(ProtocolError::InvalidBulkLength)?;
        let length = usize::try_from(declared).map_err(|_| ProtocolError::InvalidBulkLength)?;
        if length > limits.argument_bytes_max {
            return Err(limits.refuse(
                ProtocolError::UnauthenticatedBulkLength,
                ProtocolError::InvalidBulkLength,
            ));
        }
        let wire_bytes = line.saturating_add(length).saturating_add(LINE_END.len());
        if wire_bytes > room {
            return Err(ProtocolError::TooBigRequest);
        }
        self.wire_bytes += wire_bytes;
        buffer.advance(line);
        Ok(Some(length))
    }
}

/// Reads the number of a line like `*3` or `$5`. Redis looks for the carriage return alone; both
/// signs are asked for here, as everywhere, so that nobody disagrees about where a request ends.
fn read_length(line: &[u8]) -> Option<i64> {
    number::parse(line.strip_suffix(LINE_END)?.get(1..)?)
}

fn take_bulk(buffer: &mut BytesMut, length: usize) -> Result<Option<Bytes>, ProtocolError> {
    // Said as soon as it is known: the stream gives the same error in whatever pieces it comes.
    match buffer.get(length..).unwrap_or_default() {
        [b'\r', b'\n', ..] => {}
        [] | [b'\r'] => return Ok(None),
        _ => return Err(ProtocolError::ExpectedLineEnd),
    }
    let argument = buffer.split_to(length).freeze();
    buffer.advance(LINE_END.len());
    Ok(Some(argument))
}
