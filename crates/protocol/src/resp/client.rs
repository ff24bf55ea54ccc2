//! The other end: writes requests and reads replies, for our own clients.

mod measure;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use resp_rs::ParseError;
use resp_rs::resp3::{Frame, parse_frame};

use super::reply::{Reply, write_array_head, write_bulk};
use measure::Measure;

/// Before the text of a verbatim string stand its kind and a colon.
const VERBATIM_KIND_BYTES: usize = 4;

/// Writes a request: the name of a command and its arguments.
pub fn encode_request(out: &mut BytesMut, arguments: &[impl AsRef<[u8]>]) {
    write_array_head(out, arguments.len());
    for argument in arguments {
        write_bulk(out, argument.as_ref());
    }
}

/// Why the replies of a server cannot be read any further.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplyError {
    /// One reply is larger than we are willing to keep.
    #[error("a reply is longer than {bytes_max} bytes")]
    TooBig {
        /// What one reply may take.
        bytes_max: usize,
    },
    /// A length is no number, or is below -1.
    #[error("a reply holds a length that is none")]
    InvalidLength,
    /// A kind of reply that nobody sends unasked: attributes and streams.
    #[error("a reply of kind '{}' is not supported", .0.escape_ascii())]
    UnsupportedKind(u8),
    /// It has the right length and the wrong contents.
    #[error("a reply cannot be read")]
    Malformed(#[source] ParseError),
}

/// Cuts replies out of a stream. It takes both versions of the protocol.
#[derive(Debug)]
pub struct ReplyReader {
    bytes_max: usize,
    place: Place,
}

/// Where the reader is in the stream.
#[derive(Debug)]
enum Place {
    /// In a reply, of which so much is known.
    Reading(Measure),
    /// After an error, which is final.
    Broken(ReplyError),
}

impl ReplyReader {
    /// A reader at the start of a stream, for replies of at most so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, place: Place::Reading(Measure::default()) }
    }

    /// Takes the next reply off the buffer. None asks for more bytes.
    ///
    /// Between two calls bytes may be added to the end of the buffer and nothing else. An error is
    /// final; each further call gives it again.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>, ReplyError> {
        let read = match &mut self.place {
            Place::Reading(measure) => read(measure, buffer, self.bytes_max),
            Place::Broken(error) => Err(error.clone()),
        };
        if let Err(error) = &read {
            self.place = Place::Broken(error.clone());
        }
        read
    }
}

/// The library parses from the start of a reply each time. So it is asked once, when all is there.
fn read(
    measure: &mut Measure,
    buffer: &mut BytesMut,
    bytes_max: usize,
) -> Result<Option<Reply>, ReplyError> {
    let Some(length) = measure.go_on(buffer, bytes_max)? else {
        return Ok(None);
    };
    *measure = Measure::default();
    let bytes = buffer.split_to(length).freeze();
    let (frame, rest) = parse_frame(bytes).map_err(ReplyError::Malformed)?;
    if !rest.is_empty() {
        return Err(ReplyError::Malformed(ParseError::InvalidFormat));
    }
    reply_of(frame).map(Some)
}

fn reply_of(frame: Frame) -> Result<Reply, ReplyError> {
    Ok(match frame {
        Frame::SimpleString(text) => Reply::Simple(text_of(&text)),
        Frame::Error(text) | Frame::BlobError(text) => Reply::Error(text_of(&text)),
        Frame::Integer(number) => Reply::Integer(number),
        Frame::Boolean(yes) => Reply::from(yes),
        Frame::BulkString(None) | Frame::Null => Reply::Null,
        Frame::BulkString(Some(bytes)) | Frame::BigNumber(bytes) => Reply::Bulk(bytes),
        Frame::Double(number) => Reply::Double(number),
        Frame::SpecialFloat(text) => Reply::Double(special_float(&text)),
        Frame::VerbatimString { payload } => {
            let text = payload.get(VERBATIM_KIND_BYTES..).unwrap_or_default();
            Reply::Text(String::from_utf8_lossy(text).into_owned())
        }
        Frame::Array(None) => Reply::NullArray,
        Frame::Array(Some(items)) => Reply::Array(replies_of(items)?),
        Frame::Set(items) => Reply::Set(replies_of(items)?),
        Frame::Push(items) => Reply::Push(replies_of(items)?),
        Frame::Map(pairs) => Reply::Map(
            pairs
                .into_iter()
                .map(|(key, value)| Ok((reply_of(key)?, reply_of(value)?)))
                .collect::<Result<_, ReplyError>>()?,
        ),
        // The rest are attributes and streams, which the measure does not let through.
        _ => return Err(ReplyError::Malformed(ParseError::InvalidFormat)),
    })
}

fn replies_of(frames: Vec<Frame>) -> Result<Vec<Reply>, ReplyError> {
    frames.into_iter().map(reply_of).collect()
}

fn text_of(bytes: &Bytes) -> Cow<'static, str> {
    Cow::Owned(String::from_utf8_lossy(bytes).into_owned())
}

fn special_float(text: &[u8]) -> f64 {
    match text {
        b"inf" => f64::INFINITY,
        b"-inf" => f64::NEG_INFINITY,
        _ => f64::NAN,
    }
}
