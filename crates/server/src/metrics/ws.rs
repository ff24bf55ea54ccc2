//! What is counted for the WebSocket connections of one tenant.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{HistogramFamily, TenantLabel, register};

/// Limit: distinct values of `worker` per server; the misses of further workers count as `other`.
const WORKERS_COUNTED_MAX: usize = 10_000;
const OTHER: &str = "other";
const HEARTBEAT_MS: [f64; 12] =
    [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 2_000.0, 10_000.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabels {
    tenant: String,
    dir: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MissLabels {
    tenant: String,
    worker: String,
}

/// The families of the door.
#[derive(Clone)]
pub(super) struct WsFamilies {
    connections: Family<TenantLabel, Gauge>,
    bytes: Family<DirectionLabels, Counter>,
    misses: Family<MissLabels, Counter>,
    latency_ms: HistogramFamily<TenantLabel>,
    workers_counted: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl WsFamilies {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let families = Self {
            connections: Family::default(),
            bytes: Family::default(),
            misses: Family::default(),
            latency_ms: Family::new_with_constructor(|| Histogram::new(HEARTBEAT_MS)),
            workers_counted: std::sync::Arc::default(),
        };
        register(registry, "ws_conn_active", families.connections.clone());
        register(registry, "ws_frame_bytes_total", families.bytes.clone());
        register(registry, "ws_heartbeat_miss_total", families.misses.clone());
        register(registry, "ws_heartbeat_latency_ms", families.latency_ms.clone());
        families
    }
}

/// The numbers of one tenant's connections.
pub(crate) struct WsMetrics {
    tenant: String,
    families: WsFamilies,
    connections: Gauge,
    bytes_in: Counter,
    bytes_out: Counter,
    latency_ms: Histogram,
}

impl WsMetrics {
    pub(super) fn new(tenant: &str, families: &WsFamilies) -> Self {
        let label = TenantLabel { tenant: tenant.to_owned() };
        let bytes = |dir| DirectionLabels { tenant: tenant.to_owned(), dir };
        Self {
            tenant: tenant.to_owned(),
            connections: families.connections.get_or_create_owned(&label),
            bytes_in: families.bytes.get_or_create_owned(&bytes("in")),
            bytes_out: families.bytes.get_or_create_owned(&bytes("out")),
            latency_ms: families.latency_ms.get_or_create_owned(&label),
            families: families.clone(),
        }
    }

    pub(crate) fn connected(&self) {
        self.connections.inc();
    }

    pub(crate) fn disconnected(&self) {
        self.connections.dec();
    }

    /// Counts bytes, and sets the caller's own counts back.
    pub(crate) fn count_bytes(&self, bytes_in: &mut u64, bytes_out: &mut u64) {
        for (counter, bytes) in [(&self.bytes_in, bytes_in), (&self.bytes_out, bytes_out)] {
            if *bytes > 0 {
                counter.inc_by(std::mem::take(bytes));
            }
        }
    }

    /// A worker answered a ping after so long.
    pub(crate) fn answered_after(&self, took: Duration) {
        self.latency_ms.observe(took.as_secs_f64() * 1_000.0);
    }

    pub(crate) fn missed_heartbeat(&self, worker: &str) {
        use std::sync::atomic::Ordering;
        let misses = &self.families.misses;
        let mut labels = MissLabels { tenant: self.tenant.clone(), worker: worker.to_owned() };
        if misses.get(&labels).is_none()
            && self.families.workers_counted.fetch_add(1, Ordering::Relaxed) >= WORKERS_COUNTED_MAX
        {
            OTHER.clone_into(&mut labels.worker);
        }
        misses.get_or_create(&labels).inc();
    }
}
