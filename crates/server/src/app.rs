//! The server as a whole: options in, a running service out.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::TenantId;
use store::{SqliteStore, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Auth;
use crate::clock::Clock;
use crate::doors::http;
use crate::doors::ws::listener::WS_CONNECTIONS_MAX;
use crate::feedback::{FeedbackHub, LogLimits, OpenError};
use crate::metrics::Metrics;
use crate::scratch::Scratch;
use crate::sessions::Sessions;
use crate::shards::{Common, Shards};

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
}

impl Options {
    /// Takes the address before anything else, so that a wrong one costs nothing.
    async fn listen(&self) -> Result<TcpListener, StartError> {
        let address = self.http;
        if self.dev && !address.ip().is_loopback() {
            return Err(StartError::DevBeyondLoopback { address });
        }
        let listen_error = |source| StartError::Listen { address, source };
        TcpListener::bind(address).await.map_err(listen_error)
    }

    fn open_feedback(&self) -> Result<Arc<FeedbackHub>, StartError> {
        let hub = FeedbackHub::open(self.data_dir.join(LOGS_FOLDER), LogLimits::default())?;
        Ok(Arc::new(hub))
    }
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
    /// The coordinators.
    pub shards: Shards,
    /// The keys and values.
    pub scratch: Scratch,
    /// The tokens.
    pub auth: Auth,
    /// The numbers.
    pub metrics: Arc<Metrics>,
    /// The sessions of workers.
    pub(crate) sessions: Arc<Sessions>,
    /// How tasks fare and what they put out.
    pub feedback: Arc<FeedbackHub>,
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
}

/// A server that runs until it is stopped.
pub struct Server {
    app: Arc<App>,
    http_addr: SocketAddr,
    shutdown: CancellationToken,
    http: JoinHandle<()>,
}

impl Server {
    /// Opens the embedded store and serves it.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let listener = options.listen().await?;
        let store = Arc::new(SqliteStore::open(&options.data_dir)?);
        Self::serve(listener, store, options).await
    }

    /// Serves a store that is open already; the data folder of `options` holds the logs alone.
    pub async fn start_on(store: Arc<dyn Store>, options: Options) -> Result<Self, StartError> {
        let listener = options.listen().await?;
        Self::serve(listener, store, options).await
    }

    /// Takes over every shard and opens the doors.
    async fn serve(
        listener: TcpListener,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, StartError> {
        let is_dev = options.dev;
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let listen_error = |source| StartError::Listen { address: unknown, source };
        let http_addr = listener.local_addr().map_err(listen_error)?;
        let mut auth = Auth::load(Arc::clone(&store)).await?;
        if is_dev {
            auth = auth
                .with_dev_access(http_addr)
                .map_err(|_| StartError::DevBeyondLoopback { address: http_addr })?;
        }
        let shutdown = CancellationToken::new();
        let (clock, metrics) = (Clock::start(), Arc::new(Metrics::new()));
        let sessions = Arc::new(Sessions::load(Arc::clone(&store), clock.now()).await?);
        let shards = Shards::new(Common {
            store: Arc::clone(&store),
            clock,
            metrics: Arc::clone(&metrics),
            sessions: Arc::clone(&sessions),
            shutdown: shutdown.clone(),
        });
        let scratch = Scratch::new(Arc::clone(&store), shards.clone(), clock);
        let app = Arc::new(App {
            store,
            shards,
            scratch,
            auth,
            metrics,
            sessions,
            feedback: options.open_feedback()?,
            clock,
            version: env!("CARGO_PKG_VERSION"),
            shutdown: shutdown.clone(),
            connections: TaskTracker::new(),
            ws_room: Arc::new(Semaphore::new(WS_CONNECTIONS_MAX)),
        });
        app.open_shards(is_dev).await?;
        let http =
            tokio::spawn(http::listener::serve(listener, Arc::clone(&app), shutdown.clone()));
        Ok(Self { app, http_addr, shutdown, http })
    }

    /// Where the HTTP door listens; useful when port 0 was asked for.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Waits until every shard has taken over what its store holds.
    pub async fn until_ready(&self) {
        while !self.app.shards.all_ready() {
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
            if let Err(error) = self.http.await {
                tracing::error!(%error, "the HTTP door ended badly");
            }
            self.app.connections.close();
            self.app.connections.wait().await;
            self.app.scratch.stop().await;
            self.app.shards.stopped().await;
            self.app.feedback.stop().await;
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!("stopped before every part had come to its end");
        }
    }
}

impl App {
    /// Takes over every shard that the store knows, so that leases end and retries come back even
    /// when nobody asks.
    async fn open_shards(&self, is_dev: bool) -> Result<(), StartError> {
        let mut tenants = self.store.tenants().await?;
        if is_dev {
            tenants.push(DEFAULT_TENANT.parse::<TenantId>().expect("a name that fits"));
        }
        for tenant in &tenants {
            if self.shards.of(tenant).await.is_err() {
                let reason = format!("the shard of tenant {tenant} cannot be claimed");
                return Err(StoreError::Unavailable(reason).into());
            }
        }
        Ok(())
    }
}
