//! What the server counts, in the text format of Prometheus.
//!
//! `table` lists every metric for people; `tenant` holds what is counted per tenant. Children of
//! families are kept at hand, so that the coordinator's loop neither builds labels nor hashes them.

mod table;
mod tenant;
mod ws;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use coordinator::{WorkerHealth, WorkerView};
use model::TenantId;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use shard::sessions::SessionCounts;

use self::table::{DoorLabels, Families, RequestLabels, RouteLabel, VerdictLabels, WorkerLabels};
pub use self::table::{METRICS, MetricRow};
use self::tenant::REJECTED;
pub use self::tenant::{NODE_TYPES_PER_TENANT_MAX, TenantMetrics};
pub(crate) use self::ws::WsMetrics;

/// The numbers of one server. Each server has its own; nothing is global.
pub struct Metrics {
    registry: Registry,
    families: Arc<Families>,
    /// Workers whose misses have a series of their own.
    workers_counted: Arc<AtomicUsize>,
}

impl Default for Metrics {
    /// All metrics, at zero.
    fn default() -> Self {
        let mut registry = Registry::default();
        let families = Arc::new(Families::registered(&mut registry));
        Self { registry, families, workers_counted: Arc::default() }
    }
}

impl Metrics {
    /// What is counted of a tenant while this server owns it. The numbers go on where an earlier
    /// owner of the same tenant in this process left them.
    pub fn tenant(&self, tenant: &TenantId) -> TenantMetrics {
        TenantMetrics::new(tenant, Arc::clone(&self.families))
    }

    /// Counts reports that the door itself refused: no coordinator could have known their lease.
    pub fn observe_refused_reports(&self, tenant: &TenantId, count: usize) {
        let labels = VerdictLabels { tenant: tenant.to_string(), verdict: REJECTED };
        self.families.reports_total.get_or_create(&labels).inc_by(count as u64);
    }

    /// Says whether the store keeps what it is given.
    pub fn set_store_available(&self, is_available: bool) {
        self.families.store_available.set(is_available.into());
    }

    /// Counts a shard that found itself in a state that no rule allows.
    pub(crate) fn count_failed_assertion(&self) {
        self.families.assertions_failed_total.inc();
    }

    /// Says how a tenant's workers do.
    pub(crate) fn set_workers(&self, tenant: &TenantId, workers: &[WorkerView]) {
        for health in WorkerHealth::ALL {
            let count = workers.iter().filter(|worker| worker.health == health).count();
            let health = health.word().to_ascii_lowercase();
            let labels = WorkerLabels { tenant: tenant.to_string(), health };
            self.families
                .workers
                .get_or_create(&labels)
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Says how many workers of a tenant a door remembers, and how many it forgot.
    pub(crate) fn set_known(&self, tenant: &TenantId, door: &'static str, counts: SessionCounts) {
        let labels = DoorLabels { tenant: tenant.to_string(), door };
        let known = i64::try_from(counts.known).unwrap_or(i64::MAX);
        self.families.workers_known.get_or_create(&labels).set(known);
        let forgotten = i64::try_from(counts.evicted).unwrap_or(i64::MAX);
        self.families.workers_forgotten.get_or_create(&labels).set(forgotten);
    }

    /// Measures one request.
    pub(crate) fn observe_request(&self, route: &'static str, status: u16, took: Duration) {
        let Families { http_requests_total, http_request_ms, .. } = &*self.families;
        http_requests_total.get_or_create(&RequestLabels { route, status }).inc();
        http_request_ms.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64() * 1e3);
    }

    /// What a tenant may see: its own series and those that belong to nobody.
    pub(crate) fn render(&self, tenant: &TenantId) -> Result<String, std::fmt::Error> {
        self.families.process_resident_memory_bytes.set(resident_bytes());
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        let own = format!("tenant=\"{tenant}\"");
        let mut visible = String::with_capacity(text.len());
        for line in text.lines() {
            // Tenants never see each other; names of tenants hold no quotes.
            if line.starts_with('#') || !line.contains("tenant=\"") || line.contains(&own) {
                writeln!(visible, "{line}")?;
            }
        }
        Ok(visible)
    }

    /// The numbers of a tenant's WebSocket connections.
    pub(crate) fn ws(&self, tenant: &TenantId) -> Arc<WsMetrics> {
        let (families, counted) = (Arc::clone(&self.families), Arc::clone(&self.workers_counted));
        Arc::new(WsMetrics::new(tenant.as_str(), families, counted))
    }
}

/// Zero where the system does not say.
fn resident_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests;
