//! A worker from its start to its end.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::session::kind::Payload;
use protocol::session::payload::control::{Auth, AuthMode, Handshake, WorkerIdentity};
use protocol::session::window::WINDOW_FRAMES;
use protocol::session::worker_machine::HEARTBEAT_INTERVAL;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::metrics::{Metrics, MetricsDoor};
use super::session::Link;
use super::socket::Address;
use crate::core::capabilities::{Offer, slots_default};
use crate::core::executor::Executor;
use crate::core::handle::{WorkerError, WorkerHandle};
use crate::core::identity::{Identity, hostname};
use crate::core::verdict::{self, Listener};
use crate::resources::{Limits as ResourceLimits, Registry};

/// How long a worker that leaves finishes what it has, unless it is told otherwise.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
/// The tenant of a server that has only one.
pub const TENANT_DEFAULT: &str = "default";
/// The protocol that is spoken here.
const PROTOCOL: u64 = 1;

/// How a worker proves who it is.
#[derive(Clone)]
pub enum Credential {
    /// Nothing, which a dev server takes.
    None,
    /// A bearer token.
    Token(String),
    /// The fingerprint of a client certificate.
    Fingerprint(String),
}

impl fmt::Debug for Credential {
    // A secret must never reach a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::Fingerprint(_) => "Fingerprint",
        })
    }
}

/// What a worker is made of.
pub struct Options {
    /// Where its server is.
    pub address: Address,
    /// Whose worker it is.
    pub tenant: String,
    /// How it proves who it is.
    pub credential: Credential,
    /// Who it is.
    pub identity: Identity,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it can do.
    pub offer: Offer,
    /// Does it.
    pub executor: Arc<dyn Executor>,
    /// Is told every judgement.
    pub listener: Listener,
    /// The time between two heartbeats, before jitter.
    pub heartbeat_every: Duration,
    /// How long a connection may take to become a session; by the protocol's own rules if unset.
    pub accept_timeout: Option<Duration>,
    /// How many frames may be unconfirmed in each direction, at most 64.
    pub window: u64,
    /// Where metrics are shown, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// How much of what tasks leave behind is kept, and how long.
    pub resources: ResourceLimits,
}

impl Options {
    /// A worker of the usual kind, which serves every queue and proves nothing.
    pub fn new(
        address: Address,
        name: &str,
        identity: Identity,
        executor: Arc<dyn Executor>,
    ) -> Self {
        let offer =
            Offer { slots: slots_default(), runtimes: vec!["builtin".into()], ..Offer::default() };
        Self {
            address,
            tenant: TENANT_DEFAULT.into(),
            credential: Credential::None,
            identity,
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            offer,
            executor,
            listener: Arc::new(verdict::log),
            heartbeat_every: HEARTBEAT_INTERVAL,
            accept_timeout: None,
            window: WINDOW_FRAMES,
            metrics: None,
            resources: ResourceLimits::default(),
        }
    }

    pub(super) fn handshake(&self) -> Box<RawValue> {
        let (mode, token, fingerprint) = match &self.credential {
            Credential::None => (AuthMode::Token, None, None),
            Credential::Token(token) => (AuthMode::Token, Some(token.clone()), None),
            Credential::Fingerprint(print) => (AuthMode::Mtls, None, Some(print.clone())),
        };
        let worker = WorkerIdentity {
            worker_name: self.name.clone(),
            worker_instance_id: Some(self.identity.instance_id().to_owned()),
            version: self.version.clone(),
            hostname: hostname(),
        };
        let auth = Auth { mode, token, fingerprint };
        Payload::Handshake(Handshake { protocol: PROTOCOL, auth, worker }).encode().1
    }
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no session, or none that is connected.
    Connecting,
    /// It takes work.
    Ready,
    /// It finishes and takes nothing new.
    Draining,
    /// It has left.
    Stopped,
}

/// A worker that runs.
#[derive(Debug)]
pub struct RunningWorker {
    /// Gives it orders.
    pub handle: WorkerHandle,
    name: String,
    state: watch::Receiver<State>,
    metrics: Arc<Metrics>,
    door: Option<MetricsDoor>,
}

impl RunningWorker {
    /// Starts a worker. It connects by itself, again and again if need be.
    pub async fn start(options: Options) -> Result<Self, WorkerError> {
        let metrics = Arc::new(Metrics::new());
        let door = match options.metrics {
            None => None,
            Some(address) => {
                let door = MetricsDoor::open(address, Arc::clone(&metrics)).await;
                Some(door.map_err(|source| WorkerError::Metrics { address, source })?)
            }
        };
        let (state_sender, state) = watch::channel(State::Connecting);
        let name = options.name.clone();
        let folder = options.identity.folder();
        let resources = Arc::new(Registry::open(folder, &name, options.resources)?);
        let counted = Arc::clone(&metrics);
        let handle = WorkerHandle::start(|orders| {
            Link::new(options, resources, counted, (orders, state_sender)).run()
        });
        Ok(Self { handle, name, state, metrics, door })
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands, and every change of that.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where its metrics are shown.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.door.as_ref().map(MetricsDoor::address)
    }
}
