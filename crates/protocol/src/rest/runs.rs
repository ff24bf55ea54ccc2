//! Runs: start, look at, stop, take up again, send a word to.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::problem::FlowProblem;

pub use super::run_nodes::{
    Artifact, FrameMark, MapCounts, NodeMetadata, NodeStatus, RunNode, StageState,
};
use super::tasks::Reason;

/// `POST /runs`: a workflow as it stands, or a kept one by its id.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartRun {
    /// The browser or program that wants to hear of it.
    pub client_id: Option<String>,
    /// The workflow, whole. It is kept byte for byte.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub workflow: Option<Box<RawValue>>,
    /// A workflow that is kept here.
    pub workflow_id: Option<String>,
    /// Which version of it. Default: the newest.
    pub version: Option<u64>,
    /// A JSON object: `{{ run.inputs.x }}`. Default `{}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
}

/// A `null` that was sent is JSON like any other, and not the absence of it.
pub(super) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// A run in a few words: it exists and survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRef {
    /// Its name: a UUID.
    pub run_id: String,
    /// Its number, which may stand for the name everywhere.
    pub number: u64,
    /// Where it stands.
    pub status: RunStatus,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// The browser or program that wants to hear of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// When it was started.
    #[schema(format = "date-time")]
    pub created_at: String,
    /// `true` when an earlier request with the same `Idempotency-Key` made it.
    #[serde(default)]
    pub existed: bool,
    /// What is odd about the workflow, although it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FlowProblem>,
}

/// Where a run stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// No node of it has begun.
    Queued,
    /// It goes on.
    Running,
    /// Every node came to a good end, or to a bad one that its author provided for.
    Succeeded,
    /// A node failed.
    Failed,
    /// Someone stopped it.
    Cancelled,
}

impl RunStatus {
    /// All of them, in the order in which a run can pass through them.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status with this word, in any case.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word().eq_ignore_ascii_case(word))
    }

    /// Whether nothing leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A run. In lists it comes without `inputs`, `outputs`, `counts`, `artifacts`, `bindings` and
/// `nodes`, and one that has not ended is `running` there.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its name: a UUID.
    pub run_id: String,
    /// Its number, which may stand for the name everywhere.
    pub number: u64,
    /// Where it stands.
    pub status: RunStatus,
    /// The workflow's name.
    pub name: String,
    /// The workflow's id.
    pub workflow_id: String,
    /// The kept version of the workflow, if it was started from one.
    pub workflow_version: Option<u64>,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// The browser or program that wants to hear of it.
    pub client_id: Option<String>,
    /// When it was started.
    #[schema(format = "date-time")]
    pub created_at: String,
    /// When its first node began.
    #[schema(format = "date-time")]
    pub started_at: Option<String>,
    /// When it came to its end.
    #[schema(format = "date-time")]
    pub finished_at: Option<String>,
    /// Who started it: a token's name, `schedule <id>` or `hook <id>`.
    pub started_by: String,
    /// The run that this one takes up again.
    pub retry_of: Option<String>,
    /// What it was given.
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// What it gave.
    #[schema(value_type = Option<serde_json::Value>)]
    pub outputs: Option<Box<RawValue>>,
    /// Why it did not succeed.
    pub error: Option<RunError>,
    /// How many nodes stand where; nodes of subgraphs count where their subgraph was entered.
    pub counts: Option<NodeCounts>,
    /// What its nodes left behind.
    pub artifacts: Option<Vec<Artifact>>,
    /// The workers that packages of this run are bound to.
    pub bindings: Option<Vec<Binding>>,
    /// Its nodes, unless `nodes=false`.
    pub nodes: Option<Vec<RunNode>>,
}

/// Why a run or a node did not succeed.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// A short code, the worker's or ours.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// The node that it began with.
    pub node_id: Option<String>,
    /// What the failed attempt left behind, if it said so.
    #[schema(value_type = Option<serde_json::Value>)]
    pub details: Option<Box<RawValue>>,
}

/// How many nodes stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounts {
    /// Their turn has not come, or no worker has them.
    pub queued: u64,
    /// They go on.
    pub running: u64,
    /// Done.
    pub succeeded: u64,
    /// Failed for good.
    pub failed: u64,
    /// Stopped, or never begun when the run ended.
    pub cancelled: u64,
    /// There was nothing to do.
    pub skipped: u64,
    /// All of them.
    pub total: u64,
}

/// A worker that a package of a run is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// The package.
    pub package: String,
    /// The worker.
    pub worker: String,
    /// Since when.
    #[schema(format = "date-time")]
    pub bound_at: String,
}

/// A page of `GET /runs`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    /// Newest first.
    pub items: Vec<Run>,
    /// Give it as `cursor` to go on; `null` at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// `POST /runs/{id}/retry`: a new run that takes up what an ended one left.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// From the nodes that did not succeed. The default, unless `nodeId` is given.
    pub from_failed: Option<bool>,
    /// From this node: it and everything behind it is executed again.
    pub node_id: Option<String>,
    /// New parameters by node id: the fields of each are laid over the authored ones. Such a node,
    /// and everything behind it, is executed again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub parameters: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
    /// A JSON object. Default: what the run before was given.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// The browser or program that wants to hear of it. Default: the one of the run before.
    pub client_id: Option<String>,
}

/// `POST /runs/{id}/nodes/{nodeId}/signal`: a word for a node that waits for one.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalNode {
    /// The event's name, for `core.wait_event`.
    pub event: Option<String>,
    /// Yes or no, for `core.approve`.
    pub approved: Option<bool>,
    /// Any JSON: it becomes part of the node's result.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// Where the same node waits in several subgraphs: `metadata.__frame.frame` of the one.
    pub frame: Option<u32>,
}

/// The word was heard, and survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Signalled {
    /// `ok`.
    pub status: String,
}

/// `GET /runs/{id}/nodes/{nodeId}/explain`: why a node does not run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The run.
    pub run_id: String,
    /// The node.
    pub node_id: String,
    /// Its task, if its turn has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where it stands.
    pub status: NodeStatus,
    /// One sentence that says it all.
    pub summary: String,
    /// The reasons, most telling first. Besides those of a task: `blocked_by_nodes`,
    /// `subgraph`, `elements`, `ended`, `run_ended`.
    pub reasons: Vec<Reason>,
}

/// `POST /scheduler/runs/{run_id}/rebind`
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebindRun {
    /// Only the work of this package, or of this type where a node needs no package. Without it
    /// all that is bound.
    pub package: Option<String>,
    /// The worker that is asked first from here on. Without it the next one that asks.
    #[serde(default, alias = "worker_name")]
    pub worker_name: Option<String>,
    /// What becomes of the worker that had the work.
    pub mode: RebindMode,
}

/// What becomes of the worker that had the work. What it is doing it finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RebindMode {
    /// It is asked last.
    Move,
    /// It gets nothing more of this run.
    Drain,
}

/// Who has the work of the run from here on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebound {
    /// The run.
    pub run_id: String,
    /// Which worker has which package. Without an entry the next grant says it.
    pub bindings: Vec<Binding>,
}
