//! Workers, as the coordinator sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::tasks::Package;

pub use model::WorkerHealth as Health;

/// `GET /workers`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// By name.
    pub workers: Vec<Worker>,
}

/// One worker.
#[skip_serializing_none]
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
    pub types: Option<Vec<String>>,
    /// The queues it serves; absent means every queue.
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
    /// Why it is given nothing new: `person`, `leaving`, `pressure`. Empty when it takes work.
    #[serde(default)]
    pub drained_by: Vec<DrainWord>,
    /// Its session; absent for workers that pull by HTTP.
    pub session: Option<WorkerSession>,
}

/// Why a worker is given nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrainWord {
    /// A person said so.
    Person,
    /// It finishes and leaves.
    Leaving,
    /// Its memory or its disk is almost full.
    Pressure,
}

/// What is known of a worker's session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkerSession {
    /// Whether it is connected right now.
    pub connected: bool,
    /// The identity that survives reconnects and restarts.
    pub instance_id: String,
    /// The name that it gave itself.
    pub given_name: String,
    /// Its version, by its own word.
    pub version: String,
    /// Where it runs, by its own word.
    pub hostname: String,
    /// How many tasks it executes at a time.
    pub slots: u64,
    /// When its session began.
    pub since: String,
    /// What it said of itself last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<WorkerHeartbeat>,
}

/// What a worker said of itself last.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkerHeartbeat {
    /// When.
    pub at: String,
    /// Whether it is well, by its own word.
    pub healthy: bool,
    /// Tasks that it works on.
    pub inflight: u64,
    /// How busy its processors are.
    pub cpu_pct: Option<f64>,
    /// How full its memory is. From 90 on it is given nothing new.
    pub mem_pct: Option<f64>,
    /// How full its disk is. From 95 on it is given nothing new.
    pub disk_pct: Option<f64>,
    /// The resources that it keeps, if it says so.
    pub resources: Option<KeptResources>,
}

/// How much a worker keeps for later tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptResources {
    /// How many resources.
    pub count: u64,
    /// How many of them tasks work with right now.
    pub in_use: u64,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Bytes in memory.
    pub mem_bytes: u64,
}

/// `POST /workers/{worker_id}/commands`: what a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum WorkerCommand {
    /// Finish and take nothing new. Lasts until it is taken back, whatever restarts meanwhile.
    Drain {
        /// Why, for whoever looks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long it has to finish.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    },
    /// Take work again.
    Undrain,
}

/// The command is carried out; where the worker is away, it holds when it comes back.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AcceptedCommand {
    /// Names the command in logs.
    pub command_id: String,
    /// Which worker.
    pub worker_id: String,
    /// When.
    pub accepted_at: String,
    /// Whether the worker was told at once.
    pub delivered: bool,
}

/// `POST /api/workers/register`: a worker that pulls says what it can do.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RegisterWorker {
    /// Who it is: 1 to 64 characters of `A-Z a-z 0-9 - _`.
    #[serde(alias = "workerId")]
    pub worker_id: String,
    /// The types it executes. Default: every type.
    #[serde(default, alias = "capabilities")]
    pub types: Option<Vec<String>>,
    /// The queues it serves. Default: every queue.
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

/// A worker is known.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RegisteredWorker {
    /// Who it is.
    pub worker_id: String,
    /// How often it should be heard of.
    pub heartbeat_ms: u64,
    /// Where it asks for work.
    pub leases: String,
}

/// `POST /api/workers/heartbeat`: a worker that pulls lives.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BeatWorker {
    /// Who it is.
    #[serde(alias = "workerId")]
    pub worker_id: String,
    /// What it works on. Default: all that it has named since it registered and since the server
    /// started: a lease that nobody names may never have reached its worker.
    pub leases: Option<Vec<String>>,
}

/// What became of the leases that a worker listed, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BeatenWorker {
    /// One verdict per lease.
    pub verdicts: Vec<super::leases::HeartbeatAnswer>,
}
