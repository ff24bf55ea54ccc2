//! The nodes of a run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::runs::RunError;

/// Where a node stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// Its turn has not come, or no worker has it.
    Queued,
    /// It goes on.
    Running,
    /// Done.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Stopped, or never begun when the run ended.
    Cancelled,
    /// There was nothing to do.
    Skipped,
}

impl NodeStatus {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// Whether nothing leaves it.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// One node of a run, or one middleware around a node.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
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
