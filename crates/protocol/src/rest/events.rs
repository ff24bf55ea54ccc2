//! Live events: what `GET /events` sends, one JSON object per event.
//!
//! Reading order: the types, what all events have in common, then what each of them tells: about
//! nodes, runs and workers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::runs::RunStatus;

model::words! {
    /// What an event tells.
    EventKind {
        /// A run began or came to its end.
        RunStatus = "run.status",
        /// A run as a whole, with its nodes.
        RunSnapshot = "run.snapshot",
        /// How a node fares, in its worker's words.
        NodeState = "node.state",
        /// A node moved on.
        NodeStatus = "node.status",
        /// An attempt of a node failed.
        NodeError = "node.error",
        /// What a node gave.
        NodeResultSnapshot = "node.result.snapshot",
        /// A piece of what a node gives, while it runs.
        NodeResultDelta = "node.result.delta",
        /// A node left something behind.
        ArtifactReady = "artifact.ready",
        /// A worker lives.
        WorkerHeartbeat = "worker.heartbeat",
        /// A package was installed on a worker, or was not.
        WorkerPackage = "worker.package",
        /// A command to a worker is carried out.
        CommandAck = "command.ack",
        /// A command to a worker is not carried out.
        CommandError = "command.error",
    }
}

impl EventKind {
    /// Its place in [`EventKind::ALL`], as one bit.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The version of the envelope.
pub const ENVELOPE_VERSION: &str = "v1";

/// One event. A reader takes `data` as raw JSON first, looks at `type`, and then reads the data as
/// what that type tells.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, D> {
    /// [`ENVELOPE_VERSION`].
    pub version: Cow<'a, str>,
    /// Decimal; rises with each event of the tenant, across restarts too.
    pub id: Cow<'a, str>,
    /// What it tells.
    pub r#type: Cow<'a, str>,
    /// When it became true.
    pub occurred_at: Cow<'a, str>,
    /// Whom it is about.
    pub scope: EventScope<'a>,
    /// Whether it was sent before, or happened before this connection was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The request that it answers.
    pub correlation_id: Option<Cow<'a, str>>,
    /// Whatever else is to be said of the event itself.
    pub meta: Option<Cow<'a, RawValue>>,
    /// What it tells; its `kind` is the event's type.
    pub data: D,
}

/// Whom an event is about.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventScope<'a> {
    /// Whose.
    pub tenant: Cow<'a, str>,
    /// Which run.
    pub run_id: Option<Cow<'a, str>>,
    /// Which worker.
    pub worker_name: Option<Cow<'a, str>>,
    /// The browser or program that started the run.
    pub client_session_id: Option<Cow<'a, str>>,
    /// Which window of it.
    pub client_instance_id: Option<Cow<'a, str>>,
}

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
#[skip_serializing_none]
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
    pub task_id: Option<Cow<'a, str>>,
    /// Where it stands.
    pub status: NodeStatusWord,
    /// Who executes it, or did.
    pub worker_name: Option<Cow<'a, str>>,
    /// Which attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The subgraph that was entered; absent for the workflow itself.
    pub frame: Option<u32>,
    /// Which element of the list, where the node is executed once per element.
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
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStateWords<'a> {
    /// What it is at, in a word.
    pub stage: Cow<'a, str>,
    /// How much is done, from 0 to 1.
    pub progress: Option<f64>,
    /// What it is at, for people.
    pub message: Option<Cow<'a, str>>,
    /// When it last said so.
    pub last_updated_at: Option<Cow<'a, str>>,
    /// Why it failed.
    pub error: Option<EventError<'a>>,
}

/// `node.result.snapshot`: what a node gave.
#[skip_serializing_none]
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
    pub task_id: Option<Cow<'a, str>>,
    /// Which lease gave it; deltas of the same revision came before it.
    pub revision: u32,
    /// `json`.
    pub format: Cow<'a, str>,
    /// The result; absent where it is too large to be told.
    pub content: Option<Cow<'a, RawValue>>,
    /// What the node left behind: a JSON array.
    pub artifacts: Cow<'a, RawValue>,
    /// Where the content is, if it is not here.
    pub summary: Option<Cow<'a, str>>,
    /// Whether this is all of it.
    pub complete: bool,
    /// The subgraph that was entered; absent for the workflow itself.
    pub frame: Option<u32>,
    /// Which element of the list, where the node is executed once per element.
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
#[skip_serializing_none]
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
    pub payload: Option<DeltaPayload<'a>>,
    /// What is known about a piece of output.
    pub chunk_meta: Option<ChunkMeta<'a>>,
    /// Whether it is the last of its revision.
    pub terminal: bool,
}

/// What a delta brings: text or bytes for output, a value for results.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeltaPayload<'a> {
    /// Output, if it is text.
    pub text: Option<Cow<'a, str>>,
    /// Output, if it is not: base64.
    pub data: Option<Cow<'a, str>>,
    /// What kind of data it is.
    pub mime_type: Option<Cow<'a, str>>,
    /// A part of the result.
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

/// `run.status`: a run began or came to its end.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusData<'a> {
    /// `run.status`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// The number that people call it by.
    pub number: u64,
    /// Where it stands.
    pub status: RunStatus,
    /// When it began.
    pub started_at: Option<Cow<'a, str>>,
    /// When it came to its end.
    pub finished_at: Option<Cow<'a, str>>,
    /// Why it did not succeed, for people.
    pub reason: Option<Cow<'a, str>>,
    /// The node that made it fail.
    pub node_id: Option<Cow<'a, str>>,
    /// Why it did not succeed.
    pub error: Option<EventError<'a>>,
}

/// `run.snapshot`: a run as a whole, as `GET /runs/{id}` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshotData<'a> {
    /// `run.snapshot`.
    pub kind: Cow<'a, str>,
    /// The run, without its nodes.
    pub run: Cow<'a, RawValue>,
    /// Its nodes.
    pub nodes: Cow<'a, RawValue>,
}

/// A ticket opens `GET /events?ticket=` once, where no header can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventTicket {
    /// The ticket. It is shown once and works once.
    pub ticket: String,
    /// How long it may wait to be used, in seconds.
    pub expires_in: u64,
}

/// `worker.heartbeat`: a worker lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerHeartbeatData<'a> {
    /// `worker.heartbeat`.
    pub kind: Cow<'a, str>,
    /// Which worker.
    pub worker_name: Cow<'a, str>,
    /// When it was heard of.
    pub at: Cow<'a, str>,
    /// The queues that it serves.
    pub queues: Vec<Cow<'a, str>>,
    /// Its identity across reconnects.
    pub instance_id: Cow<'a, str>,
    /// Where it runs, by its own word.
    pub hostname: Cow<'a, str>,
    /// Its version, by its own word.
    pub version: Cow<'a, str>,
    /// Whether it has a connection.
    pub connected: bool,
    /// Whether it has a session.
    pub registered: bool,
    /// How it fares.
    pub heartbeat: HeartbeatWords,
}

/// How a worker fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatWords {
    /// Whether it thinks that it is well.
    pub healthy: bool,
    /// What it measured.
    pub metrics: HeartbeatMetrics,
    /// Whether its packages are as they were registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<HeartbeatPackages>,
}

/// What a worker measured.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatMetrics {
    /// Tasks that run.
    pub inflight: u64,
    /// Load of the processors, in percent.
    pub cpu_pct: Option<f64>,
    /// Memory in use, in percent.
    pub mem_pct: Option<f64>,
    /// Disk in use, in percent.
    pub disk_pct: Option<f64>,
    /// How long the last exchange took.
    pub latency_ms: Option<i64>,
}

/// Whether the packages on disk are as they were registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatPackages {
    /// Whether they differ.
    pub drift: bool,
}

/// `worker.package`: a package was installed on a worker, or was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPackageData<'a> {
    /// `worker.package`.
    pub kind: Cow<'a, str>,
    /// Which worker.
    pub worker_name: Cow<'a, str>,
    /// Which package.
    pub package: Cow<'a, str>,
    /// Which version of it.
    pub version: Cow<'a, str>,
    /// `installed`, `failed`, ...
    pub status: Cow<'a, str>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'a, str>>,
}

/// `command.ack` and `command.error`: what became of a command to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandAnswer<'a> {
    /// `command.ack` or `command.error`.
    pub kind: Cow<'a, str>,
    /// Which command.
    pub command_id: Cow<'a, str>,
    /// To which worker.
    pub worker_name: Cow<'a, str>,
    /// What it asked for, like `drain`.
    pub command: Cow<'a, str>,
    /// Why it is not carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventError<'a>>,
}
