//! What events tell about nodes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatusWord {
    /// It waits for a worker, for a moment or for a word.
    Queued,
    /// A worker was chosen and has not confirmed yet.
    Dispatching,
    /// A worker executes it.
    Running,
    /// It is done.
    Completed,
    /// It failed for good.
    Failed,
    /// It was stopped, or given up.
    Cancelled,
    /// There was nothing to do.
    Skipped,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventError<'a> {
    /// A short code, like `E.RUNNER.FAILURE`.
    pub code: Cow<'a, str>,
    /// A sentence for people.
    pub message: Cow<'a, str>,
}

/// `node.status`: a node moved on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatusData<'a> {
    /// `node.status`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node, or which middleware, by its author's id.
    pub node_id: Cow<'a, str>,
    /// The task that executes it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// Where it stands.
    pub status: NodeStatusWord,
    /// Who executes it, or did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<Cow<'a, str>>,
    /// Which attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The subgraph that was entered; absent for the workflow itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u32>,
    /// Which element of the list, where the node is executed once per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Whether an earlier run did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
}

/// `node.error`: an attempt of a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeErrorData<'a> {
    /// `node.error`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node, or which middleware.
    pub node_id: Cow<'a, str>,
    /// The task that executes it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// Why.
    pub error: EventError<'a>,
    /// Which attempt.
    pub attempt: u32,
    /// Whether it is tried again.
    pub will_retry: bool,
}

/// `node.state`: how a node fares, in its worker's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStateData<'a> {
    /// `node.state`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node.
    pub node_id: Cow<'a, str>,
    /// The task that executes it.
    pub task_id: Cow<'a, str>,
    /// How it fares.
    pub state: NodeStateWords<'a>,
}

/// How a node fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStateWords<'a> {
    /// What it is at, in a word.
    pub stage: Cow<'a, str>,
    /// How much is done, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// What it is at, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'a, str>>,
    /// When it last said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated_at: Option<Cow<'a, str>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventError<'a>>,
}

/// `node.result.snapshot`: what a node gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultSnapshot<'a> {
    /// `node.result.snapshot`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node, or which middleware.
    pub node_id: Cow<'a, str>,
    /// The task that gave it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// Which lease gave it; deltas of the same revision came before it.
    pub revision: u32,
    /// `json`.
    pub format: Cow<'a, str>,
    /// The result; absent where it is too large to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Cow<'a, RawValue>>,
    /// What the node left behind: a JSON array.
    pub artifacts: Cow<'a, RawValue>,
    /// Where the content is, if it is not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Cow<'a, str>>,
    /// Whether this is all of it.
    pub complete: bool,
    /// The subgraph that was entered; absent for the workflow itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u32>,
    /// Which element of the list, where the node is executed once per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

/// What a delta does to the result that a reader has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeltaOperation {
    /// It adds to the end.
    Append,
    /// It takes the place of what was there.
    Replace,
    /// It takes away what was there.
    Remove,
}

/// `node.result.delta`: a piece of what a node gives, while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultDelta<'a> {
    /// `node.result.delta`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node.
    pub node_id: Cow<'a, str>,
    /// Which lease gives it.
    pub revision: u32,
    /// Its place among the deltas of this revision, from 1.
    pub sequence: u32,
    /// What it does.
    pub operation: DeltaOperation,
    /// Where: a JSON pointer.
    pub path: Cow<'a, str>,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<DeltaPayload<'a>>,
    /// What is known about a piece of output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_meta: Option<ChunkMeta<'a>>,
    /// Whether it is the last of its revision.
    pub terminal: bool,
}

/// What a delta brings: text or bytes for output, a value for results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeltaPayload<'a> {
    /// Output, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    /// Output, if it is not: base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Cow<'a, str>>,
    /// What kind of data it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Cow<'a, str>>,
    /// A part of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Cow<'a, RawValue>>,
}

/// What is known about a piece of output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkMeta<'a> {
    /// Where it was put out.
    pub channel: Cow<'a, str>,
    /// Whatever else the worker said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Cow<'a, RawValue>>,
}

/// `artifact.ready`: a node left something behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactReady<'a> {
    /// `artifact.ready`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// Which node.
    pub node_id: Cow<'a, str>,
    /// The task that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// The worker's words about it.
    pub artifact: Cow<'a, RawValue>,
}
