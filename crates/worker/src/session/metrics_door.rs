//! A small HTTP door for the metrics of a worker.

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
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::metrics::Metrics;

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
