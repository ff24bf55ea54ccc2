//! How a task fares while it runs. It decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::super::decode::DecodeError;
use super::super::open::OpenObject;
use super::super::read::Value;

/// The worker says how it goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feedback {
    /// The run that it belongs to.
    pub run_id: String,
    /// Which task.
    pub task_id: String,
    /// What it is at, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How much is done, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// What it is at, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it put out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<Chunk>>,
    /// What it measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, Number>>,
    /// Whatever else; `results` in it is a part of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

impl Feedback {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            run_id: fields.required("run_id", Value::name)?,
            task_id: fields.required("task_id", Value::name)?,
            stage: fields.optional("stage", Value::text)?,
            progress: fields.optional("progress", Value::fraction)?,
            message: fields.optional("message", Value::text)?,
            chunks: fields.optional("chunks", |value| value.list(Chunk::read))?,
            metrics: fields.optional("metrics", |value| value.map(Value::exact_number))?,
            metadata: fields.optional("metadata", Value::open)?,
        })
    }
}

/// A piece of what a task puts out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chunk {
    /// Where it was put out.
    pub channel: Channel,
    /// Its place in the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// What kind of data it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The data, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The data, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// Whatever else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

impl Chunk {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let channel = |value: &Value<'_>| value.word("stdout, stderr, log, llm, metric or custom");
        Ok(Self {
            channel: fields.required("channel", channel)?,
            index: fields.optional("index", Value::count)?,
            mime_type: fields.optional("mime_type", Value::text)?,
            text: fields.optional("text", Value::text)?,
            data_base64: fields.optional("data_base64", Value::text)?,
            metadata: fields.optional("metadata", Value::open)?,
        })
    }
}

/// Where a task puts something out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
    /// A log.
    Log,
    /// The words of a language model.
    Llm,
    /// Measures.
    Metric,
    /// Anything else.
    Custom,
}
