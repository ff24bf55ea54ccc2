//! The Redis protocol, byte for byte and against hostile peers.

mod chance;
mod client;
mod properties;
mod replies;
mod requests;

use bytes::BytesMut;

use protocol::resp::request::{Limits, ProtocolError, RequestReader};

/// Roomy enough for what is not about limits.
pub(crate) const ROOMY: Limits =
    Limits { arguments_max: 1024, argument_bytes_max: 1 << 20, request_bytes_max: 1 << 21 };

/// What became of a stream: the requests in it, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) requests: Vec<Vec<Vec<u8>>>,
    pub(crate) error: Option<ProtocolError>,
}

/// Reads a stream that comes in these pieces.
pub(crate) fn read_pieces<'a>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Reading {
    let mut reader = RequestReader::new(limits);
    let mut buffer = BytesMut::new();
    let mut reading = Reading { requests: Vec::new(), error: None };
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match reader.next(&mut buffer) {
                Ok(Some(request)) => {
                    let arguments = request.arguments.iter().map(|bytes| bytes.to_vec()).collect();
                    reading.requests.push(arguments);
                }
                Ok(None) => break,
                Err(error) => {
                    reading.error = Some(error);
                    return reading;
                }
            }
        }
    }
    reading
}

/// Reads a stream at once, byte by byte, and in two halves at each place; all must agree.
pub(crate) fn read_in_every_way(limits: Limits, stream: &[u8]) -> Reading {
    let reading = read_pieces(limits, [stream]);
    assert_eq!(read_pieces(limits, stream.chunks(1)), reading, "byte by byte");
    for middle in 0..stream.len().min(200) {
        let (left, right) = stream.split_at(middle);
        assert_eq!(read_pieces(limits, [left, right]), reading, "cut at {middle}");
    }
    reading
}
