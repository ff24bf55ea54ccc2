//! Runs and their nodes: start, look at, stop, take up again, send a word to.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::problem::FlowProblem;
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

model::words! {
    /// Where a run stands.
    #[derive(Default)]
    RunStatus {
        /// No node of it has begun.
        #[default]
        Queued = "queued",
        /// It goes on.
        Running = "running",
        /// Every node came to a good end, or to a bad one that its author provided for.
        Succeeded = "succeeded",
        /// A node failed.
        Failed = "failed",
        /// Someone stopped it.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Whether nothing leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// A run. In lists it comes without `inputs`, `outputs`, `counts`, `artifacts`, `bindings` and
/// `nodes`, and one that has not ended is `running` there.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
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

model::words! {
    /// Where a node stands.
    #[derive(Default)]
    NodeStatus {
        /// Its turn has not come, or no worker has it.
        #[default]
        Queued = "queued",
        /// It goes on.
        Running = "running",
        /// Done.
        Succeeded = "succeeded",
        /// Failed for good.
        Failed = "failed",
        /// Stopped, or never begun when the run ended.
        Cancelled = "cancelled",
        /// There was nothing to do.
        Skipped = "skipped",
    }
}

impl NodeStatus {
    /// Whether nothing leaves it.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// One node of a run, or one middleware around a node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunNode {
    /// The author's id of the node or of the middleware.
    pub node_id: String,
    /// Its newest task, if its turn has come.
    pub task_id: Option<String>,
    /// Where it stands.
    pub status: NodeStatus,
    /// What it does.
    #[serde(rename = "type")]
    pub node_type: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The name that expressions may use.
    pub alias: Option<String>,
    /// Who has it, or had it last.
    pub worker_name: Option<String>,
    /// When it began.
    #[schema(format = "date-time")]
    pub started_at: Option<String>,
    /// When it came to its end.
    #[schema(format = "date-time")]
    pub finished_at: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// `true` while its worker has not confirmed the dispatch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending_ack: bool,
    /// The dispatch that its worker has: the lease.
    pub dispatch_id: Option<String>,
    /// When the dispatch is taken back unless it is confirmed.
    #[schema(format = "date-time")]
    pub ack_deadline: Option<String>,
    /// An earlier run did it, and this one uses what it gave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// Why it waits, or why it was skipped.
    pub reason: Option<String>,
    /// The event that it waits for; `POST .../signal` sends it.
    pub awaited_event: Option<String>,
    /// What it gave.
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// Why it did not succeed.
    pub error: Option<RunError>,
    /// What it left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Its elements, where it is executed once per element of a list.
    pub map: Option<MapCounts>,
    /// What of its result is not as its `schema.results` says, a sentence each. The result stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How it fares.
    pub state: Option<StageState>,
    /// Where it stands among middlewares and subgraphs.
    #[serde(default, skip_serializing_if = "NodeMetadata::is_empty")]
    pub metadata: NodeMetadata,
}

/// Something that a node left behind, on the worker that executed it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its name on that worker.
    #[serde(alias = "resource_id")]
    pub resource_id: String,
    /// The worker that has it.
    #[serde(default, alias = "worker_name", alias = "worker_id", alias = "workerId")]
    pub worker_name: Option<String>,
    /// What it is.
    #[serde(default, rename = "type")]
    pub artifact_type: Option<String>,
    /// How large it is.
    #[serde(default, alias = "size_bytes")]
    pub size_bytes: Option<u64>,
    /// Whether the result holds its content.
    pub inline: Option<bool>,
    /// When it is dropped.
    #[serde(default, alias = "expires_at")]
    pub expires_at: Option<String>,
    /// What its maker said about it.
    #[schema(value_type = Option<serde_json::Value>)]
    pub metadata: Option<Box<RawValue>>,
    /// The node that left it.
    #[serde(default, alias = "node_id")]
    pub node_id: Option<String>,
    /// The task that left it.
    #[serde(default, alias = "task_id")]
    pub task_id: Option<String>,
}

/// The elements of a node that is executed once per element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MapCounts {
    /// As many as the list has, once its turn has come.
    pub total: u64,
    /// Those that came to an end, good or bad.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
}

/// How a node fares, in its worker's words where it said some.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageState {
    /// What it is at, in a word; without one from its worker, its status.
    pub stage: String,
    /// How much is done, from 0 to 1.
    pub progress: Option<f64>,
    /// What it is at, for people.
    pub message: Option<String>,
    /// When it last said so.
    #[schema(format = "date-time")]
    pub last_updated_at: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
}

/// Where a node stands among middlewares and subgraphs. Seed 001 section 3 names the fields.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeMetadata {
    /// What is wrapped around it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub middlewares: Vec<String>,
    /// The node that it is wrapped around.
    pub host_node_id: Option<String>,
    /// Its place around that node, from 0, which is outermost.
    pub chain_index: Option<u32>,
    /// `middleware` or `container`; absent for others.
    pub role: Option<String>,
    /// The subgraph that it stands in; absent for nodes of the workflow itself.
    #[serde(default, rename = "__frame")]
    pub frame: Option<FrameMark>,
}

impl NodeMetadata {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A subgraph that was entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrameMark {
    /// Names it within the run.
    pub frame_id: String,
    /// Its number within the run, for a signal.
    pub frame: u32,
    /// The container that it was entered through.
    pub container_node_id: String,
    /// Which subgraph.
    pub subgraph_id: String,
    /// The containers on the way there, by their names, outermost first.
    pub alias_chain: Vec<String>,
    /// The subgraph's name.
    pub subgraph_name: String,
    /// Which element of the list, where the container is executed once per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}
