//! Sockets: accepts connections, bounds them, ends them in an orderly way.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::router::router;
use crate::app::App;

/// Limit: HTTP connections at the same time; further ones wait in the system's own queue.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Limit: silence on a connection between requests, or before a complete head. It must be longer
/// than a worker's time between heartbeats.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Limit: the head of a request, and the buffer that a body is read through.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Limit: headers in one request.
const HEADERS_MAX: usize = 64;
/// Limit: requests that are under way when the server stops get so long to end.
const STOP_GRACE: Duration = Duration::from_secs(3);
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

/// Limit: how long a peer may take nothing of an answer. One that does not read a stream of events
/// or logs would otherwise hold its connection, and its place among the readers, for ever.
const HTTP_STALL_MAX: Duration = Duration::from_secs(30);

/// A stream whose writes fail when the peer stalls.
pub(super) struct Guarded<S> {
    stream: S,
    /// Ends the connection; set while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Guarded<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, stalled: None }
    }

    fn guard<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(HTTP_STALL_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.guard(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.guard(context, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut_and_one_that_takes_little_is_not() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Guarded::new(near);
        let reading = tokio::spawn(async move {
            let mut taken = [0; 16];
            for _ in 0..5 {
                tokio::time::sleep(HTTP_STALL_MAX.saturating_sub(Duration::from_secs(1))).await;
                far.read_exact(&mut taken).await.expect("bytes");
            }
            far
        });
        near.write_all(&[0; 96]).await.expect("slow, but alive");
        let far = reading.await.expect("a reader");
        let began = Instant::now();
        let error = near.write_all(&[0; 32]).await.expect_err("nobody reads");
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, HTTP_STALL_MAX));
        drop(far);
    }
}
