//! The envelope of every frame: who speaks, about what, and where the frame stands in its stream.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use model::is_deeper_than;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::codec::{
    DEPTH_MAX, DecodeError, EncodeError, FRAME_BYTES_MAX, INTEGER_MAX, NAME_CHARS_MAX,
};
use super::kind;
use super::read::{Object, Str, read};
use super::rule::{Moment, Rule, ShortName, ShortText, is_moment};
use super::window::ENVELOPE_BYTES;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderRole {
    /// The server.
    Scheduler,
    /// A worker.
    Worker,
}

/// The envelope's part of an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AckMark {
    /// The id of the frame that is acknowledged.
    #[serde(rename = "for", deserialize_with = "ShortText::read")]
    pub of: Option<String>,
    /// Whether the sender waits for an acknowledgement of this frame.
    pub request: Option<bool>,
}

/// Reads the frames of one connection; what they have in common is kept once.
///
/// Most frames of a connection say the same about themselves as the last one did.
#[derive(Clone, Debug)]
pub struct Reader {
    ts: Arc<str>,
    tenant: Arc<str>,
    sender_id: Arc<str>,
}

impl Default for Reader {
    fn default() -> Self {
        let nothing: Arc<str> = Arc::default();
        Self { ts: Arc::clone(&nothing), tenant: Arc::clone(&nothing), sender_id: nothing }
    }
}

fn share(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = text.into();
    }
    Arc::clone(last)
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
        if is_deeper_than(text.as_bytes(), DEPTH_MAX) {
            return Err(DecodeError::TooDeep);
        }
        match EnvelopeText::of_ours(text) {
            Some(frame) => Ok(self.keep(frame)),
            None => self.read_leniently(text),
        }
    }

    /// Reads what is spelled in older ways too, and says what is wrong with what is not a frame.
    pub(super) fn read_leniently(&mut self, text: &str) -> Result<Envelope, DecodeError> {
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| DecodeError::Malformed { why: error.to_string() })?;
        read("frame", raw).map(|frame| self.keep(frame))
    }

    pub(super) fn keep(&mut self, frame: EnvelopeText<'_>) -> Envelope {
        let Object(sender) = frame.sender;
        Envelope {
            kind: kind::shared_name(&frame.kind.0),
            id: frame.id.0.into_owned(),
            ts: share(&mut self.ts, &frame.ts.0),
            tenant: share(&mut self.tenant, &frame.tenant.0),
            sender: Sender { role: sender.role, id: share(&mut self.sender_id, &sender.id.0) },
            corr: frame.corr,
            seq: frame.seq,
            session_seq: frame.session_seq,
            ack: frame.ack.map(|Object(mark)| mark),
            flags: frame.flags,
            payload: frame.payload.to_owned(),
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
}

fn check_size(bytes: usize) -> Result<(), DecodeError> {
    if bytes > FRAME_BYTES_MAX { Err(DecodeError::TooLarge { bytes }) } else { Ok(()) }
}

/// An envelope as it stands in a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvelopeText<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "ShortName::read")]
    kind: Str<'a>,
    #[serde(borrow, deserialize_with = "ShortName::read")]
    id: Str<'a>,
    #[serde(borrow, deserialize_with = "Moment::read")]
    ts: Str<'a>,
    #[serde(borrow, deserialize_with = "ShortName::read")]
    tenant: Str<'a>,
    #[serde(borrow)]
    sender: Object<SenderText<'a>>,
    #[serde(default, deserialize_with = "ShortText::read")]
    corr: Option<String>,
    seq: Option<u64>,
    session_seq: Option<u64>,
    ack: Option<Object<AckMark>>,
    #[serde(default, deserialize_with = "flags")]
    flags: Option<Vec<String>>,
    #[serde(borrow, deserialize_with = "object")]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SenderText<'a> {
    #[serde(deserialize_with = "role")]
    role: SenderRole,
    #[serde(borrow, deserialize_with = "ShortName::read")]
    id: Str<'a>,
}

impl<'a> EnvelopeText<'a> {
    /// Reads a frame that is spelled as we spell it, in one pass and without copies.
    ///
    /// It takes less than the lenient reader does, never more and never otherwise: what it does
    /// not take is read leniently, which also finds the words for a refusal.
    pub(super) fn of_ours(text: &'a str) -> Option<Self> {
        let Object(frame): Object<Self> = serde_json::from_str(text).ok()?;
        frame.is_within_limits().then_some(frame)
    }

    fn is_within_limits(&self) -> bool {
        let flags = self.flags.as_deref().unwrap_or_default();
        let named = self.ack.as_ref().and_then(|Object(mark)| mark.of.as_ref());
        [&self.kind, &self.id, &self.tenant, &self.sender.0.id]
            .into_iter()
            .all(|it| is_short_name(&it.0))
            && flags.iter().all(|flag| is_short_name(flag))
            && [self.corr.as_ref(), named]
                .into_iter()
                .flatten()
                .all(|text| text.len() <= NAME_CHARS_MAX)
            && [self.seq, self.session_seq].into_iter().flatten().all(|count| count <= INTEGER_MAX)
            && is_moment(&self.ts.0)
    }
}

// Counted in bytes, so never longer than the limit in characters allows.
fn is_short_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
}

// A derived enum would also be read from `{"worker": null}`.
fn role<'de, D: Deserializer<'de>>(value: D) -> Result<SenderRole, D::Error> {
    match Str::deserialize(value) {
        Ok(Str(word)) if word == "worker" => Ok(SenderRole::Worker),
        Ok(Str(word)) if word == "scheduler" => Ok(SenderRole::Scheduler),
        Ok(_) | Err(_) => Err(D::Error::custom("scheduler or worker")),
    }
}

fn flags<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<String>>, D::Error> {
    let flags: Option<Vec<String>> = ShortName::read(value)?;
    let is_short = flags.as_ref().is_none_or(|flags| flags.len() <= FLAGS_MAX);
    if is_short { Ok(flags) } else { Err(D::Error::custom("at most 64 hints")) }
}

fn object<'de, D: Deserializer<'de>>(value: D) -> Result<&'de RawValue, D::Error> {
    let raw = <&RawValue>::deserialize(value)?;
    if raw.get().starts_with('{') { Ok(raw) } else { Err(D::Error::custom("an object")) }
}

impl Envelope {
    /// Writes the frame, or refuses one that its peer would not take.
    pub fn to_text(&self) -> Result<String, EncodeError> {
        let mut text = String::with_capacity(ENVELOPE_BYTES + self.payload.get().len());
        self.write_to(&mut text)?;
        Ok(text)
    }

    /// Writes the frame after what is in `out`; a frame that its peer would not take leaves no
    /// trace there.
    pub fn write_to(&self, out: &mut String) -> Result<(), EncodeError> {
        let from = out.len();
        self.write(out);
        let bytes = out.len() - from;
        if bytes > FRAME_BYTES_MAX {
            out.truncate(from);
            return Err(EncodeError { id: self.id.clone(), bytes });
        }
        Ok(())
    }

    fn write(&self, out: &mut String) {
        out.push_str("{\"type\":");
        write_text(out, &self.kind);
        out.push_str(",\"id\":");
        write_text(out, &self.id);
        out.push_str(",\"ts\":");
        write_text(out, &self.ts);
        out.push_str(",\"tenant\":");
        write_text(out, &self.tenant);
        out.push_str(match self.sender.role {
            SenderRole::Scheduler => ",\"sender\":{\"role\":\"scheduler\",\"id\":",
            SenderRole::Worker => ",\"sender\":{\"role\":\"worker\",\"id\":",
        });
        write_text(out, &self.sender.id);
        out.push('}');
        if let Some(corr) = &self.corr {
            out.push_str(",\"corr\":");
            write_text(out, corr);
        }
        write_number(out, ",\"seq\":", self.seq);
        write_number(out, ",\"session_seq\":", self.session_seq);
        if let Some(ack) = &self.ack {
            write_ack(out, ack);
        }
        if let Some(flags) = &self.flags {
            write_flags(out, flags);
        }
        out.push_str(",\"payload\":");
        out.push_str(self.payload.get());
        out.push('}');
    }
}

fn write_ack(out: &mut String, ack: &AckMark) {
    out.push_str(",\"ack\":{");
    if let Some(of) = &ack.of {
        out.push_str("\"for\":");
        write_text(out, of);
    }
    if let Some(request) = ack.request {
        out.push_str(if ack.of.is_some() { ",\"request\":" } else { "\"request\":" });
        out.push_str(if request { "true" } else { "false" });
    }
    out.push('}');
}

fn write_flags(out: &mut String, flags: &[String]) {
    out.push_str(",\"flags\":[");
    for (idx, flag) in flags.iter().enumerate() {
        if idx > 0 {
            out.push(',');
        }
        write_text(out, flag);
    }
    out.push(']');
}

pub(super) fn write_number(out: &mut String, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        out.push_str(key);
        write!(out, "{number}").expect("writing to a string cannot fail");
    }
}

pub(super) fn write_text(out: &mut String, text: &str) {
    // Without a way out of the loop the compiler looks at many bytes at once.
    let is_special = |byte: u8| u8::from(matches!(byte, 0..0x20 | b'"' | b'\\'));
    let any_special = text.bytes().fold(0, |any, byte| any | is_special(byte));
    if any_special == 0 {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::to_string(text).expect("text is always JSON"));
    }
}
