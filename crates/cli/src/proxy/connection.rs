//! Both directions of one connection.

use std::collections::VecDeque;
use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::fault::{Direction, Fault, Kind, Tally};
use super::lane::{Ending, Lane};

/// A client, a server, and what happens between them.
pub(super) struct Connection {
    up: Lane,
    down: Lane,
    orders: mpsc::UnboundedReceiver<Fault>,
}

/// What is left of a connection.
pub(super) struct Remains {
    /// Faults that did not happen.
    pub(super) unused: VecDeque<Fault>,
    /// The sockets, if nobody shall hear that it is over.
    pub(super) silent: Option<(Lane, Lane)>,
}

impl Connection {
    pub(super) fn new(
        client: TcpStream,
        server: TcpStream,
        orders: mpsc::UnboundedReceiver<Fault>,
        tally: &Tally,
    ) -> io::Result<Self> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let up = Lane::new(from_client, to_server, tally.clone());
        let down = Lane::new(from_server, to_client, tally.clone());
        Ok(Self { up, down, orders })
    }

    /// Forwards until an end or a fault ends it.
    pub(super) async fn run(mut self) -> Remains {
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
