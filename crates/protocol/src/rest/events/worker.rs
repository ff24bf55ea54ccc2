//! What events tell about workers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::node::EventError;

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatMetrics {
    /// Tasks that run.
    pub inflight: u64,
    /// Load of the processors, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pct: Option<f64>,
    /// Memory in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_pct: Option<f64>,
    /// Disk in use, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_pct: Option<f64>,
    /// How long the last exchange took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
