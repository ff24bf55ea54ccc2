//! One socket: frames in, frames out, neither ever waiting for the other.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol::session::codec::FRAME_BYTES_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_websockets::{
    CloseCode, Config, Error, Limits, Message, Payload, ServerBuilder, WebSocketStream,
};

/// Limit: the largest frame of a peer that has not proved who it is.
const EARLY_FRAME_BYTES_MAX: usize = 64 * 1024;
/// Frames that are taken in before they are acted on.
const FRAMES_PER_TURN_MAX: usize = 256;
/// Bytes that are taken in before they are acted on.
const BYTES_PER_TURN_MAX: usize = 1 << 20;
/// Limit: a peer that does not read for so long is cut off.
pub(crate) const WRITE_STALL_MAX: Duration = Duration::from_secs(10);
/// How long a close may take to reach the peer.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What came in.
#[derive(Debug)]
pub(super) enum Received {
    /// A frame of the protocol.
    Frame(Payload),
    /// The answer to a ping.
    Pong,
    /// Another sign of life.
    Ping,
}

/// Why the socket is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The peer closed it, or it broke.
    Closed,
    /// The peer sent a frame that is too large to take in.
    TooLarge,
    /// The peer does not read.
    Stalled,
}

/// A socket, and what waits to leave.
pub(super) struct Wire {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    /// Since when bytes wait for a peer that does not read.
    stalled_since: Option<Instant>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Wire {
    pub(super) fn new(upgraded: Upgraded) -> Self {
        let limits = Limits::default().max_payload_len(Some(EARLY_FRAME_BYTES_MAX));
        let builder = ServerBuilder::new().limits(limits).config(Config::default());
        let socket = builder.serve(TokioIo::new(upgraded));
        Self { socket, stalled_since: None, bytes_in: 0, bytes_out: 0 }
    }

    /// The peer proved who it is: it may send frames of full size.
    pub(super) fn trust(&mut self) {
        self.socket.limits_mut().set_max_payload_len(Some(FRAME_BYTES_MAX));
    }

    /// Takes in what has arrived, once something has; meanwhile bytes that wait go out.
    pub(super) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        into: &mut Vec<Received>,
    ) -> Poll<Result<(), Gone>> {
        if self.stalled_since.is_some() {
            self.poll_flush(context)?;
        }
        let mut n_bytes = 0;
        while into.len() < FRAMES_PER_TURN_MAX && n_bytes < BYTES_PER_TURN_MAX {
            let next = Pin::new(&mut self.socket).poll_next(context);
            let message = match next {
                Poll::Ready(Some(Ok(message))) => message,
                Poll::Ready(Some(Err(Error::PayloadTooLong { .. }))) => {
                    return Poll::Ready(Err(Gone::TooLarge));
                }
                Poll::Ready(Some(Err(_)) | None) if into.is_empty() => {
                    return Poll::Ready(Err(Gone::Closed));
                }
                // What came before the end is acted on first; the end is seen again.
                Poll::Ready(Some(Err(_)) | None) | Poll::Pending => break,
            };
            n_bytes += message.as_payload().len();
            if message.is_text() || message.is_binary() {
                into.push(Received::Frame(message.into_payload()));
            } else if message.is_pong() {
                into.push(Received::Pong);
            } else if message.is_ping() {
                // The library answers it.
                into.push(Received::Ping);
            }
        }
        self.bytes_in += n_bytes as u64;
        if into.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Sends what `next` gives until there is no more, or the peer does not keep up.
    pub(super) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        mut next: impl FnMut() -> Option<String>,
    ) -> Result<(), Gone> {
        loop {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Err(Gone::Closed),
                Poll::Pending => return self.stall(),
            }
            let Some(text) = next() else { break };
            self.bytes_out += text.len() as u64;
            self.start(Message::text(text))?;
        }
        self.poll_flush(context)
    }

    pub(super) fn ping(&mut self) -> Result<(), Gone> {
        // Ping after ping for a peer that does not read would only pile up.
        if self.stalled_since.is_some() { Ok(()) } else { self.start(Message::ping("")) }
    }

    fn start(&mut self, message: Message) -> Result<(), Gone> {
        Pin::new(&mut self.socket).start_send(message).map_err(|_| Gone::Closed)
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Result<(), Gone> {
        match Pin::new(&mut self.socket).poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.stalled_since = None;
                Ok(())
            }
            Poll::Ready(Err(_)) => Err(Gone::Closed),
            Poll::Pending => self.stall(),
        }
    }

    fn stall(&mut self) -> Result<(), Gone> {
        let since = *self.stalled_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= WRITE_STALL_MAX { Err(Gone::Stalled) } else { Ok(()) }
    }

    /// When a peer that does not read must be looked at again.
    pub(super) fn stall_deadline(&self) -> Option<Instant> {
        self.stalled_since.map(|since| since + WRITE_STALL_MAX)
    }

    /// Says goodbye, if the peer still listens. Where it is still sending, what it sends is thrown
    /// away for a moment: a socket that is closed with bytes unread would take the goodbye back.
    pub(super) async fn close(mut self, code: CloseCode, reason: &str, is_still_sending: bool) {
        let closing = async {
            // For some errors the library has said goodbye itself; then only the flush is missing.
            let _ = self.start(Message::close(Some(code), reason));
            let _ = self.socket.flush().await;
            if is_still_sending {
                let mut stream = self.socket.into_inner();
                let _ = stream.shutdown().await;
                let mut discarded = vec![0; EARLY_FRAME_BYTES_MAX];
                while stream.read(&mut discarded).await.is_ok_and(|n_bytes| n_bytes > 0) {}
            }
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, closing).await;
    }
}
