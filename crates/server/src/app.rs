//! The server as a whole: options in, a running service out.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use model::WorkerId;
use protocol::session::window::WINDOW_FRAMES;
use store::{SqliteStore, Store, StoreError};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Auth, default_tenant};
use crate::clock::Clock;
use crate::directory::{Common, Directory};
use crate::doors::resp::listener::Door;
pub use crate::doors::resp::listener::Shapes;
use crate::doors::tls::TlsError;
use crate::doors::ws::listener::WS_CONNECTIONS_MAX;
use crate::doors::{http, resp, tls, ws};
use crate::events::{Tickets, floors};
use crate::logs::{FeedbackHub, LogLimits, OpenError};
use crate::metrics::Metrics;
use crate::runs::programs::Programs;
use crate::schedules::hooks::HookCalls;
use crate::session_keys::SessionKeys;

/// The tenant of whoever has not been told another one.
pub const DEFAULT_TENANT: &str = "default";
/// Where logs lie in the data folder.
const LOGS_FOLDER: &str = "logs";
/// How long a stopping server waits for its parts.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How often a starting server looks whether it is ready.
const READY_LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the embedded store lives.
    pub data_dir: PathBuf,
    /// Where the HTTP door listens.
    pub http: SocketAddr,
    /// Whether requests without a token are welcome; only on loopback.
    pub dev: bool,
    /// The door for Redis clients.
    pub resp: RespOptions,
    /// Frames that a session takes in beyond a gap, and sends without an ack: 1 to
    /// [`WINDOW_FRAMES`].
    pub session_window: u64,
}

/// Where and how Redis clients are served.
#[derive(Clone, Debug, Default)]
pub struct RespOptions {
    /// The address; `None` serves none.
    pub tcp: Option<SocketAddr>,
    /// A Unix socket.
    pub unix: Option<PathBuf>,
    /// The certificate and its key, as PEM files; then TCP is encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How clients that were made for another server are answered.
    pub shapes: Shapes,
    /// Keys of single workers (seed 004 section 7.1).
    pub worker_keys: Vec<(WorkerId, String)>,
}

/// The addresses that a server took.
struct Listeners {
    http: (TcpListener, SocketAddr),
    resp: Option<(TcpListener, SocketAddr)>,
    unix: Option<UnixListener>,
    tls: Option<TlsAcceptor>,
}

impl Options {
    /// A server with this folder at this address, and everything else as usual: tokens are needed,
    /// and there is no door for Redis clients.
    pub fn new(data_dir: &Path, http: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            http,
            dev: false,
            resp: RespOptions::default(),
            session_window: WINDOW_FRAMES,
        }
    }

    /// Takes the addresses before anything else, so that a wrong one costs nothing.
    async fn listen(&self) -> Result<Listeners, StartError> {
        let tls = self.resp.tls.as_ref();
        let tls = tls.map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
        let http = self.bind(self.http).await?;
        let resp = match self.resp.tcp {
            Some(address) => Some(self.bind(address).await?),
            None => None,
        };
        let unix = self.resp.unix.as_deref().map(bind_unix).transpose()?;
        Ok(Listeners { http, resp, unix, tls })
    }

    /// The listener, and the address that it has where port 0 was asked for.
    async fn bind(&self, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
        if self.dev && !address.ip().is_loopback() {
            return Err(StartError::DevBeyondLoopback { address });
        }
        let listen_error = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let own = listener.local_addr().map_err(listen_error)?;
        Ok((listener, own))
    }
}

/// Takes a Unix socket. One that nobody listens on any more was left behind, and is replaced.
fn bind_unix(path: &Path) -> Result<UnixListener, StartError> {
    let failed = |source| StartError::ListenUnix { path: path.to_owned(), source };
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(failed(std::io::ErrorKind::AddrInUse.into()));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(failed(std::io::ErrorKind::AlreadyExists.into())),
        Err(_) => {} // Nothing is there, or bind says what is wrong.
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Whoever may write to it may speak: its owner alone.
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, owner_only).map_err(failed)?;
    Ok(listener)
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its store did not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its logs cannot be kept.
    #[error(transparent)]
    Logs(#[from] OpenError),
    /// Its address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Its Unix socket is taken, or cannot be made.
    #[error("cannot listen on {}", path.display())]
    ListenUnix {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Its certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Dev access beyond loopback would be access for everyone.
    #[error("dev mode listens on loopback only, and {address} is not")]
    DevBeyondLoopback {
        /// The address.
        address: SocketAddr,
    },
}

/// What the doors share.
pub struct App {
    /// The memory.
    pub store: Arc<dyn Store>,
    /// The tenants.
    pub directory: Directory,
    /// The tokens.
    pub auth: Auth,
    /// The numbers.
    pub metrics: Arc<Metrics>,
    /// What signs session tokens.
    pub(crate) session_keys: SessionKeys,
    /// Names connections of workers.
    pub(crate) last_link: AtomicU64,
    /// How tasks fare and what they put out.
    pub feedback: Arc<FeedbackHub>,
    /// Limits calls of webhooks.
    pub(crate) hook_calls: HookCalls,
    /// Definitions that were made ready to run.
    pub(crate) programs: Arc<Programs>,
    /// What connections of the Redis door share.
    pub(crate) resp: Arc<Door>,
    /// Ways to the events without a header.
    pub(crate) tickets: Tickets,
    /// Runs as a whole, for those who begin to watch.
    pub(crate) snapshots: http::Snapshots,
    /// The time.
    pub clock: Clock,
    /// This build.
    pub version: &'static str,
    /// The server stops.
    pub(crate) shutdown: CancellationToken,
    /// The WebSocket connections that are open.
    pub(crate) connections: TaskTracker,
    /// How many more there may be.
    pub(crate) ws_room: Arc<Semaphore>,
    /// See [`Options::session_window`].
    pub(crate) session_window: u64,
}

/// A server that runs until it is stopped.
pub struct Server {
    app: Arc<App>,
    http_addr: SocketAddr,
    resp_addr: Option<SocketAddr>,
    shutdown: CancellationToken,
    doors: Vec<JoinHandle<()>>,
    /// Removed when the server stops.
    unix: Option<PathBuf>,
}

impl Server {
    /// Opens the embedded store and serves it.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let listeners = options.listen().await?;
        let store = Arc::new(SqliteStore::open(&options.data_dir)?);
        Self::serve(listeners, store, options).await
    }

    /// Serves a store that is open already; the data folder of `options` holds the logs alone.
    pub async fn start_on(store: Arc<dyn Store>, options: Options) -> Result<Self, StartError> {
        let listeners = options.listen().await?;
        Self::serve(listeners, store, options).await
    }

    /// Takes over every shard and opens the doors.
    async fn serve(
        listeners: Listeners,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, StartError> {
        let (http_addr, resp_addr) =
            (listeners.http.1, listeners.resp.as_ref().map(|(_, own)| *own));
        let mut auth = Auth::load(Arc::clone(&store)).await?;
        if options.dev {
            auth = auth.with_dev_access();
        }
        let auth = auth.with_worker_keys(&options.resp.worker_keys);
        let shutdown = CancellationToken::new();
        let app = Arc::new(App::new(store, auth, &options, shutdown.clone()).await?);
        app.open_shards(options.dev || !options.resp.worker_keys.is_empty()).await?;
        let doors = open_doors(listeners, &app, &shutdown);
        Ok(Self { app, http_addr, resp_addr, shutdown, doors, unix: options.resp.unix })
    }

    /// Where Redis clients are served.
    pub fn resp_addr(&self) -> Option<SocketAddr> {
        self.resp_addr
    }

    /// Where the HTTP door listens; useful when port 0 was asked for.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Waits until every shard has taken over what its store holds.
    pub async fn until_ready(&self) {
        while !self.app.directory.all_ready() {
            tokio::time::sleep(READY_LOOK_EVERY).await;
        }
    }

    /// What the doors share.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Finishes what is under way and stops. What was answered stays true either way.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let all = async {
            for door in self.doors {
                if let Err(error) = door.await {
                    tracing::error!(%error, "a door ended badly");
                }
            }
            if let Some(path) = &self.unix {
                // Gone already, or not ours to remove; the next start finds out.
                let _ = std::fs::remove_file(path);
            }
            self.app.connections.close();
            self.app.connections.wait().await;
            self.app.directory.stop().await;
            self.app.feedback.stop().await;
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!("stopped before every part had come to its end");
        }
    }
}

/// Starts to take clients.
fn open_doors(
    listeners: Listeners,
    app: &Arc<App>,
    shutdown: &CancellationToken,
) -> Vec<JoinHandle<()>> {
    let Listeners { http, resp, unix, tls } = listeners;
    let parts = || (Arc::clone(app), shutdown.clone());
    let (own, stop) = parts();
    let mut doors =
        vec![tokio::spawn(http::listener::serve(http.0, own, ws::listener::routes(), stop))];
    if let Some((listener, _)) = resp {
        let (own, stop) = parts();
        doors.push(tokio::spawn(resp::listener::serve_tcp(listener, tls, own, stop)));
    }
    if let Some(listener) = unix {
        let (own, stop) = parts();
        doors.push(tokio::spawn(resp::listener::serve_unix(listener, own, stop)));
    }
    doors
}

impl App {
    async fn new(
        store: Arc<dyn Store>,
        auth: Auth,
        options: &Options,
        shutdown: CancellationToken,
    ) -> Result<Self, StartError> {
        let (clock, metrics) = (Clock::start(), Arc::new(Metrics::default()));
        let programs = Arc::new(Programs::default());
        let logs = options.data_dir.join(LOGS_FOLDER);
        let directory = Directory::new(Common {
            store: Arc::clone(&store),
            clock,
            metrics: Arc::clone(&metrics),
            programs: Arc::clone(&programs),
            event_floors: floors(&*store).await?,
            shutdown: shutdown.clone(),
            keyspaces_stop: CancellationToken::new(),
            committers: TaskTracker::new(),
        });
        Ok(Self {
            programs,
            hook_calls: HookCalls::default(),
            resp: Arc::new(Door::new(options.resp.shapes)),
            session_keys: SessionKeys::load(Arc::clone(&store), clock.now()).await?,
            last_link: AtomicU64::new(0),
            store,
            directory,
            auth,
            metrics,
            feedback: Arc::new(FeedbackHub::open(logs, LogLimits::default())?),
            tickets: Tickets::default(),
            snapshots: http::Snapshots::default(),
            clock,
            version: env!("CARGO_PKG_VERSION"),
            shutdown,
            connections: TaskTracker::new(),
            ws_room: Arc::new(Semaphore::new(WS_CONNECTIONS_MAX)),
            session_window: options.session_window,
        })
    }

    /// Takes over every shard that the store knows, so that leases end and retries come back even
    /// when nobody asks.
    async fn open_shards(&self, with_default: bool) -> Result<(), StartError> {
        let mut tenants = self.store.tenants().await?;
        if with_default {
            tenants.push(default_tenant());
        }
        for tenant in &tenants {
            if self.directory.of(tenant).await.is_err() {
                let reason = format!("the shard of tenant {tenant} cannot be claimed");
                return Err(StoreError::Unavailable(reason).into());
            }
        }
        Ok(())
    }
}
