//! Things that live on one worker: what a task needs, what it leaves behind, and how the server
//! reads it, part by part, when it has room for it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::super::codec::{DecodeError, Object, OpenObject, raw};
use super::super::read::read;
use super::super::rule::{Moment, Positive, Rule, Text};
use super::exec::CodedError;

/// Something that must already be on the worker.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceRef {
    /// Which resource.
    pub resource_id: String,
    /// The worker that has it.
    pub worker_name: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// How long it is kept, in a word.
    #[serde(deserialize_with = "Text::read")]
    pub scope: Option<String>,
    /// How long it is kept, as a moment.
    #[serde(deserialize_with = "Moment::read")]
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
}

impl ResourceRef {
    /// Seed 001 section 3.1 calls the owner `worker_id`.
    pub(super) fn encode_plain(&self) -> Box<RawValue> {
        let mut keys = vec![
            ("resource_id", raw(&self.resource_id)),
            ("worker_id", raw(&self.worker_name)),
            ("type", raw(&self.resource_type)),
        ];
        keys.extend(self.scope.as_ref().map(|scope| ("scope", raw(scope))));
        keys.extend(self.expires_at.as_ref().map(|moment| ("expires_at", raw(moment))));
        keys.extend(self.metadata.as_ref().map(|metadata| ("metadata", raw(metadata))));
        raw(&Object(&keys))
    }
}

/// Keeps related tasks on one worker.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// What relates them.
    pub key: String,
    /// How much it matters.
    pub mode: Option<AffinityMode>,
    /// Until when.
    #[serde(deserialize_with = "Moment::read")]
    pub expires_at: Option<String>,
}

/// How much an affinity matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AffinityMode {
    /// That worker or none.
    Sticky,
    /// That worker if it is free.
    Preferred,
}

/// Something that a task leaves on its worker.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Which resource.
    pub resource_id: String,
    /// The worker that has it.
    pub worker_name: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// How large it is.
    pub size_bytes: Option<u64>,
    /// Whether the result already holds the data.
    pub inline: Option<bool>,
    /// How long it is kept. Any text: a result is worth more than the form of a hint in it.
    #[serde(deserialize_with = "Text::read")]
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
}

impl Artifact {
    /// Reads one that stands outside of a frame.
    pub fn decode(artifact: &RawValue) -> Result<Self, DecodeError> {
        read("artifact", artifact)
    }
}

/// The largest part, before it is encoded.
pub const CHUNK_BYTES_MAX: u64 = 64 << 10;

/// The server wants a part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// Names the request within its session.
    pub request_id: String,
    /// Which resource.
    pub resource_id: String,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes at most; a worker never sends more than [`CHUNK_BYTES_MAX`].
    #[serde(deserialize_with = "Positive::read")]
    pub length: u64,
}

/// A part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceChunk {
    /// The request that is answered.
    pub request_id: String,
    /// From which byte on.
    pub offset: u64,
    /// The bytes, in base64.
    #[serde(deserialize_with = "Text::read")]
    pub data: String,
    /// Whether nothing comes after them.
    pub eof: bool,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CodedError>,
}

/// A run has ended: what workers keep for it can go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Which run; resources of the scope with this name go.
    pub run_id: String,
}
