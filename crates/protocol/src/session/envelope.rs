//! The envelope of every frame: who speaks, about what, and where the frame stands in its stream.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::decode::{DEPTH_MAX, DecodeError, FRAME_BYTES_MAX, is_nested_deeper_than};
use super::encode::EncodeError;
use super::read::{Fields, Path, Value};

/// The most hints that a frame may carry.
pub const FLAGS_MAX: usize = 64;

/// A frame: one JSON object in one text message.
///
/// The payload stays raw: its type is chosen by `kind`, and business payloads are carried without
/// being looked into. It is read by [`Envelope::from_text`] alone, which knows the limits.
#[derive(Clone, Debug, Serialize)]
pub struct Envelope {
    /// Which payload it is: `control.*`, `biz.*` or `ext.<vendor>.*`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Names this frame within its session.
    pub id: String,
    /// When it was sent: RFC 3339 with an offset.
    pub ts: String,
    /// Whose it is; must be the tenant of the connection's credential.
    pub tenant: String,
    /// Who speaks.
    pub sender: Sender,
    /// What it answers or belongs to: a lease, a task, a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corr: Option<String>,
    /// The counter of the run, not of the transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The counter of the transport, per direction, from 1; never on `control.*` frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_seq: Option<u64>,
    /// Asks for an acknowledgement, or is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<AckMark>,
    /// Reserved hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// What is said.
    pub payload: Box<RawValue>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sender {
    /// Which end of the conversation.
    pub role: SenderRole,
    /// The worker's instance id, or the scheduler's name.
    pub id: String,
}

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderRole {
    /// The server.
    Scheduler,
    /// A worker.
    Worker,
}

/// The envelope's part of an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AckMark {
    /// The id of the frame that is acknowledged.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Whether the sender waits for an acknowledgement of this frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<bool>,
}

impl Envelope {
    /// Reads a frame that came as bytes, whether it was sent as text or as binary.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_size(bytes.len())?;
        let text = std::str::from_utf8(bytes)
            .map_err(|error| DecodeError::Malformed { why: error.to_string() })?;
        Self::from_text(text)
    }

    /// Reads a frame. Keys that are not known are passed over.
    pub fn from_text(text: &str) -> Result<Self, DecodeError> {
        check_size(text.len())?;
        if is_nested_deeper_than(text, DEPTH_MAX) {
            return Err(DecodeError::TooDeep);
        }
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| DecodeError::Malformed { why: error.to_string() })?;
        Self::read(&Value::new(raw, Path::root("frame")).object()?)
    }

    fn read(fields: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: fields.required("type", Value::short_name)?,
            id: fields.required("id", Value::short_name)?,
            ts: fields.required("ts", Value::moment)?,
            tenant: fields.required("tenant", Value::short_name)?,
            sender: fields.required("sender", Sender::read)?,
            corr: fields.optional("corr", Value::short_text)?,
            seq: fields.optional("seq", Value::count)?,
            session_seq: fields.optional("session_seq", Value::count)?,
            ack: fields.optional("ack", AckMark::read)?,
            flags: fields.optional("flags", read_flags)?,
            payload: fields.required("payload", Value::open)?.into_raw(),
        })
    }

    /// Writes the frame, or refuses one that its peer would not take.
    pub fn to_text(&self) -> Result<String, EncodeError> {
        let text = serde_json::to_string(self).expect("frames have keys of text only");
        if text.len() > FRAME_BYTES_MAX {
            return Err(EncodeError::TooLarge { id: self.id.clone(), bytes: text.len() });
        }
        Ok(text)
    }
}

fn check_size(bytes: usize) -> Result<(), DecodeError> {
    if bytes > FRAME_BYTES_MAX { Err(DecodeError::TooLarge { bytes }) } else { Ok(()) }
}

fn read_flags(value: &Value<'_>) -> Result<Vec<String>, DecodeError> {
    let flags = value.list(Value::short_name)?;
    if flags.len() > FLAGS_MAX { Err(value.refuse("at most 64 hints")) } else { Ok(flags) }
}

impl Sender {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            role: fields.required("role", |role| role.word("scheduler or worker"))?,
            id: fields.required("id", Value::short_name)?,
        })
    }
}

impl AckMark {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            of: fields.optional("for", Value::short_text)?,
            request: fields.optional("request", Value::flag)?,
        })
    }
}
