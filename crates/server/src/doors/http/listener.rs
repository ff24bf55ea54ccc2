//! Sockets: accepts connections, bounds them, ends them in an orderly way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::router::router;
use super::stall::Guarded;
use crate::app::App;

/// Connections at the same time; further ones wait in the system's own queue.
pub const CONNECTIONS_MAX: usize = 20_000;
/// A connection that sends no complete head for this long is closed. The same timer covers the
/// pause between two requests, so it must be longer than a worker's time between heartbeats.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The head of a request, and the buffer that a body is read through.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers in one request.
pub const HEADERS_MAX: usize = 64;
/// Requests that are under way when the server stops get so long to end.
pub const STOP_GRACE: Duration = Duration::from_secs(3);
/// After a failed accept (no file descriptors left), trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`, then lets requests end, and returns when no connection is left.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    upgrades: Router<Arc<App>>,
    shutdown: CancellationToken,
) {
    let service = router(app, upgrades);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Ends what outlives the grace period; dropped last, so nothing is left behind.
    let overdue = CancellationToken::new();
    loop {
        let (stream, permit) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let connection = connection_builder().serve_connection(
            TokioIo::new(Guarded::new(stream)),
            TowerToHyperService::new(Router::clone(&service)),
        );
        let (shutdown, overdue) = (shutdown.clone(), overdue.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let mut connection = pin!(connection.with_upgrades());
            tokio::select! {
                // A peer that breaks off is its own affair; there is nothing to handle or to log.
                _ = connection.as_mut() => return,
                () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            tokio::select! {
                _ = connection => {}
                () = overdue.cancelled() => {}
            }
        });
    }
    drop(listener);
    // Each connection gives its permit back when it is gone.
    let all = u32::try_from(CONNECTIONS_MAX).expect("a small number");
    if tokio::time::timeout(STOP_GRACE, room.acquire_many(all)).await.is_err() {
        tracing::info!("some requests did not end in time and are cut off");
    }
    overdue.cancel();
    drop(room.acquire_many(all).await);
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let permit = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers must not wait for the peer's acknowledgement. A socket that
                // refuses the option works, only slower.
                let _ = stream.set_nodelay(true);
                return (stream, permit);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// `pipeline_flush` stays off: with it, hyper takes an answer as fast as it is made, however slowly
/// it is read, and holds all of it in memory.
fn connection_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    builder
}
