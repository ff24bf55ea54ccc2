//! How a worker fares.

use std::collections::BTreeMap;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::decode::DecodeError;
use super::super::open::OpenObject;
use super::super::read::Value;

/// The worker lives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heartbeat {
    /// Whether it thinks that it is well.
    pub healthy: bool,
    /// How it fares.
    pub metrics: Metrics,
    /// Whether its packages are as they were registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<PackageDrift>,
}

impl Heartbeat {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            healthy: fields.required("healthy", Value::flag)?,
            metrics: fields.required("metrics", Metrics::read)?,
            packages: fields.optional("packages", PackageDrift::read)?,
        })
    }
}

/// How a worker fares: measures that are known, and any others.
#[derive(Clone, Debug, Default)]
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
    pub others: BTreeMap<String, Box<RawValue>>,
}

impl Metrics {
    const KNOWN: [&str; 5] = ["inflight", "cpu_pct", "mem_pct", "disk_pct", "latency_ms"];

    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            inflight: fields.required("inflight", Value::count)?,
            cpu_pct: fields.optional("cpu_pct", Value::share)?,
            mem_pct: fields.optional("mem_pct", Value::share)?,
            disk_pct: fields.optional("disk_pct", Value::share)?,
            latency_ms: fields.optional("latency_ms", Value::integer)?,
            others: fields.others(&Self::KNOWN),
        })
    }
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

impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        let known = |metrics: &Self| {
            let shares = (metrics.cpu_pct, metrics.mem_pct, metrics.disk_pct);
            (metrics.inflight, metrics.latency_ms, shares)
        };
        let others = |metrics: &Self| {
            metrics.others.iter().map(|(k, v)| (k.clone(), v.get().to_owned())).collect::<Vec<_>>()
        };
        known(self) == known(other) && others(self) == others(other)
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldResource {
    /// Its name.
    pub resource_id: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Since when it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// How long it is kept, if nobody uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whatever else is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<OpenObject>,
}

/// Whether the packages on disk are as they were registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackageDrift {
    /// Whether they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<bool>,
}

impl PackageDrift {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        Ok(Self { drift: value.object()?.optional("drift", Value::flag)? })
    }
}
