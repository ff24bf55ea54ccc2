//! A TCP proxy that does to connections what networks do: cut, delay, swallow, fall silent; and to
//! whole WebSocket messages what a session must bear: twice, and in the wrong order.
//!
//! Reading order: `fault` (what can happen), `frames` (where messages end), `forwarder` (one
//! direction), this file (both directions of a connection, and all connections of one client).

mod fault;
mod forwarder;
mod frames;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::fault::Tally;
pub(crate) use self::fault::{Direction, Fault, Kind};
use self::forwarder::{Ending, Forwarder};

/// A proxy for one client; its connections end with it.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: SocketAddr,
    recipients: Mutex<Recipients>,
    tally: Tally,
    n_connections: AtomicU64,
    n_injected: AtomicU64,
    closes_at_once: AtomicBool,
}

/// Which connection the next fault happens to.
#[derive(Default)]
struct Recipients {
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
            recipients: Mutex::default(),
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
    fn recipients(&self) -> MutexGuard<'_, Recipients> {
        self.recipients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inject(&self, fault: Fault) {
        let mut recipients = self.recipients();
        let sent = recipients.newest.as_ref().map(|newest| newest.send(fault));
        if !matches!(sent, Some(Ok(()))) {
            recipients.waiting.push_back(fault);
        }
    }

    /// Faults go to the newest connection from now on, first those that waited for one.
    fn next_recipient(&self) -> mpsc::UnboundedReceiver<Fault> {
        let (sender, orders) = mpsc::unbounded_channel();
        let mut recipients = self.recipients();
        for fault in std::mem::take(&mut recipients.waiting) {
            // The receiver is at hand.
            let _ = sender.send(fault);
        }
        recipients.newest = Some(sender);
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
    let connection = Connection::new(client, server, shared.next_recipient(), &shared.tally);
    let Ok(connection) = connection else { return };
    let remains = connection.run().await;
    for fault in remains.unused {
        shared.inject(fault);
    }
    if remains.silent.is_some() {
        std::future::pending::<()>().await;
    }
}

/// A client, a server, and what happens between them.
struct Connection {
    up: Forwarder,
    down: Forwarder,
    orders: mpsc::UnboundedReceiver<Fault>,
}

/// What is left of a connection.
struct Remains {
    /// Faults that did not happen.
    unused: VecDeque<Fault>,
    /// The sockets, if nobody shall hear that it is over.
    silent: Option<(Forwarder, Forwarder)>,
}

impl Connection {
    fn new(
        client: TcpStream,
        server: TcpStream,
        orders: mpsc::UnboundedReceiver<Fault>,
        tally: &Tally,
    ) -> io::Result<Self> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let up = Forwarder::new(from_client, to_server, tally.clone());
        let down = Forwarder::new(from_server, to_client, tally.clone());
        Ok(Self { up, down, orders })
    }

    /// Forwards until an end or a fault ends it.
    async fn run(mut self) -> Remains {
        let ending = self.forward().await;
        self.orders.close();
        let mut unused: VecDeque<Fault> = self.up.disarm().chain(self.down.disarm()).collect();
        while let Ok(fault) = self.orders.try_recv() {
            unused.push_back(fault);
        }
        let silent = match ending {
            Ending::Fault(Fault { kind: Kind::HalfOpen, .. }) => Some((self.up, self.down)),
            Ending::Fault(Fault { kind: Kind::Finish, .. }) | Ending::Closed => {
                // Whoever is gone already needs no goodbye.
                let _ = self.up.sink.shutdown().await;
                let _ = self.down.sink.shutdown().await;
                None
            }
            Ending::Fault(_) => {
                for sink in [self.up.sink, self.down.sink] {
                    let _ = sink.as_ref().set_zero_linger();
                    // Dropped, it would say an orderly goodbye first.
                    sink.forget();
                }
                None
            }
        };
        Remains { unused, silent }
    }

    async fn forward(&mut self) -> Ending {
        let Self { up, down, orders } = self;
        loop {
            tokio::select! {
                biased;
                Some(fault) = orders.recv() => match fault.direction {
                    Direction::Up => up.arm(fault),
                    Direction::Down => down.arm(fault),
                },
                ending = up.step() => return ending,
                ending = down.step() => return ending,
            }
        }
    }
}
