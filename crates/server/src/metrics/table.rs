//! Every metric, in one table: its type, its labels, and what it says.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// One metric, for people.
#[derive(Clone, Copy, Debug)]
pub struct MetricRow {
    /// As it is exposed.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TenantLabel {
    pub(super) tenant: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TypeLabels {
    pub(super) tenant: String,
    pub(super) node_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct VerdictLabels {
    pub(super) tenant: String,
    pub(super) verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WorkerLabels {
    pub(super) tenant: String,
    pub(super) health: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct DoorLabels {
    pub(super) tenant: String,
    pub(super) door: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct DirectionLabels {
    pub(super) tenant: String,
    pub(super) dir: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct MissLabels {
    pub(super) tenant: String,
    pub(super) worker: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RetryLabel {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RouteLabel {
    pub(super) route: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) route: &'static str,
    pub(super) status: u16,
}

/// Makes of one table the numbers, their registration, and the rows for people. A row is: name,
/// type, what it begins with unless that is its default, kind, labels, sentence.
macro_rules! metrics {
    ($($name:ident: $type:ty $(= $new:expr)?,
        $kind:literal [$($label:literal),*] $help:literal;)*) => {
        /// Every metric. The first six have the names of seed 000 section 6.
        pub const METRICS: &[MetricRow] = &[$(MetricRow {
            name: stringify!($name),
            kind: $kind,
            labels: &[$($label),*],
            help: $help,
        }),*];

        /// The numbers of one server. A family has a child for each value of its labels.
        pub(super) struct Families {
            $(pub(super) $name: $type,)*
        }

        impl Families {
            /// All metrics, at zero.
            pub(super) fn registered(registry: &mut Registry) -> Self {
                $(
                    let $name: $type = metrics!(@new $($new)?);
                    // The library adds `_total` to counters itself, and a full stop to sentences.
                    let name = stringify!($name).trim_end_matches("_total");
                    registry.register(name, $help.trim_end_matches('.'), $name.clone());
                )*
                Self { $($name),* }
            }
        }
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
}

metrics! {
    ws_conn_active: Family<TenantLabel, Gauge>,
        "gauge" ["tenant"] "Workers that are connected by WebSocket.";
    ws_frame_bytes_total: Family<DirectionLabels, Counter>,
        "counter" ["tenant", "dir"] "Bytes of frames, `in` from workers and `out` to them.";
    ws_heartbeat_miss_total: Family<MissLabels, Counter>,
        "counter" ["tenant", "worker"]
        "Times that a connected worker was not heard of when it should have been.";
    cmd_dispatch_total: Family<TypeLabels, Counter>,
        "counter" ["tenant", "node_type"] "Leases handed to workers, by the type of the task.";
    cmd_retry_total: Family<RetryLabel, Counter>,
        "counter" ["reason"]
        "Attempts that ended and are followed by another: failed, expired, timed_out, undelivered.";
    result_latency_ms: HistogramFamily<TypeLabels>
        = Family::new_with_constructor(|| Histogram::new(LATENCY_MS)),
        "histogram" ["tenant", "node_type"]
        "From the grant of a lease to its committed report, in milliseconds.";
    inflight_tasks: Family<TenantLabel, Gauge>, "gauge" ["tenant"] "Tasks that workers hold.";
    ws_heartbeat_latency_ms: HistogramFamily<TenantLabel>
        = Family::new_with_constructor(|| Histogram::new(HEARTBEAT_MS)),
        "histogram" ["tenant"] "From a ping to a connected worker to its answer, in milliseconds.";
    tasks_submitted_total: Family<TenantLabel, Counter>,
        "counter" ["tenant"] "Tasks that were made.";
    tasks_live: Family<TenantLabel, Gauge>,
        "gauge" ["tenant"] "Tasks that have not come to their end.";
    tasks_ready: Family<TenantLabel, Gauge>,
        "gauge" ["tenant"] "Tasks that may run and are held by no worker.";
    reports_total: Family<VerdictLabels, Counter>,
        "counter" ["tenant", "verdict"] "Reports, by the verdict they got.";
    workers: Family<WorkerLabels, Gauge>, "gauge" ["tenant", "health"] "Workers, by how they do.";
    workers_known: Family<DoorLabels, Gauge>,
        "gauge" ["tenant", "door"]
        "Workers that a door remembers, with a connection or without: `ws` or `resp`.";
    workers_forgotten: Family<DoorLabels, Gauge>,
        "gauge" ["tenant", "door"]
        "Workers that a door forgot since the start, by age or to make room.";
    store_commit_ms: Histogram = Histogram::new(COMMIT_MS),
        "histogram" [] "One transaction of the store, in milliseconds.";
    store_commit_changes: Histogram = Histogram::new(COMMIT_CHANGES),
        "histogram" [] "Facts in one transaction of the store.";
    store_available: Gauge, "gauge" [] "1 while the store keeps what it is given, else 0.";
    assertions_failed_total: Counter,
        "counter" []
        "Times that a tenant was rebuilt from the store because its memory broke a rule; \
        report it.";
    http_requests_total: Family<RequestLabels, Counter>,
        "counter" ["route", "status"] "Answered requests.";
    http_request_ms: HistogramFamily<RouteLabel>
        = Family::new_with_constructor(|| Histogram::new(REQUEST_MS)),
        "histogram" ["route"] "From request to answer, in milliseconds.";
    process_resident_memory_bytes: Gauge, "gauge" [] "Memory of the server, in bytes.";
}

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
const HEARTBEAT_MS: [f64; 12] =
    [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 2_000.0, 10_000.0];
