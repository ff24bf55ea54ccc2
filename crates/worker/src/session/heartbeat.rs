//! What a heartbeat says.
//!
//! Besides the measures of the schema: `leases` (the leases that are held here), `pending_acks`
//! (reports that are not confirmed), `draining` and `resources` (how many are kept here and in
//! use, their bytes, and the ones that were used last).

use std::collections::BTreeMap;

use protocol::session::payload::Payload;
use protocol::session::payload::heartbeat::{Heartbeat, Metrics, ResourceMetrics, ToldResource};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::load::Shares;
use crate::resources::{Registry, Totals};

/// The most leases that one heartbeat names.
const LEASES_MAX: usize = 4096;
/// The most resources that one heartbeat names.
const RESOURCES_TOLD_MAX: usize = 256;
/// What is known about a resource travels with heartbeats, if it is no larger than this.
const METADATA_TOLD_BYTES_MAX: usize = 1024;

/// How the worker fares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    pub(crate) shares: Shares,
    pub(crate) inflight: usize,
    pub(crate) pending_acks: usize,
    pub(crate) is_draining: bool,
}

/// The payload of a heartbeat.
pub(crate) fn payload<'a>(
    pulse: &Pulse,
    leases: impl Iterator<Item = &'a str>,
    resources: &Registry,
) -> Box<RawValue> {
    let leases: Vec<&str> = leases.take(LEASES_MAX).collect();
    let others = BTreeMap::from([
        ("draining".to_owned(), raw(&pulse.is_draining)),
        ("leases".to_owned(), raw(&leases)),
        ("pending_acks".to_owned(), raw(&pulse.pending_acks)),
        ("resources".to_owned(), raw(&kept(resources))),
    ]);
    let metrics = Metrics {
        inflight: whole(pulse.inflight),
        cpu_pct: pulse.shares.cpu,
        mem_pct: pulse.shares.mem,
        disk_pct: pulse.shares.disk,
        latency_ms: None,
        others,
    };
    // A machine that is short of something tells so in its measures; what follows from that is
    // the server's to decide.
    let healthy = !pulse.is_draining;
    Payload::Heartbeat(Heartbeat { healthy, metrics, packages: None }).encode()
}

fn kept(registry: &Registry) -> ResourceMetrics {
    let Totals { count, disk_bytes, mem_bytes, in_use } = registry.totals();
    let mut latest = registry.list(None, None);
    latest.sort_by(|a, b| b.used_at.cmp(&a.used_at).then_with(|| a.id.cmp(&b.id)));
    let told = latest.into_iter().take(RESOURCES_TOLD_MAX).map(|one| ToldResource {
        size_bytes: one.bytes(),
        resource_id: one.id,
        resource_type: one.resource_type,
        scope: one.scope,
        created_at: Some(one.created_at.to_string()),
        expires_at: Some(one.expires_at.to_string()),
        metadata: one.metadata.filter(|text| text.get().len() <= METADATA_TOLD_BYTES_MAX),
    });
    ResourceMetrics {
        count: whole(count),
        bytes: disk_bytes.saturating_add(mem_bytes),
        disk_bytes,
        mem_bytes,
        in_use: whole(in_use),
        list: told.collect(),
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}
