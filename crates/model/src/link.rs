//! Which part of a run a task executes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{LeaseId, RunId};
use crate::stored;

/// Ties a task to its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLink {
    /// Which run.
    pub run: RunId,
    /// Which frame of it: 0 is the workflow itself, others are subgraphs that were entered.
    pub frame: u32,
    /// Which node of the frame's graph, by its place.
    pub node: u32,
    /// Which element of the list, where the node is executed once per element.
    pub item: Option<u32>,
    /// How far in: 0 is the outermost middleware; behind the last one comes the node itself.
    pub level: u16,
    /// The author's id of the node, or of the middleware.
    pub step_id: Uuid,
    /// The middleware that called for it; `None` where the run itself did.
    pub call: Option<Box<CallLink>>,
}

/// One call of `next`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallLink {
    /// The caller's lease: a later attempt calls anew.
    #[serde(with = "stored::StoredLeaseId")]
    pub caller: LeaseId,
    /// The caller's own name for the call.
    #[serde(with = "stored::text")]
    pub request: Arc<str>,
}
