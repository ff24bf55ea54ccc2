//! From the chunks of a frame to bytes with a place.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use protocol::session::payload::feedback::{Channel, Chunk};
use serde::Deserialize;

/// A position beyond this is taken for none: nothing puts out so much, and offsets stay numbers
/// that every JSON reader can hold.
const POSITION_MAX: u64 = 1 << 48;

/// Workers pad or do not pad; both are understood.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Something that a task put out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewChunk {
    pub(super) channel: Channel,
    /// Where it stands in what its attempt put out on all channels together, if the worker says so.
    pub(super) position: Option<u64>,
    pub(super) bytes: Bytes,
}

impl NewChunk {
    /// Where the next byte of the attempt stands.
    pub(super) fn next_position(&self) -> Option<u64> {
        self.position.map(|position| position + self.bytes.len() as u64)
    }
}

/// What can be read of the chunks, and how many cannot.
pub(super) fn read_chunks(chunks: Vec<Chunk>) -> (Vec<NewChunk>, usize) {
    let n_sent = chunks.len();
    let read: Vec<_> = chunks.into_iter().filter_map(read_chunk).collect();
    let n_unreadable = n_sent - read.len();
    (read.into_iter().filter(|chunk| !chunk.bytes.is_empty()).collect(), n_unreadable)
}

fn read_chunk(chunk: Chunk) -> Option<NewChunk> {
    #[derive(Deserialize)]
    struct Place {
        offset: Option<u64>,
    }
    let bytes = match (chunk.text, chunk.data_base64) {
        (Some(text), _) => Bytes::from(text),
        (None, Some(data)) => Bytes::from(BASE64.decode(data).ok()?),
        (None, None) => Bytes::new(),
    };
    // Metadata is the worker's own; an `offset` that means something else is no place.
    let place: Option<Place> =
        chunk.metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
    let position = place.and_then(|place| place.offset).filter(|offset| *offset <= POSITION_MAX);
    Some(NewChunk { channel: chunk.channel, position, bytes })
}

#[cfg(test)]
mod tests {
    use protocol::session::open::OpenObject;
    use serde_json::value::RawValue;

    use super::*;

    fn chunk(text: Option<&str>, data: Option<&str>, metadata: &str) -> Chunk {
        let metadata = RawValue::from_string(metadata.to_owned()).expect("JSON");
        Chunk {
            channel: Channel::Log,
            index: None,
            mime_type: None,
            text: text.map(str::to_owned),
            data_base64: data.map(str::to_owned),
            metadata: OpenObject::new(metadata),
        }
    }

    #[test]
    fn bytes_and_places_are_read() {
        let chunks = vec![
            chunk(Some("hé"), None, r#"{"offset": 7, "other": [1]}"#),
            chunk(None, Some("/wA="), r#"{"offset": "seven"}"#),
            chunk(None, Some("/wA"), r#"{"offset": 281474976710657}"#),
            chunk(None, Some("not base64!"), "{}"),
            chunk(Some(""), None, r#"{"offset": 9}"#),
            chunk(None, None, "{}"),
        ];
        let (read, n_unreadable) = read_chunks(chunks);
        assert_eq!(n_unreadable, 1);
        let read: Vec<_> = read.iter().map(|chunk| (chunk.position, &chunk.bytes[..])).collect();
        let binary = &[0xff, 0][..];
        assert_eq!(read, [(Some(7), "hé".as_bytes()), (None, binary), (None, binary)]);
    }
}
