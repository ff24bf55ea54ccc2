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

/// Sets of labels, with the names of the labels.
macro_rules! labels {
    ($($name:ident { $($label:ident: $type:ty),* })*) => {
        $(
            #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
            pub(super) struct $name {
                $(pub(super) $label: $type,)*
            }

            impl $name {
                const NAMES: &[&str] = &[$(stringify!($label)),*];
            }
        )*
    };
}

labels! {
    TenantLabel { tenant: String }
    TypeLabels { tenant: String, node_type: String }
    VerdictLabels { tenant: String, verdict: &'static str }
    WorkerLabels { tenant: String, health: String }
    DoorLabels { tenant: String, door: &'static str }
    DirectionLabels { tenant: String, dir: &'static str }
    MissLabels { tenant: String, worker: String }
    RetryLabel { reason: &'static str }
    RouteLabel { route: &'static str }
    RequestLabels { route: &'static str, status: u16 }
}

/// Makes of one table the numbers, their registration, and the rows for people. A row is: name,
/// kind with the bounds of its buckets, labels if it has a series for each of their values,
/// sentence.
macro_rules! metrics {
    ($($name:ident: $kind:ident $(($buckets:ident))? $(by $labels:ident)?, $help:literal;)*) => {
        /// Every metric. The first six have the names of seed 000 section 6.
        pub const METRICS: &[MetricRow] = &[$(MetricRow {
            name: stringify!($name),
            kind: metrics!(@word $kind),
            labels: metrics!(@names $($labels)?),
            help: $help,
        }),*];

        /// The numbers of one server.
        pub(super) struct Families {
            $(pub(super) $name: metrics!(@type $kind $($labels)?),)*
        }

        impl Families {
            /// All metrics, at zero.
            pub(super) fn registered(registry: &mut Registry) -> Self {
                $(
                    let $name: metrics!(@type $kind $($labels)?) =
                        metrics!(@new [$($buckets)?] [$($labels)?]);
                    // The library adds `_total` to counters itself, and a full stop to sentences.
                    let name = stringify!($name).trim_end_matches("_total");
                    registry.register(name, $help.trim_end_matches('.'), $name.clone());
                )*
                Self { $($name),* }
            }
        }
    };
    (@word Counter) => { "counter" };
    (@word Gauge) => { "gauge" };
    (@word Histogram) => { "histogram" };
    (@names) => { &[] };
    (@names $labels:ident) => { $labels::NAMES };
    (@type $kind:ident) => { $kind };
    (@type Histogram $labels:ident) => { Family<$labels, Histogram, fn() -> Histogram> };
    (@type $kind:ident $labels:ident) => { Family<$labels, $kind> };
    (@new [] [$($labels:ident)?]) => { Default::default() };
    (@new [$buckets:ident] []) => { Histogram::new($buckets) };
    (@new [$buckets:ident] [$labels:ident]) => {
        Family::new_with_constructor(|| Histogram::new($buckets))
    };
}

metrics! {
    ws_conn_active: Gauge by TenantLabel, "Workers that are connected by WebSocket.";
    ws_frame_bytes_total: Counter by DirectionLabels,
        "Bytes of frames, `in` from workers and `out` to them.";
    ws_heartbeat_miss_total: Counter by MissLabels,
        "Times that a connected worker was not heard of when it should have been.";
    cmd_dispatch_total: Counter by TypeLabels, "Leases handed to workers, by the type of the task.";
    cmd_retry_total: Counter by RetryLabel,
        "Attempts that ended and are followed by another: failed, expired, timed_out, undelivered.";
    result_latency_ms: Histogram(LATENCY_MS) by TypeLabels,
        "From the grant of a lease to its committed report, in milliseconds.";
    inflight_tasks: Gauge by TenantLabel, "Tasks that workers hold.";
    ws_heartbeat_latency_ms: Histogram(HEARTBEAT_MS) by TenantLabel,
        "From a ping to a connected worker to its answer, in milliseconds.";
    tasks_submitted_total: Counter by TenantLabel, "Tasks that were made.";
    tasks_live: Gauge by TenantLabel, "Tasks that have not come to their end.";
    tasks_ready: Gauge by TenantLabel, "Tasks that may run and are held by no worker.";
    reports_total: Counter by VerdictLabels, "Reports, by the verdict they got.";
    workers: Gauge by WorkerLabels, "Workers, by how they do.";
    workers_known: Gauge by DoorLabels,
        "Workers that a door remembers, with a connection or without: `ws` or `resp`.";
    workers_forgotten: Gauge by DoorLabels,
        "Workers that a door forgot since the start, by age or to make room.";
    store_commit_ms: Histogram(COMMIT_MS), "One transaction of the store, in milliseconds.";
    store_commit_changes: Histogram(COMMIT_CHANGES), "Facts in one transaction of the store.";
    store_available: Gauge, "1 while the store keeps what it is given, else 0.";
    assertions_failed_total: Counter,
        "Times that a tenant was rebuilt from the store because its memory broke a rule; report \
        it.";
    http_requests_total: Counter by RequestLabels, "Answered requests.";
    http_request_ms: Histogram(REQUEST_MS) by RouteLabel,
        "From request to answer, in milliseconds.";
    process_resident_memory_bytes: Gauge, "Memory of the server, in bytes.";
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
