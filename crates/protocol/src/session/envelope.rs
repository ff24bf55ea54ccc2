//! The envelope of every frame: who speaks, about what, and where the frame stands in its stream.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A frame: one JSON object in one text message.
///
/// The payload stays raw: its type is chosen by `kind`, and business payloads are carried without
/// being looked into.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr: Option<String>,
    /// The counter of the run, not of the transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The counter of the transport, per direction, from 1; never on `control.*` frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_seq: Option<u64>,
    /// Asks for an acknowledgement, or is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<AckMark>,
    /// Reserved hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// What is said.
    pub payload: Box<RawValue>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckMark {
    /// The id of the frame that is acknowledged.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Whether the sender waits for an acknowledgement of this frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<bool>,
}
