//! Workers, as the coordinator sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::tasks::Package;

/// `GET /workers`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// By name.
    pub workers: Vec<Worker>,
}

/// One worker.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its name.
    pub worker_id: String,
    /// `HEALTHY`, `WARN` (one heartbeat missed), `DEGRADED` (two) or `LOST` (three).
    pub health: Health,
    /// When it was last heard of.
    pub last_seen: String,
    /// Leases that it holds.
    pub in_flight: u64,
    /// Leases that it was ever given since the server started.
    pub granted: u64,
    /// Whether it waits for work right now.
    pub asking: bool,
    /// The types it executes; absent means every type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// The queues it serves; absent means every queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// The tools it has.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The tags it carries.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The packages it has installed.
    #[serde(default)]
    pub packages: Vec<Package>,
}

/// How a worker does, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Health {
    /// Heard of in time.
    Healthy,
    /// One heartbeat missed.
    Warn,
    /// Two heartbeats missed.
    Degraded,
    /// Three heartbeats missed.
    Lost,
}
