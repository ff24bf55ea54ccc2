//! What a heartbeat says.
//!
//! Besides the measures of the schema: `leases` (the leases that are held here), `pending_acks`
//! (reports that are not confirmed) and `draining`.

use std::collections::BTreeMap;

use protocol::session::payload::Payload;
use protocol::session::payload::heartbeat::{Heartbeat, Metrics};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::load::Shares;

/// The most leases that one heartbeat names.
const LEASES_MAX: usize = 4096;

/// How the worker fares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    pub(crate) shares: Shares,
    pub(crate) inflight: usize,
    pub(crate) pending_acks: usize,
    pub(crate) is_draining: bool,
}

/// The payload of a heartbeat.
pub(crate) fn payload<'a>(pulse: &Pulse, leases: impl Iterator<Item = &'a str>) -> Box<RawValue> {
    let leases: Vec<&str> = leases.take(LEASES_MAX).collect();
    let others = BTreeMap::from([
        ("draining".to_owned(), raw(&pulse.is_draining)),
        ("leases".to_owned(), raw(&leases)),
        ("pending_acks".to_owned(), raw(&pulse.pending_acks)),
    ]);
    let metrics = Metrics {
        inflight: u64::try_from(pulse.inflight).unwrap_or(u64::MAX),
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

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("plain values become JSON")
}
