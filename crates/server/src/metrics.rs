//! What the server counts, in the text format of Prometheus.
//!
//! `table` lists every metric for people; `tenant` holds what is counted per tenant. Children of
//! families are kept at hand, so that the coordinator's loop neither builds labels nor hashes them.

mod table;
mod tenant;
mod ws;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Verdict, WorkerHealth, WorkerView};
use model::TenantId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use shard::projection::Numbers;
use shard::sessions::SessionCounts;

pub use self::table::{METRICS, MetricRow};
use self::tenant::TenantVerdict;
pub use self::tenant::{NODE_TYPES_PER_TENANT_MAX, TenantMetrics};
use self::ws::WsFamilies;
pub(crate) use self::ws::WsMetrics;

pub(crate) type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// The numbers of one server. Each server has its own; nothing is global.
pub struct Metrics {
    registry: Registry,
    families: Families,
    ws: WsFamilies,
    commits: CommitMetrics,
    store_available: Gauge,
    assertions_failed: Counter,
    resident_bytes: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct TenantLabel {
    pub(crate) tenant: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct TypeLabels {
    pub(crate) tenant: String,
    pub(crate) node_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct VerdictLabels {
    pub(crate) tenant: String,
    pub(crate) verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct WorkerLabels {
    pub(crate) tenant: String,
    pub(crate) health: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DoorLabels {
    tenant: String,
    door: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RetryLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabel {
    route: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

/// The families that have a child per tenant, type or route.
#[derive(Clone)]
pub(crate) struct Families {
    pub(crate) dispatch: Family<TypeLabels, Counter>,
    pub(crate) result_latency_ms: HistogramFamily<TypeLabels>,
    pub(crate) submitted: Family<TenantLabel, Counter>,
    pub(crate) reports: Family<VerdictLabels, Counter>,
    pub(crate) live: Family<TenantLabel, Gauge>,
    pub(crate) ready: Family<TenantLabel, Gauge>,
    pub(crate) in_flight: Family<TenantLabel, Gauge>,
    pub(crate) workers: Family<WorkerLabels, Gauge>,
    workers_known: Family<DoorLabels, Gauge>,
    workers_forgotten: Family<DoorLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    request_ms: HistogramFamily<RouteLabel>,
}

/// What turns of all tenants are counted in.
#[derive(Clone)]
struct CommitMetrics {
    retries: RetryCounters,
    took_ms: Histogram,
    changes: Histogram,
}

#[derive(Clone)]
struct RetryCounters {
    failed: Counter,
    expired: Counter,
    timed_out: Counter,
    undelivered: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics, at zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let families = Families::registered(&mut registry);
        let retries = RetryCounters::registered(&mut registry);
        let ws = WsFamilies::registered(&mut registry);
        let (took_ms, changes) = (Histogram::new(COMMIT_MS), Histogram::new(COMMIT_CHANGES));
        let (store_available, resident_bytes) = (Gauge::default(), Gauge::default());
        let assertions_failed = Counter::default();
        register(&mut registry, "assertions_failed_total", assertions_failed.clone());
        register(&mut registry, "store_commit_ms", took_ms.clone());
        register(&mut registry, "store_commit_changes", changes.clone());
        register(&mut registry, "store_available", store_available.clone());
        register(&mut registry, "process_resident_memory_bytes", resident_bytes.clone());
        let commits = CommitMetrics { retries, took_ms, changes };
        Self { registry, families, ws, commits, store_available, assertions_failed, resident_bytes }
    }

    /// What is counted of a tenant while this server owns it. The numbers go on where an earlier
    /// owner of the same tenant in this process left them.
    pub fn tenant(&self, tenant: &TenantId) -> TenantMetrics {
        TenantMetrics::new(tenant, &self.families, &self.commits)
    }

    /// Counts reports that the door itself refused: no coordinator could have known their lease.
    pub fn observe_refused_reports(&self, tenant: &TenantId, count: usize) {
        let verdict = TenantVerdict::Rejected.word();
        let labels = VerdictLabels { tenant: tenant.to_string(), verdict };
        self.families.reports.get_or_create(&labels).inc_by(count as u64);
    }

    /// Says whether the store keeps what it is given.
    pub fn set_store_available(&self, is_available: bool) {
        self.store_available.set(is_available.into());
    }

    /// Counts a shard that found itself in a state that no rule allows.
    pub(crate) fn count_failed_assertion(&self) {
        self.assertions_failed.inc();
    }

    /// Says how a tenant's workers do.
    pub(crate) fn set_workers(&self, tenant: &TenantId, workers: &[WorkerView]) {
        for (health, word) in HEALTHS {
            let count = workers.iter().filter(|worker| worker.health == health).count();
            let labels = WorkerLabels { tenant: tenant.to_string(), health: word };
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
        self.families.requests.get_or_create(&RequestLabels { route, status }).inc();
        let millis = took.as_secs_f64() * 1e3;
        self.families.request_ms.get_or_create(&RouteLabel { route }).observe(millis);
    }

    /// What a tenant may see: its own series and those that belong to nobody.
    pub(crate) fn render(&self, tenant: &TenantId) -> Result<String, std::fmt::Error> {
        self.resident_bytes.set(resident_bytes());
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
        Arc::new(WsMetrics::new(tenant.as_str(), &self.ws))
    }
}

impl Families {
    fn registered(registry: &mut Registry) -> Self {
        let families = Self {
            dispatch: Family::default(),
            result_latency_ms: Family::new_with_constructor(|| Histogram::new(LATENCY_MS)),
            submitted: Family::default(),
            reports: Family::default(),
            live: Family::default(),
            ready: Family::default(),
            in_flight: Family::default(),
            workers: Family::default(),
            workers_known: Family::default(),
            workers_forgotten: Family::default(),
            requests: Family::default(),
            request_ms: Family::new_with_constructor(|| Histogram::new(REQUEST_MS)),
        };
        register(registry, "cmd_dispatch_total", families.dispatch.clone());
        register(registry, "result_latency_ms", families.result_latency_ms.clone());
        register(registry, "tasks_submitted_total", families.submitted.clone());
        register(registry, "reports_total", families.reports.clone());
        register(registry, "tasks_live", families.live.clone());
        register(registry, "tasks_ready", families.ready.clone());
        register(registry, "inflight_tasks", families.in_flight.clone());
        register(registry, "workers", families.workers.clone());
        register(registry, "workers_known", families.workers_known.clone());
        register(registry, "workers_forgotten", families.workers_forgotten.clone());
        register(registry, "http_requests_total", families.requests.clone());
        register(registry, "http_request_ms", families.request_ms.clone());
        families
    }
}

impl RetryCounters {
    fn registered(registry: &mut Registry) -> Self {
        let family = Family::<RetryLabel, Counter>::default();
        register(registry, "cmd_retry_total", family.clone());
        let child = |reason| family.get_or_create_owned(&RetryLabel { reason });
        Self {
            failed: child("failed"),
            expired: child("expired"),
            timed_out: child("timed_out"),
            undelivered: child("undelivered"),
        }
    }

    fn count(&self, numbers: &Numbers) {
        self.failed.inc_by(numbers.failed);
        self.expired.inc_by(numbers.expired);
        self.timed_out.inc_by(numbers.timed_out_retried);
        self.undelivered.inc_by(numbers.undelivered);
    }
}

/// Registers under the name that is exposed; the library adds `_total` to counters itself.
fn register(registry: &mut Registry, name: &'static str, metric: impl Metric) {
    let row = METRICS.iter().find(|row| row.name == name).expect("every metric is in the table");
    let help = row.help.trim_end_matches('.');
    registry.register(name.trim_end_matches("_total"), help, metric);
}

fn verdict_of(verdict: Verdict) -> TenantVerdict {
    match verdict {
        Verdict::Committed => TenantVerdict::Committed,
        Verdict::Cancelled(_) => TenantVerdict::Cancelled,
        Verdict::Rejected(_) => TenantVerdict::Rejected,
    }
}

const HEALTHS: [(WorkerHealth, &str); 4] = [
    (WorkerHealth::Healthy, "healthy"),
    (WorkerHealth::Warn, "warn"),
    (WorkerHealth::Degraded, "degraded"),
    (WorkerHealth::Lost, "lost"),
];

const COMMIT_MS: [f64; 22] = [
    0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0,
    100.0, 200.0, 500.0, 1_000.0,
];
const COMMIT_CHANGES: [f64; 15] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0,
    16_384.0,
];
const LATENCY_MS: [f64; 16] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 6e4, 6e5, 3.6e6];
const REQUEST_MS: [f64; 15] =
    [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 5e3, 2e4, 6e4];

/// Zero where the system does not say.
fn resident_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<i64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests;
