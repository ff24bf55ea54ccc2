//! The envelope of every frame: who speaks, about what, and where the frame stands in its stream.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::alias;
use super::decode::{DEPTH_MAX, DecodeError, FRAME_BYTES_MAX, is_nested_deeper_than};
use super::quick::{Last, QuickEnvelope};
use super::read::{Fields, Path, Value};

/// The most hints that a frame may carry.
pub const FLAGS_MAX: usize = 64;

/// A frame: one JSON object in one text message.
///
/// The payload stays raw: its type is chosen by `kind`, and business payloads are carried without
/// being looked into. It is read by a [`Reader`] alone, which knows the limits, and
/// written by [`Envelope::to_text`]. What all frames of a burst have in common is shared.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Which payload it is: `control.*`, `biz.*` or `ext.<vendor>.*`.
    pub kind: Cow<'static, str>,
    /// Names this frame within its session.
    pub id: String,
    /// When it was sent: RFC 3339 with an offset.
    pub ts: Arc<str>,
    /// Whose it is; must be the tenant of the connection's credential.
    pub tenant: Arc<str>,
    /// Who speaks.
    pub sender: Sender,
    /// What it answers or belongs to: a lease, a task, a request.
    pub corr: Option<String>,
    /// The counter of the run, not of the transport.
    pub seq: Option<u64>,
    /// The counter of the transport, per direction, from 1; never on `control.*` frames.
    pub session_seq: Option<u64>,
    /// Asks for an acknowledgement, or is one.
    pub ack: Option<AckMark>,
    /// Reserved hints.
    pub flags: Option<Vec<String>>,
    /// What is said.
    pub payload: Box<RawValue>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Which end of the conversation.
    pub role: SenderRole,
    /// The worker's instance id, or the scheduler's name.
    pub id: Arc<str>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckMark {
    /// The id of the frame that is acknowledged.
    pub of: Option<String>,
    /// Whether the sender waits for an acknowledgement of this frame.
    pub request: Option<bool>,
}

/// Reads the frames of one connection; what they have in common is kept once.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    last: Last,
}

impl Reader {
    /// Reads a frame that came as bytes, whether it was sent as text or as binary.
    pub fn read_bytes(&mut self, bytes: &[u8]) -> Result<Envelope, DecodeError> {
        check_size(bytes.len())?;
        let text = std::str::from_utf8(bytes)
            .map_err(|error| DecodeError::Malformed { why: error.to_string() })?;
        self.read_text(text)
    }

    /// Reads a frame. Keys that are not known are passed over.
    pub fn read_text(&mut self, text: &str) -> Result<Envelope, DecodeError> {
        check_size(text.len())?;
        if is_nested_deeper_than(text, DEPTH_MAX) {
            return Err(DecodeError::TooDeep);
        }
        match QuickEnvelope::read(text, &mut self.last) {
            Some(frame) => Ok(frame),
            None => Envelope::from_text_leniently(text),
        }
    }
}

impl Envelope {
    /// Reads a single frame as [`Reader::read_bytes`] does.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::default().read_bytes(bytes)
    }

    /// Reads a single frame as [`Reader::read_text`] does.
    pub fn from_text(text: &str) -> Result<Self, DecodeError> {
        Reader::default().read_text(text)
    }

    /// Reads what is spelled in older ways too, and says what is wrong with what is not a frame.
    pub(super) fn from_text_leniently(text: &str) -> Result<Self, DecodeError> {
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| DecodeError::Malformed { why: error.to_string() })?;
        Self::read(&Value::new(raw, Path::root("frame")).object()?)
    }

    fn read(fields: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: alias::shared_name(&fields.required("type", Value::short_name)?),
            id: fields.required("id", Value::short_name)?,
            ts: fields.required("ts", Value::moment)?.into(),
            tenant: fields.required("tenant", Value::short_name)?.into(),
            sender: fields.required("sender", Sender::read)?,
            corr: fields.optional("corr", Value::short_text)?,
            seq: fields.optional("seq", Value::count)?,
            session_seq: fields.optional("session_seq", Value::count)?,
            ack: fields.optional("ack", AckMark::read)?,
            flags: fields.optional("flags", read_flags)?,
            payload: fields.required("payload", Value::open)?.into_raw(),
        })
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
            id: fields.required("id", Value::short_name)?.into(),
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
