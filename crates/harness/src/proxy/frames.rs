//! Where messages of a WebSocket stream begin and end. Nothing is unmasked: a frame repeated byte
//! for byte is the same frame.

use bytes::{Bytes, BytesMut};

/// A head of an HTTP message that is longer is none.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A frame that is longer is none of ours; the rest of such a stream passes as it comes.
const FRAME_BYTES_MAX: u64 = 16 * 1024 * 1024;

const FINAL: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const OPCODE_TEXT: u8 = 1;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
const MASK_BYTES: usize = 4;

/// A part of a stream that is forwarded as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// Whether it is a whole text message, which may be repeated and moved.
    pub(super) is_text: bool,
}

/// Finds the pieces of one direction of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Splitter {
    /// The request to upgrade, or the answer to it, is not complete.
    #[default]
    Head,
    /// Frames follow.
    Frames,
    /// It is no WebSocket.
    Plain,
}

impl Splitter {
    /// Takes the next piece out of what has arrived, if it is complete.
    pub(super) fn next(&mut self, arrived: &mut BytesMut) -> Option<Piece> {
        match self {
            Self::Head => self.head(arrived),
            Self::Frames => self.frame(arrived),
            Self::Plain => plain(arrived),
        }
    }

    fn head(&mut self, arrived: &mut BytesMut) -> Option<Piece> {
        let end = arrived.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            if arrived.len() <= HEAD_BYTES_MAX {
                return None;
            }
            *self = Self::Plain;
            return plain(arrived);
        };
        let head = arrived.split_to(end + 4).freeze();
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        *self = if text.contains("upgrade: websocket") { Self::Frames } else { Self::Plain };
        Some(Piece { bytes: head, is_text: false })
    }

    fn frame(&mut self, arrived: &mut BytesMut) -> Option<Piece> {
        let (first, length) = (*arrived.first()?, frame_length(arrived)?);
        if length > FRAME_BYTES_MAX {
            *self = Self::Plain;
            return plain(arrived);
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= arrived.len())?;
        let bytes = arrived.split_to(length).freeze();
        Some(Piece { bytes, is_text: first & (FINAL | OPCODE) == FINAL | OPCODE_TEXT })
    }
}

/// The length of the frame with its header, if the header is complete.
fn frame_length(arrived: &[u8]) -> Option<u64> {
    let second = *arrived.get(1)?;
    let (header, payload) = match second & LENGTH {
        126 => (4, u64::from(u16::from_be_bytes(arrived.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(arrived.get(2..10)?.try_into().ok()?)),
        short => (2, u64::from(short)),
    };
    let mask = if second & MASKED == 0 { 0 } else { MASK_BYTES };
    Some(payload.saturating_add(header + mask as u64))
}

fn plain(arrived: &mut BytesMut) -> Option<Piece> {
    let bytes = arrived.split().freeze();
    (!bytes.is_empty()).then_some(Piece { bytes, is_text: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET /ws/worker HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let masked = [&[0x81, 0x83, 1, 2, 3, 4], &b"abc"[..]].concat();
        let long = [&[0x81, 126, 0x01, 0x00], &[b'x'; 256][..]].concat();
        let longer = [&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0], &vec![b'y'; 65_536][..]].concat();
        let ping = vec![0x89, 0];
        let part_of_many = vec![0x01, 1, b'z'];
        let all = [HEAD.to_vec(), masked, ping, long, part_of_many, longer];
        let expected: Vec<_> = all.iter().map(|bytes| (bytes.len(), bytes[0] == 0x81)).collect();
        for step in [1, 7, 100_000] {
            assert_eq!(pieces(&all.concat(), step), expected, "in steps of {step}");
        }
    }

    #[test]
    fn what_is_no_web_socket_passes_as_it_comes() {
        let answer = b"HTTP/1.1 401 Unauthorized\r\n\r\n\x81\x01";
        assert_eq!(pieces(answer, 1000), [(29, false), (2, false)]);
    }

    fn pieces(stream: &[u8], step: usize) -> Vec<(usize, bool)> {
        let (mut splitter, mut arrived) = (Splitter::default(), BytesMut::new());
        let mut found = Vec::new();
        for bytes in stream.chunks(step) {
            arrived.extend_from_slice(bytes);
            while let Some(piece) = splitter.next(&mut arrived) {
                found.push((piece.bytes.len(), piece.is_text));
            }
        }
        assert!(arrived.is_empty());
        found
    }
}
