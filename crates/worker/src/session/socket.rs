//! One WebSocket connection: reads and writes without ever waiting for both at once.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt as _, Sink as _, SinkExt as _, Stream as _};
use protocol::session::decode::FRAME_BYTES_MAX;
use protocol::session::envelope::Envelope;
use protocol::session::worker_machine::{Connection, WorkerMachine};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::address::Address;
use super::log;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an orderly goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Larger messages than frames are not read; the door's peer is then no server of ours.
const MESSAGE_BYTES_MAX: usize = FRAME_BYTES_MAX + 1024;

pub(crate) type Stream = WebSocketStream<TcpStream>;

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{address} cannot be reached: {source}")]
    Unreachable { address: String, source: io::Error },
    #[error("{address} does not speak WebSocket: {source}")]
    NoDoor { address: String, source: tokio_websockets::Error },
    #[error("{address} did not answer within {CONNECT_TIMEOUT:?}")]
    TimedOut { address: String },
}

/// Opens a connection.
pub(crate) async fn connect(address: Address) -> Result<Stream, ConnectError> {
    let opening = timeout(CONNECT_TIMEOUT, open(&address)).await;
    opening.unwrap_or_else(|_| Err(ConnectError::TimedOut { address: address.to_string() }))
}

async fn open(address: &Address) -> Result<Stream, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable { address: address.to_string(), source };
    let stream = TcpStream::connect(address.parts()).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let no_door = |source| ConnectError::NoDoor { address: address.to_string(), source };
    let builder = ClientBuilder::new()
        .uri(&address.to_string())
        .map_err(|error| unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let limits = Limits::default().max_payload_len(Some(MESSAGE_BYTES_MAX));
    let (stream, _) = builder.limits(limits).connect_on(stream).await.map_err(no_door)?;
    Ok(stream)
}

/// What a connection brings.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A frame.
    Frame(Box<Envelope>),
    /// Something that is no frame, and is passed over.
    Noise(String),
    /// A sign of life and nothing more.
    Sign,
    /// What could not be written before was.
    Written,
    /// The connection is gone.
    Gone(String),
}

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    connection: Connection,
    opened_at: Instant,
    last_heard: Instant,
    ping_at: Instant,
    needs_flush: bool,
    /// Frames wait in the machine because the peer does not read.
    is_held_up: bool,
}

impl Socket {
    pub(crate) fn new(stream: Stream, connection: Connection, ping_every: Duration) -> Self {
        let now = Instant::now();
        let ping_at = now + ping_every;
        let (needs_flush, is_held_up) = (false, false);
        let (opened_at, last_heard) = (now, now);
        Self { stream, connection, opened_at, last_heard, ping_at, needs_flush, is_held_up }
    }

    pub(crate) fn connection(&self) -> Connection {
        self.connection
    }

    pub(crate) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    pub(crate) fn ping_at(&self) -> Instant {
        self.ping_at
    }

    /// Waits for the next arrival; writes meanwhile what waits to be written.
    pub(crate) async fn read(&mut self) -> Arrival {
        poll_fn(|task| self.poll(task)).await
    }

    /// The next arrival, if it is here already.
    pub(crate) fn read_ready(&mut self) -> Option<Arrival> {
        self.read().now_or_never()
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Arrival> {
        if self.needs_flush
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(task)
        {
            if let Err(error) = flushed {
                return Poll::Ready(Arrival::Gone(error.to_string()));
            }
            self.needs_flush = false;
            if std::mem::take(&mut self.is_held_up) {
                return Poll::Ready(Arrival::Written);
            }
        }
        match Pin::new(&mut self.stream).poll_next(task) {
            Poll::Ready(Some(Ok(message))) => {
                self.last_heard = Instant::now();
                Poll::Ready(self.arrival(&message))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Arrival::Gone(error.to_string())),
            Poll::Ready(None) => Poll::Ready(Arrival::Gone("the server hung up".into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn arrival(&mut self, message: &Message) -> Arrival {
        if message.is_text() || message.is_binary() {
            return match Envelope::from_bytes(message.as_payload()) {
                Ok(frame) => Arrival::Frame(Box::new(frame)),
                Err(error) => Arrival::Noise(error.to_string()),
            };
        }
        if let Some((code, reason)) = message.as_close() {
            return Arrival::Gone(format!("the server closed: {} {reason}", u16::from(code)));
        }
        // The answer to a ping waits to be written.
        self.needs_flush = true;
        Arrival::Sign
    }

    /// Asks for a sign of life.
    pub(crate) fn ping(&mut self, every: Duration) {
        self.ping_at = Instant::now() + every;
        // A socket that takes nothing is found silent all the same.
        let _ = Pin::new(&mut self.stream).start_send(Message::ping(""));
        self.needs_flush = true;
    }

    /// Takes frames from the machine as long as the peer reads them, then flushes once. Never
    /// waits. Gives the number of frames.
    pub(crate) async fn write(&mut self, machine: &mut WorkerMachine) -> Result<u64, String> {
        poll_fn(|task| Poll::Ready(self.write_now(task, machine))).await.map_err(|e| e.to_string())
    }

    fn write_now(
        &mut self,
        task: &mut Context<'_>,
        machine: &mut WorkerMachine,
    ) -> Result<u64, tokio_websockets::Error> {
        let mut n_frames = 0;
        self.is_held_up = false;
        loop {
            match Pin::new(&mut self.stream).poll_ready(task) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    self.is_held_up = true;
                    break;
                }
            }
            let Some(frame) = machine.poll_frame() else { break };
            let text = match frame.to_text() {
                Ok(text) => text,
                Err(error) => {
                    tracing::error!(%error, "a frame that nobody would take is not sent");
                    continue;
                }
            };
            log::frame("out", &frame);
            n_frames += 1;
            Pin::new(&mut self.stream).start_send(Message::text(text))?;
            self.needs_flush = true;
        }
        if self.needs_flush && !self.is_held_up {
            match Pin::new(&mut self.stream).poll_flush(task) {
                Poll::Ready(flushed) => {
                    flushed?;
                    self.needs_flush = false;
                }
                Poll::Pending => {}
            }
        }
        Ok(n_frames)
    }

    /// Says goodbye. What was written before reaches the peer, if it reads.
    pub(crate) async fn close(mut self) {
        let _ = timeout(CLOSE_TIMEOUT, self.stream.close()).await;
    }
}
