//! Workflows that are kept, with every version of them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::problem::FlowProblem;
use super::runs::given;

/// The answer to `POST /workflows` and `POST /workflows/{id}/restore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedWorkflow {
    /// The workflow's id, as authored.
    pub workflow_id: String,
    /// The version that is kept. The same workflow again makes no new one.
    pub version: u64,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// What keeps it from running, and what is odd about it. A draft may be kept with errors.
    #[serde(default)]
    pub problems: Vec<FlowProblem>,
}

/// A page of `GET /workflows`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowPage {
    /// By id.
    pub items: Vec<WorkflowSummary>,
    /// Give it as `cursor` to go on; `null` at the end.
    pub next_cursor: Option<String>,
}

/// A workflow in short: its newest version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSummary {
    /// Its id, as authored.
    pub workflow_id: String,
    /// A name for people.
    pub name: String,
    /// Its newest version.
    pub version: u64,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// When that version was saved.
    #[schema(format = "date-time")]
    pub updated_at: String,
    /// Who saved it.
    pub updated_by: String,
}

/// `GET /workflows/{id}/versions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowVersions {
    /// The workflow's id.
    pub workflow_id: String,
    /// Newest first.
    pub items: Vec<WorkflowVersion>,
}

/// One version of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowVersion {
    /// Its number, from 1.
    pub version: u64,
    /// The workflow's name in this version.
    pub name: String,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub definition_hash: String,
    /// When it was saved.
    #[schema(format = "date-time")]
    pub saved_at: String,
    /// Who saved it.
    pub author: String,
    /// What changed, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /workflows/{id}/restore`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreWorkflow {
    /// The version that is kept again, as the newest one.
    pub version: u64,
}

/// `POST /workflows/validate`. A bare workflow may be sent too.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidateWorkflow {
    /// The workflow, whole.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub workflow: Option<Box<RawValue>>,
}

/// What is wrong with a workflow. Nothing is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Validation {
    /// Whether it runs.
    pub valid: bool,
    /// Everything that keeps it from running, and what is odd about it.
    pub problems: Vec<FlowProblem>,
}

/// `GET /workflows/{id}/diff`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowDiff {
    /// The workflow's id.
    pub workflow_id: String,
    /// The version that is compared with.
    pub from: u64,
    /// The version that is looked at.
    pub to: u64,
    /// Nodes that are only in `to`.
    pub added: Vec<DiffNode>,
    /// Nodes that are only in `from`.
    pub removed: Vec<DiffNode>,
    /// Nodes that are in both, and differ.
    pub changed: Vec<ChangedNode>,
    /// Edges that are only in `to`.
    pub edges_added: Vec<DiffEdge>,
    /// Edges that are only in `from`.
    pub edges_removed: Vec<DiffEdge>,
    /// What else differs: the name, tags, outputs.
    pub other: Vec<DiffField>,
}

/// A node that only one version has.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffNode {
    /// Its id.
    pub node_id: String,
    /// Its label.
    pub label: Option<String>,
    /// What it does.
    #[serde(default, rename = "type")]
    pub node_type: Option<String>,
    /// The subgraph that it stands in; absent for nodes of the workflow itself.
    pub subgraph_id: Option<String>,
}

/// A node that differs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedNode {
    /// Its id.
    pub node_id: String,
    /// Its label, in `to`.
    pub label: Option<String>,
    /// The subgraph that it stands in; absent for nodes of the workflow itself.
    pub subgraph_id: Option<String>,
    /// What differs, by path.
    pub fields: Vec<DiffField>,
}

/// A value that differs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DiffField {
    /// Where, like `parameters.url`.
    pub path: String,
    /// What it was; absent when it was not there.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub from: Option<Box<RawValue>>,
    /// What it is; absent when it is gone.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub to: Option<Box<RawValue>>,
}

/// An edge that only one version has.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffEdge {
    /// Its id, if it has one.
    pub edge_id: Option<String>,
    /// `node:port` that it comes from.
    pub source: String,
    /// `node:port` that it goes to.
    pub target: String,
    /// The subgraph that it stands in; absent for edges of the workflow itself.
    pub subgraph_id: Option<String>,
}
