//! All connections of one client.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::connection::Connection;
use super::fault::{Fault, Kind, Tally};

/// A proxy for one client; its connections end with it.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: SocketAddr,
    desk: Mutex<Desk>,
    tally: Tally,
    n_connections: AtomicU64,
    n_injected: AtomicU64,
    closes_at_once: AtomicBool,
}

/// Who is told of faults.
#[derive(Default)]
struct Desk {
    newest: Option<mpsc::UnboundedSender<Fault>>,
    /// For the next connection.
    waiting: VecDeque<Fault>,
}

impl Proxy {
    /// Listens on a port of its own, in front of `server`, which may come and go.
    pub(crate) async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("cannot listen as a proxy")?;
        let shared = Arc::new(Shared {
            server,
            desk: Mutex::default(),
            tally: Tally::default(),
            n_connections: AtomicU64::new(0),
            n_injected: AtomicU64::new(0),
            closes_at_once: AtomicBool::new(false),
        });
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets a fault happen to the newest connection, or to the next one if there is none.
    pub(crate) fn inject(&self, fault: Fault) {
        self.shared.n_injected.fetch_add(1, Ordering::Relaxed);
        self.shared.inject(fault);
    }

    /// Whether all faults have happened.
    pub(crate) fn is_calm(&self) -> bool {
        let n_happened: u64 = self.happened().values().sum();
        n_happened >= self.shared.n_injected.load(Ordering::Relaxed)
    }

    /// From now on, connections are taken and closed.
    pub(crate) fn close_at_once(&self) {
        self.shared.closes_at_once.store(true, Ordering::Relaxed);
    }

    /// How many connections were taken.
    pub(crate) fn n_connections(&self) -> u64 {
        self.shared.n_connections.load(Ordering::Relaxed)
    }

    /// What has happened so far.
    pub(crate) fn happened(&self) -> BTreeMap<Kind, u64> {
        self.shared.tally.so_far()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inject(&self, fault: Fault) {
        let mut desk = self.desk();
        let sent = desk.newest.as_ref().map(|newest| newest.send(fault));
        if !matches!(sent, Some(Ok(()))) {
            desk.waiting.push_back(fault);
        }
    }

    /// Faults go to the newest connection from now on, first those that waited for one.
    fn open_desk(&self) -> mpsc::UnboundedReceiver<Fault> {
        let (sender, orders) = mpsc::unbounded_channel();
        let mut desk = self.desk();
        for fault in std::mem::take(&mut desk.waiting) {
            // The receiver is at hand.
            let _ = sender.send(fault);
        }
        desk.newest = Some(sender);
        orders
    }
}

/// Connections live in this task's set: when it is aborted, they are gone.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        // Too many open files, at worst: the client tries again.
        let Ok((client, _)) = client else { continue };
        shared.n_connections.fetch_add(1, Ordering::Relaxed);
        if !shared.closes_at_once.load(Ordering::Relaxed) {
            connections.spawn(serve(client, Arc::clone(&shared)));
        }
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    // Without a server the client finds its connection closed.
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    let connection = Connection::new(client, server, shared.open_desk(), &shared.tally);
    let Ok(connection) = connection else { return };
    let remains = connection.run().await;
    for fault in remains.unused {
        shared.inject(fault);
    }
    if remains.silent.is_some() {
        std::future::pending::<()>().await;
    }
}
