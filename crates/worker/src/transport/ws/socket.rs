//! One WebSocket connection: where the server is, and frames in and out without ever waiting for both at
//! once.

use std::future::poll_fn;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use client::{Endpoint, InvalidEndpoint};
use futures_util::{FutureExt as _, Sink as _, SinkExt as _, Stream as _};
use protocol::session::codec::FRAME_BYTES_MAX;
use protocol::session::envelope::{Envelope, Reader};
use protocol::session::worker_machine::{Connection, WorkerMachine};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

/// The path of the door.
const PATH_DEFAULT: &str = "/ws/worker";

/// A WebSocket address: host, port and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    endpoint: Endpoint,
    path: String,
}

/// Text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// TLS is not spoken here.
    #[error("{0}: only ws:// is spoken here; put a TLS proxy in front of a server far away")]
    NotPlain(String),
    /// No host, or a port that is no number.
    #[error("{0} is not an address like ws://127.0.0.1:8080/ws/worker")]
    Malformed(String),
}

impl Address {
    pub(crate) fn parts(&self) -> (&str, u16) {
        self.endpoint.parts()
    }
}

impl From<Endpoint> for Address {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, path: PATH_DEFAULT.into() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ws://{}{}", self.endpoint.authority(), self.path)
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let malformed = || InvalidAddress::Malformed(text.into());
        let rest = match text.split_once("://") {
            Some(("ws" | "http", rest)) => rest,
            Some(("wss" | "https", _)) => return Err(InvalidAddress::NotPlain(text.into())),
            Some(_) => return Err(malformed()),
            None => text,
        };
        let (authority, path) = match rest.find('/') {
            Some(place) => rest.split_at(place),
            None => (rest, ""),
        };
        let endpoint: Result<Endpoint, InvalidEndpoint> = authority.parse();
        let endpoint = endpoint.map_err(|_| malformed())?;
        if path.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
            return Err(malformed());
        }
        let path = if path.len() <= 1 { PATH_DEFAULT } else { path };
        Ok(Self { endpoint, path: path.into() })
    }
}

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
    reader: Reader,
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
        let reader = Reader::default();
        Self { reader, stream, connection, opened_at, last_heard, ping_at, needs_flush, is_held_up }
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
            return match self.reader.read_bytes(message.as_payload()) {
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
            log_frame("out", &frame);
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

/// A frame passes.
pub(crate) fn log_frame(direction: &'static str, frame: &Envelope) {
    tracing::debug!(
        tenant = &*frame.tenant,
        "sender.id" = &*frame.sender.id,
        "type" = &*frame.kind,
        id = &*frame.id,
        corr = frame.corr.as_deref(),
        seq = frame.seq,
        session_seq = frame.session_seq,
        "ack.request" = frame.ack.as_ref().and_then(|ack| ack.request),
        direction,
        "frame"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_their_parts() {
        check("ws://127.0.0.1:8081/ws/worker", "ws://127.0.0.1:8081/ws/worker");
        check("http://127.0.0.1:8081", "ws://127.0.0.1:8081/ws/worker");
        check("example.org/", "ws://example.org:8080/ws/worker");
        check("ws://[::1]:9/other?x=1", "ws://[::1]:9/other?x=1");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_sentence() {
        check("wss://example.org/ws/worker", "only ws:// is spoken here");
        for wrong in ["ftp://a", "ws://", "ws://a:b/", "ws://a/x y", "two words"] {
            check(wrong, "is not an address");
        }
    }

    fn check(text: &str, expected: &str) {
        let shown = match text.parse::<Address>() {
            Ok(address) => address.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{text}: {shown}");
    }
}
