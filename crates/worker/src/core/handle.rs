//! A worker that runs, as whoever started it holds it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::drain::{ORDERS_MAX, Order};
use crate::core::verdict::Summary;
use crate::resources::RegistryError;

/// Why a worker did not start, or ended without being asked to. Texts are the server's own.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The server opens no session for it.
    #[error("the server refuses this worker: {reason} ({code})")]
    NoSession { code: String, reason: String },
    /// The key is not the right one.
    #[error("{address} does not accept the key: {text}")]
    WrongKey { address: String, text: String },
    /// The server wants a key, and there is none.
    #[error("{address} wants a key: {text}")]
    NoKey { address: String, text: String },
    /// The server does not want this worker.
    #[error("{address} refuses this worker: {text}")]
    Refused { address: String, text: String },
    /// The key is right, and does not allow this.
    #[error("the key does not allow this worker at {address}: {text}")]
    NotAllowed { address: String, text: String },
    /// Metrics cannot be shown there.
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics { address: SocketAddr, source: io::Error },
    /// What tasks left behind cannot be kept.
    #[error("the worker's resources cannot be kept")]
    Resources(#[from] RegistryError),
    /// The worker itself broke.
    #[error("the worker ended in a panic; its log has it")]
    Panicked,
}

/// Gives orders to a worker and waits for its end. Dropping it makes the worker leave at once.
#[derive(Debug)]
pub struct WorkerHandle {
    orders: mpsc::Sender<Order>,
    running: JoinHandle<Result<Summary, WorkerError>>,
}

impl WorkerHandle {
    /// Starts what `worker` makes of its orders.
    pub(crate) fn start<F>(worker: impl FnOnce(mpsc::Receiver<Order>) -> F) -> Self
    where
        F: Future<Output = Result<Summary, WorkerError>> + Send + 'static,
    {
        let (orders, receiver) = mpsc::channel(ORDERS_MAX);
        Self { orders, running: tokio::spawn(worker(receiver)) }
    }

    /// Tells it to finish what it has and leave; what is not finished by then is stopped.
    pub async fn drain(&self, deadline: Duration) {
        // One that has ended needs no order.
        let _ = self.orders.send(Order::Drain(deadline)).await;
    }

    /// Tells it to leave at once.
    pub async fn stop(&self) {
        let _ = self.orders.send(Order::Stop).await;
    }

    /// Waits until it has left, and tells how it went. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<Summary, WorkerError> {
        (&mut self.running).await.unwrap_or(Err(WorkerError::Panicked))
    }
}
