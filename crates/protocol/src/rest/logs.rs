//! Logs: what tasks put out, and how they fare.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// One line of `GET /tasks/{task_id}/log`: an entry, a gap, or the last line.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Where it begins: bytes of content since the log began. Absent in the last line.
    pub offset: Option<u64>,
    /// Where it ends. Give it as `offset` to go on from here.
    pub next_offset: u64,
    /// The attempt that put it out, by the number at the end of its `lease_id`.
    pub attempt: Option<u32>,
    /// Where it was put out: `stdout`, `stderr`, `log`, `llm`, `metric` or `custom`.
    pub channel: Option<String>,
    /// When it came in.
    #[schema(format = "date-time")]
    pub at: Option<String>,
    /// What it was, if it is text.
    pub text: Option<String>,
    /// What it was, if it is not.
    pub data_base64: Option<String>,
    /// So many bytes are not here: they were too old, or got lost.
    pub dropped: Option<u64>,
    /// Only in the last line: whether the task has come to its end, so that nothing follows.
    pub end: Option<bool>,
}

/// How a task fares, in its worker's words.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskFeedback {
    /// What it is at, in a word.
    pub stage: Option<String>,
    /// How much is done, from 0 to 1.
    pub progress: Option<f64>,
    /// What it is at, for people.
    pub message: Option<String>,
    /// The last value of each measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub metrics: BTreeMap<String, Number>,
    /// When it last said so.
    #[schema(format = "date-time")]
    pub at: String,
}
