//! How a session begins, goes on and ends: what a worker can do, and how it fares.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::super::codec::{DecodeError, INTEGER_MAX, OpenObject};
use super::super::read::{Object, read};
use super::super::rule::{Bits, Moment, Positive, Rule, Text};
use super::exec::ExecError;

/// The worker names itself and shows its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// The version of the protocol, from 1.
    #[serde(deserialize_with = "Positive::read")]
    pub protocol: u64,
    /// How the worker proves who it is.
    pub auth: Auth,
    /// Who it is.
    pub worker: WorkerIdentity,
}

/// How a worker proves who it is.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// Which proof it offers.
    pub mode: AuthMode,
    /// The bearer token, in mode `token`.
    #[serde(deserialize_with = "Text::read")]
    pub token: Option<String>,
    /// The certificate's fingerprint, in mode `mtls`.
    #[serde(deserialize_with = "Text::read")]
    pub fingerprint: Option<String>,
}

impl std::fmt::Debug for Auth {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The proofs that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// A bearer token.
    Token,
    /// A client certificate.
    Mtls,
}

/// Who a worker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerIdentity {
    /// The label that people see.
    pub worker_name: String,
    /// The identity that survives reconnects; if missing, the envelope's `sender.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_instance_id: Option<String>,
    /// The version of the worker program.
    #[serde(deserialize_with = "Text::read")]
    pub version: String,
    /// Where it runs.
    #[serde(deserialize_with = "Text::read")]
    pub hostname: String,
}

/// The server opens or continues a session.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// Names the session.
    pub session_id: String,
    /// What the worker shows to resume it; opaque to the worker.
    pub session_token: String,
    /// Whose session it is.
    pub worker_instance_id: String,
    /// When the token ends.
    #[serde(deserialize_with = "Moment::read")]
    pub expires_at: Option<String>,
    /// Whether both windows go on; if missing, they do not.
    pub resumed: Option<bool>,
}

impl std::fmt::Debug for Accept {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accept")
            .field("session_id", &self.session_id)
            .field("worker_instance_id", &self.worker_instance_id)
            .field("resumed", &self.resumed)
            .finish_non_exhaustive()
    }
}

/// The worker asks to go on with a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Which session.
    pub session_id: String,
    /// Its token.
    pub session_token: String,
    /// All frames up to this number have reached the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_seq: Option<u64>,
}

impl std::fmt::Debug for Resume {
    // A token must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resume")
            .field("session_id", &self.session_id)
            .field("last_seen_seq", &self.last_seen_seq)
            .finish_non_exhaustive()
    }
}

/// The server ends a session; the worker begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// An error code.
    pub code: String,
    /// The same for people.
    #[serde(deserialize_with = "Text::read")]
    pub reason: String,
    /// How long the worker should wait before it comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Reset {
    /// The same for a peer that knows errors only.
    pub(in super::super) fn as_error(&self) -> ExecError {
        let (code, message) = (self.code.clone(), self.reason.clone());
        ExecError { code, message, remediation: None, context: None }
    }
}

/// The server asks the worker to finish and take nothing new.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Why.
    #[serde(deserialize_with = "Text::read")]
    pub reason: Option<String>,
    /// How long the worker has.
    pub deadline_ms: Option<u64>,
}

/// Either end confirms frames.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ack {
    /// Whether the frame was taken.
    pub ok: Option<bool>,
    /// The id of the frame that asked.
    #[serde(rename = "for", deserialize_with = "Text::read")]
    pub of: Option<String>,
    /// A word about it, such as a verdict.
    #[serde(deserialize_with = "Text::read")]
    pub info: Option<String>,
    /// All frames up to this number have arrived.
    pub ack_seq: Option<u64>,
    /// Which of the next frames are held: bit i stands for `ack_seq + 1 + i`.
    #[serde(deserialize_with = "Bits::read")]
    pub ack_bitmap: Option<u64>,
    /// How many frames after `ack_seq` are taken.
    #[serde(deserialize_with = "Positive::read")]
    pub recv_window: Option<u64>,
}

impl Ack {
    /// Reads an ack, of which there are as many as of all other frames together: in one pass, if
    /// it is spelled as we spell it.
    pub(in super::super) fn of_frame(payload: &RawValue) -> Result<Self, DecodeError> {
        Self::of_ours(payload).map_or_else(|| read("payload", payload), Ok)
    }

    /// The ack, or nothing if it must be read leniently.
    pub(in super::super) fn of_ours(payload: &RawValue) -> Option<Self> {
        let Object(ack): Object<Self> = serde_json::from_str(payload.get()).ok()?;
        let counts = [ack.ack_seq, ack.recv_window];
        let fits = ack.recv_window != Some(0)
            && counts.into_iter().flatten().all(|count| count <= INTEGER_MAX);
        fits.then_some(ack)
    }
}

/// The worker says what it can do.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// What it can do.
    pub capabilities: Capabilities,
    /// The business frames that it understands.
    #[serde(deserialize_with = "Text::read")]
    pub payload_types: Option<Vec<String>>,
    /// The packages on its disk.
    pub packages: Option<Vec<RegisteredPackage>>,
    /// The manifests of its packages.
    pub manifests: Option<Vec<RegisteredManifest>>,
    /// The feedback channels that it uses.
    #[serde(deserialize_with = "Text::read")]
    pub channels: Option<Vec<String>>,
}

/// What a worker can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// How much at once.
    pub concurrency: Concurrency,
    /// The runtimes it has, at least one.
    #[serde(deserialize_with = "runtimes")]
    pub runtimes: Vec<String>,
    /// What else it knows.
    #[serde(deserialize_with = "Text::read")]
    pub features: Vec<String>,
}

/// How much a worker does at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// At most so many tasks.
    #[serde(deserialize_with = "Positive::read")]
    pub max_parallel: u64,
    /// At most so many tasks of one node type.
    #[serde(deserialize_with = "Positive::read", skip_serializing_if = "Option::is_none")]
    pub per_node_limits: Option<BTreeMap<String, u64>>,
}

/// A package on a worker's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredPackage {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// Whether it can be used.
    pub status: PackageStatus,
}

/// Whether a package can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageStatus {
    /// It can.
    Installed,
    /// It is not there.
    Missing,
    /// Its installation failed.
    Failed,
}

/// The manifest of a package on a worker's disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegisteredManifest {
    /// Which package.
    pub name: String,
    /// Which version of it.
    pub version: String,
    /// What it contains.
    pub manifest: OpenObject,
}

fn runtimes<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    let runtimes: Vec<String> = Text::read(value)?;
    if runtimes.is_empty() { Err(D::Error::custom("a list of at least one")) } else { Ok(runtimes) }
}

/// The worker lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Whether it thinks that it is well.
    pub healthy: bool,
    /// How it fares.
    pub metrics: Metrics,
    /// Whether its packages are as they were registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<PackageDrift>,
}

/// How a worker fares: measures that are known, and any others.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Metrics {
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
    /// Whatever else the worker tells.
    #[serde(rename = "*")]
    pub others: BTreeMap<String, Box<RawValue>>,
}

impl Metrics {
    const KNOWN: [&str; 5] = ["inflight", "cpu_pct", "mem_pct", "disk_pct", "latency_ms"];
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("inflight", &self.inflight)?;
        let shares =
            [("cpu_pct", self.cpu_pct), ("mem_pct", self.mem_pct), ("disk_pct", self.disk_pct)];
        for (key, share) in shares {
            if let Some(share) = share {
                map.serialize_entry(key, &share)?;
            }
        }
        if let Some(latency_ms) = self.latency_ms {
            map.serialize_entry("latency_ms", &latency_ms)?;
        }
        let is_known = |key: &String| Self::KNOWN.contains(&key.as_str());
        for (key, value) in self.others.iter().filter(|(key, _)| !is_known(key)) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// What a worker keeps, in `metrics.resources`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceMetrics {
    /// How many.
    pub count: u64,
    /// Their bytes, all together.
    pub bytes: u64,
    /// Bytes in files.
    #[serde(default)]
    pub disk_bytes: u64,
    /// Bytes in memory.
    #[serde(default)]
    pub mem_bytes: u64,
    /// How many are worked with right now; the others may go when room is short.
    #[serde(default)]
    pub in_use: u64,
    /// Those that were used last; not all, if there are many.
    #[serde(default)]
    pub list: Vec<ToldResource>,
}

/// One thing that a worker keeps.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldResource {
    /// Its name.
    pub resource_id: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// What it belongs to.
    pub scope: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Since when it is kept.
    pub created_at: Option<String>,
    /// How long it is kept, if nobody uses it.
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
}

/// Whether the packages on disk are as they were registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageDrift {
    /// Whether they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<bool>,
}
