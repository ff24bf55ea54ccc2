//! What is counted for the WebSocket connections of one tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::table::{DirectionLabels, Families, MissLabels, TenantLabel};

/// Limit: distinct values of `worker` per server; the misses of further workers count as `other`.
const WORKERS_COUNTED_MAX: usize = 10_000;
const OTHER: &str = "other";

/// The numbers of one tenant's connections.
pub(crate) struct WsMetrics {
    tenant: String,
    families: Arc<Families>,
    workers_counted: Arc<AtomicUsize>,
    connections: Gauge,
    bytes_in: Counter,
    bytes_out: Counter,
    latency_ms: Histogram,
}

impl WsMetrics {
    pub(super) fn new(
        tenant: &str,
        families: Arc<Families>,
        workers_counted: Arc<AtomicUsize>,
    ) -> Self {
        let label = TenantLabel { tenant: tenant.to_owned() };
        let bytes = |dir| DirectionLabels { tenant: tenant.to_owned(), dir };
        Self {
            tenant: tenant.to_owned(),
            connections: families.ws_conn_active.get_or_create_owned(&label),
            bytes_in: families.ws_frame_bytes_total.get_or_create_owned(&bytes("in")),
            bytes_out: families.ws_frame_bytes_total.get_or_create_owned(&bytes("out")),
            latency_ms: families.ws_heartbeat_latency_ms.get_or_create_owned(&label),
            families,
            workers_counted,
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
        let misses = &self.families.ws_heartbeat_miss_total;
        let mut labels = MissLabels { tenant: self.tenant.clone(), worker: worker.to_owned() };
        if misses.get(&labels).is_none()
            && self.workers_counted.fetch_add(1, Ordering::Relaxed) >= WORKERS_COUNTED_MAX
        {
            OTHER.clone_into(&mut labels.worker);
        }
        misses.get_or_create(&labels).inc();
    }
}
