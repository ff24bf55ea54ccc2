//! Every metric, for people.

/// One metric.
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

const fn row(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricRow {
    MetricRow { name, kind, labels, help }
}

/// Every metric. The first six have the names of seed 000 section 6.
pub const METRICS: &[MetricRow] = &[
    row("ws_conn_active", "gauge", &["tenant"], "Workers that are connected by WebSocket."),
    row(
        "ws_frame_bytes_total",
        "counter",
        &["tenant", "dir"],
        "Bytes of frames, `in` from workers and `out` to them.",
    ),
    row(
        "ws_heartbeat_miss_total",
        "counter",
        &["tenant", "worker"],
        "Times that a connected worker was not heard of when it should have been.",
    ),
    row(
        "cmd_dispatch_total",
        "counter",
        &["tenant", "node_type"],
        "Leases handed to workers, by the type of the task.",
    ),
    row(
        "cmd_retry_total",
        "counter",
        &["reason"],
        "Attempts that ended and are followed by another: failed, expired, timed_out, undelivered.",
    ),
    row(
        "result_latency_ms",
        "histogram",
        &["tenant", "node_type"],
        "From the grant of a lease to its committed report, in milliseconds.",
    ),
    row("inflight_tasks", "gauge", &["tenant"], "Tasks that workers hold."),
    row(
        "ws_heartbeat_latency_ms",
        "histogram",
        &["tenant"],
        "From a ping to a connected worker to its answer, in milliseconds.",
    ),
    row("tasks_submitted_total", "counter", &["tenant"], "Tasks that were made."),
    row("tasks_live", "gauge", &["tenant"], "Tasks that have not come to their end."),
    row("tasks_ready", "gauge", &["tenant"], "Tasks that may run and are held by no worker."),
    row("reports_total", "counter", &["tenant", "verdict"], "Reports, by the verdict they got."),
    row("workers", "gauge", &["tenant", "health"], "Workers, by how they do."),
    row(
        "workers_known",
        "gauge",
        &["tenant", "door"],
        "Workers that a door remembers, with a connection or without: `ws` or `resp`.",
    ),
    row(
        "workers_forgotten",
        "gauge",
        &["tenant", "door"],
        "Workers that a door forgot since the start, by age or to make room.",
    ),
    row("store_commit_ms", "histogram", &[], "One transaction of the store, in milliseconds."),
    row("store_commit_changes", "histogram", &[], "Facts in one transaction of the store."),
    row("store_available", "gauge", &[], "1 while the store keeps what it is given, else 0."),
    row(
        "assertions_failed_total",
        "counter",
        &[],
        "Times that a tenant was rebuilt from the store because its memory broke a rule; report it.",
    ),
    row("http_requests_total", "counter", &["route", "status"], "Answered requests."),
    row("http_request_ms", "histogram", &["route"], "From request to answer, in milliseconds."),
    row("process_resident_memory_bytes", "gauge", &[], "Memory of the server, in bytes."),
];
