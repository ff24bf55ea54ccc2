//! Things that live on one worker: what a task needs, and what it leaves behind.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::alias;
use super::super::decode::DecodeError;
use super::super::encode::{Object, raw};
use super::super::open::OpenObject;
use super::super::read::{Path, Value};

/// Something that must already be on the worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceRef {
    /// Which resource.
    pub resource_id: String,
    /// The worker that has it.
    pub worker_name: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// How long it is kept, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// How long it is kept, as a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

impl ResourceRef {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            resource_id: fields.required("resource_id", Value::name)?,
            worker_name: fields.required(alias::OWNER, Value::name)?,
            resource_type: fields.required("type", Value::name)?,
            scope: fields.optional("scope", Value::text)?,
            expires_at: fields.optional("expires_at", Value::moment)?,
            metadata: fields.optional("metadata", Value::open)?,
        })
    }

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Affinity {
    /// What relates them.
    pub key: String,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AffinityMode>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl Affinity {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            key: fields.required("key", Value::name)?,
            mode: fields.optional("mode", |mode| mode.word("sticky or preferred"))?,
            expires_at: fields.optional("expires_at", Value::moment)?,
        })
    }
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Artifact {
    /// Which resource.
    pub resource_id: String,
    /// The worker that has it.
    pub worker_name: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// How large it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether the result already holds the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<bool>,
    /// How long it is kept. Any text: a result is worth more than the form of a hint in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

impl Artifact {
    /// Reads one that stands outside of a frame.
    pub fn decode(artifact: &RawValue) -> Result<Self, DecodeError> {
        Self::read(&Value::new(artifact, Path::root("artifact")))
    }

    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            resource_id: fields.required("resource_id", Value::name)?,
            worker_name: fields.required(alias::OWNER, Value::name)?,
            resource_type: fields.required("type", Value::name)?,
            size_bytes: fields.optional("size_bytes", Value::count)?,
            inline: fields.optional("inline", Value::flag)?,
            expires_at: fields.optional("expires_at", Value::text)?,
            metadata: fields.optional("metadata", Value::open)?,
        })
    }
}
