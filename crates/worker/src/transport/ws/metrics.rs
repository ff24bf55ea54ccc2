//! What a worker counts, in the text format of Prometheus.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use protocol::rest::leases::VerdictWord;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Upper bounds of `task_duration_ms`.
const DURATION_MS: [f64; 12] =
    [1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1e3, 5e3, 15e3, 60e3, 300e3, 3_600e3];

/// The numbers of one worker. Each worker has its own; nothing is global.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) inflight_tasks: Gauge,
    pub(crate) heartbeat_sent: Counter,
    pub(crate) heartbeat_degraded: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) frames_in: Counter,
    pub(crate) frames_out: Counter,
    results: Family<VerdictLabel, Counter>,
    durations: Family<TypeLabel, Histogram, fn() -> Histogram>,
    /// At hand, so that a task that takes no time builds no labels.
    durations_by_type: Mutex<HashMap<String, Histogram>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TypeLabel {
    node_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerdictLabel {
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DirectionLabel {
    dir: &'static str,
}

impl Metrics {
    /// All metrics, at zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let mut count = |name, help| add(&mut registry, name, help, Counter::default());
        let heartbeat_sent = count("heartbeat_sent", "Heartbeats that were sent");
        let heartbeat_degraded =
            count("heartbeat_degraded", "Heartbeats of a worker that drains or lacks something");
        let reconnects = count("ws_reconnects", "Connections after the first");
        let inflight = "Tasks that run";
        let inflight_tasks = add(&mut registry, "inflight_tasks", inflight, Gauge::default());
        let frames: Family<DirectionLabel, Counter> =
            add(&mut registry, "ws_frames", "Frames of sessions", Family::default());
        let direction = |dir| frames.get_or_create(&DirectionLabel { dir }).clone();
        let (frames_in, frames_out) = (direction("in"), direction("out"));
        let results = add(&mut registry, "results", "Verdicts about reports", Family::default());
        let histogram: fn() -> Histogram = || Histogram::new(DURATION_MS);
        let durations = Family::new_with_constructor(histogram);
        let durations = add(&mut registry, "task_duration_ms", "How long work took", durations);
        let durations_by_type = Mutex::default();
        Self {
            registry,
            inflight_tasks,
            heartbeat_sent,
            heartbeat_degraded,
            reconnects,
            frames_in,
            frames_out,
            results,
            durations,
            durations_by_type,
        }
    }

    pub(crate) fn task_took(&self, node_type: &str, duration: Duration) {
        let mut by_type = self.durations_by_type.lock();
        if !by_type.contains_key(node_type) {
            let label = TypeLabel { node_type: node_type.to_owned() };
            let child = self.durations.get_or_create(&label).clone();
            by_type.insert(node_type.to_owned(), child);
        }
        by_type[node_type].observe(duration.as_secs_f64() * 1000.0);
    }

    pub(crate) fn judged(&self, verdict: VerdictWord) {
        let verdict = match verdict {
            VerdictWord::Committed => "COMMITTED",
            VerdictWord::Cancelled => "CANCELLED",
            VerdictWord::Rejected => "REJECTED",
        };
        self.results.get_or_create(&VerdictLabel { verdict }).inc();
    }

    /// All of them, as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Who asks at the same time.
const CONNECTIONS_MAX: usize = 16;
/// How long a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// After a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A door that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct MetricsDoor {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl MetricsDoor {
    /// Opens it.
    pub(crate) async fn open(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, serving: tokio::spawn(serve(listener, metrics)) })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsDoor {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&room).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let answer =
                |request| std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics)));
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(false);
            // Who hangs up early has no interest in the answer.
            let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics.text()),
        (&Method::GET, "/") => (StatusCode::OK, "metrics are at /metrics\n".into()),
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "metrics are at /metrics\n".into()),
        (_, _) => (StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".into()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT.parse().expect("a plain header"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_seed() {
        let metrics = Metrics::new();
        metrics.inflight_tasks.set(2);
        metrics.task_took("core.noop", Duration::from_millis(3));
        metrics.judged(VerdictWord::Committed);
        metrics.frames_in.inc();
        let text = metrics.text();
        for line in [
            "inflight_tasks 2",
            "task_duration_ms_bucket{le=\"5.0\",node_type=\"core.noop\"} 1",
            "heartbeat_sent_total 0",
            "heartbeat_degraded_total 0",
            "ws_reconnects_total 0",
            "ws_frames_total{dir=\"in\"} 1",
            "results_total{verdict=\"COMMITTED\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
