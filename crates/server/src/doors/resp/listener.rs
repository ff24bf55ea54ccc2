//! Sockets: accepts connections over TCP, TLS and a Unix socket, and bounds them.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::auth::Attempts;
use super::client::Client;
use super::connection::Connection;
use super::wire::Wire;
use crate::app::App;

/// Limit: connected Redis clients.
const RESP_CONNECTIONS_MAX: usize = 20_000;
/// Limit: redis clients of one address that have shown no key.
const EARLY_PER_ADDRESS_MAX: usize = 100;
/// Limit: from the connection to its key.
pub(crate) const AUTH_WITHIN: Duration = Duration::from_secs(5);
/// After a failed accept (no file descriptors left), trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How clients that were made for another server are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shapes {
    /// As Redis does.
    #[default]
    Redis,
    /// As the queue manager of seed 004 does: `BRPOP` gives the value alone, `ZRANGE` always gives
    /// scores.
    Agq,
}

/// What the connections of this door share.
#[derive(Default)]
pub(crate) struct Door {
    pub(super) shapes: Shapes,
    pub(super) attempts: Attempts,
    next_id: AtomicU64,
    early: Mutex<BTreeMap<Option<IpAddr>, usize>>,
    pub(super) open: Mutex<BTreeMap<u64, super::info::OpenClient>>,
    pub(super) commands: AtomicU64,
    pub(super) accepted: AtomicU64,
}

impl Door {
    pub(crate) fn new(shapes: Shapes) -> Self {
        Self { shapes, ..Self::default() }
    }

    /// One more connection of an address that has proved nothing; `None` if there are too many.
    fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Early> {
        let mut early = self.early.lock();
        let count = early.entry(address).or_default();
        if *count >= EARLY_PER_ADDRESS_MAX || self.open.lock().len() >= RESP_CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        Some(Early { door: Arc::clone(self), address })
    }
}

/// A place among those who have proved nothing; given back when it is dropped.
pub(super) struct Early {
    door: Arc<Door>,
    address: Option<IpAddr>,
}

impl Drop for Early {
    fn drop(&mut self) {
        let mut early = self.door.early.lock();
        if let Some(count) = early.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                early.remove(&self.address);
            }
        }
    }
}

/// Serves TCP until `shutdown`.
pub(crate) async fn serve_tcp(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Arc<App>,
    shutdown: CancellationToken,
) {
    while let Some((stream, peer)) = accepted(&shutdown, || listener.accept()).await {
        // Small answers must not wait for the peer's acknowledgement.
        let _ = stream.set_nodelay(true);
        let stream = encrypt(stream, tls.clone());
        begin(Arc::clone(&app), Some(peer.ip()), peer.to_string(), stream);
    }
}

/// Serves a Unix socket until `shutdown`.
pub(crate) async fn serve_unix(listener: UnixListener, app: Arc<App>, shutdown: CancellationToken) {
    while let Some((stream, _)) = accepted(&shutdown, || listener.accept()).await {
        let stream = std::future::ready(Some(Either::Right(Either::Left(stream))));
        begin(Arc::clone(&app), None, "unix".to_owned(), stream);
    }
}

/// The next connection; `None` when the server stops.
async fn accepted<C, F: Future<Output = io::Result<C>>>(
    shutdown: &CancellationToken,
    accept: impl Fn() -> F,
) -> Option<C> {
    loop {
        match shutdown.run_until_cancelled(accept()).await? {
            Ok(connection) => return Some(connection),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn encrypt(stream: TcpStream, tls: Option<TlsAcceptor>) -> Option<Stream> {
    match tls {
        None => Some(Either::Left(stream)),
        Some(tls) => Some(Either::Right(Either::Right(Box::new(tls.accept(stream).await.ok()?)))),
    }
}

fn begin(
    app: Arc<App>,
    address: Option<IpAddr>,
    peer: String,
    stream: impl Future<Output = Option<Stream>> + Send + 'static,
) {
    let door = Arc::clone(&app.resp);
    let Some(early) = door.admit(address) else { return };
    door.accepted.fetch_add(1, Ordering::Relaxed);
    let id = door.next_id.fetch_add(1, Ordering::Relaxed) + 1;
    let tracker = app.connections.clone();
    tracker.spawn(async move {
        let Ok(Some(stream)) = tokio::time::timeout(AUTH_WITHIN, stream).await else { return };
        let client = Client::new(id, peer, address);
        Connection::new(app, Wire::new(stream), client, early).run().await;
    });
}

/// A connected socket: TCP, a Unix socket, or TLS.
pub(super) type Stream = Either<TcpStream, Either<UnixStream, Box<TlsStream<TcpStream>>>>;

/// What the system has to say about the socket, such as that the peer threw away what it was
/// sent: a peer that closes without reading resets the connection.
pub(super) fn take_error(stream: &Stream) -> Option<io::Error> {
    let error = match stream {
        Either::Left(tcp) => tcp.take_error(),
        Either::Right(Either::Left(unix)) => unix.take_error(),
        Either::Right(Either::Right(tls)) => tls.get_ref().0.take_error(),
    };
    error.unwrap_or_else(Some)
}

/// Says that nothing more will be sent, and sends no byte for it: a peer that has closed answers
/// bytes with a reset, the farewell of TLS too.
pub(super) async fn end_sending(stream: &mut Stream) {
    let _ = match stream {
        Either::Right(Either::Right(tls)) => tls.get_mut().0.shutdown().await,
        plain => plain.shutdown().await,
    };
}

/// Whether both ends have closed and the peer's system has acknowledged all that it was sent, or
/// has reset the connection.
pub(super) fn is_over(stream: &Stream) -> bool {
    match stream {
        Either::Left(tcp) => tcp.peer_addr().is_err(),
        // Both ends are in one system: there is nothing on its way.
        Either::Right(Either::Left(_)) => true,
        Either::Right(Either::Right(tls)) => tls.get_ref().0.peer_addr().is_err(),
    }
}
