//! One socket: bytes in and bytes out, both within budgets.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::BytesMut;
use protocol::resp::request::{Limits, ProtocolError, Request, RequestReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::listener::{Stream, end_sending, is_over, take_error};

/// Limit: what is read before the key.
const EARLY_BYTES_IN_MAX: usize = 4 * 1024;
/// Limit: what is sent before the key.
const EARLY_BYTES_OUT_MAX: usize = 1024;
/// Limit: arguments of one command.
pub(crate) const ARGUMENTS_MAX: usize = 65_536;
/// Limit: one argument of a command.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Limit: one command.
const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Replies are sent when so many bytes of them wait.
const REPLY_BYTES_SENT_AT: usize = 64 * 1024;
/// A client that does not read for so long is cut off.
pub(crate) const WRITE_STALL_MAX: Duration = Duration::from_secs(10);
/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;
/// How long a peer that closed may take to say that it threw its last reply away: some round trips
/// through a slow network. One that says nothing is taken for one that has read.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How often that is looked at.
const AFTERMATH_LOOK: Duration = Duration::from_millis(5);

const TRUSTED: Limits = Limits {
    arguments_max: ARGUMENTS_MAX,
    argument_bytes_max: ARGUMENT_BYTES_MAX,
    request_bytes_max: REQUEST_BYTES_MAX,
};

/// The socket is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client closed it in order.
    Closed,
    /// It broke, or the client does not read, or sent more than it may.
    Broken,
}

/// A socket with its two buffers.
pub(super) struct Wire {
    stream: Stream,
    input: BytesMut,
    /// Replies that wait to be sent.
    pub(super) output: BytesMut,
    reader: RequestReader,
    /// How much more a client may send and be sent before it is trusted; `None` afterwards.
    early: Option<(usize, usize)>,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            reader: RequestReader::new(Limits::STRANGER),
            early: Some((EARLY_BYTES_IN_MAX, EARLY_BYTES_OUT_MAX)),
        }
    }

    /// The client proved who it is.
    pub(super) fn trust(&mut self) {
        if self.early.take().is_some() {
            self.reader.set_limits(TRUSTED);
        }
    }

    /// The client gave its proof up.
    pub(super) fn distrust(&mut self) {
        self.early = Some((EARLY_BYTES_IN_MAX, EARLY_BYTES_OUT_MAX));
        self.reader.set_limits(Limits::STRANGER);
    }

    /// The next request that has arrived whole.
    pub(super) fn next_request(&mut self) -> Result<Option<Request>, ProtocolError> {
        self.reader.next(&mut self.input)
    }

    /// Waits for bytes. A client that waits for an answer may send on, up to one request.
    pub(super) async fn fill(&mut self) -> Result<(), Gone> {
        if self.input.len() > REQUEST_BYTES_MAX {
            return std::future::pending().await;
        }
        let room = self.early.map_or(READ_BYTES, |(left, _)| left.min(READ_BYTES));
        if room == 0 {
            return Err(Gone::Broken);
        }
        self.input.reserve(room);
        let mut limited = (&mut self.stream).take(room as u64);
        match limited.read_buf(&mut self.input).await {
            Ok(0) => Err(Gone::Closed),
            Ok(n_bytes) => {
                if let Some((left, _)) = &mut self.early {
                    *left -= n_bytes;
                }
                Ok(())
            }
            // Many clients end without the farewell of TLS; the end is as orderly as any other.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Gone::Closed),
            Err(_) => Err(Gone::Broken),
        }
    }

    /// Sends what waits if it is much: replies to one client never pile up, however much it asks.
    pub(super) async fn flush_if_much(&mut self) -> Result<(), Gone> {
        if self.output.len() > REPLY_BYTES_SENT_AT { self.flush().await } else { Ok(()) }
    }

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        if self.output.is_empty() {
            return Ok(());
        }
        if let Some((_, left)) = &mut self.early {
            *left = left.checked_sub(self.output.len()).ok_or(Gone::Broken)?;
        }
        let Self { stream, output, .. } = self;
        let sending = async {
            stream.write_all_buf(output).await?;
            stream.flush().await
        };
        let sent = tokio::time::timeout(WRITE_STALL_MAX, sending).await;
        if !sent.is_ok_and(|sent| sent.is_ok()) {
            return Err(Gone::Broken);
        }
        self.shrink();
        Ok(())
    }

    /// A connection that once moved much and is idle now holds no large buffers.
    fn shrink(&mut self) {
        if self.output.capacity() > REPLY_BYTES_SENT_AT {
            self.output = BytesMut::new();
        }
        if self.input.is_empty() && self.input.capacity() > REPLY_BYTES_SENT_AT {
            self.input = BytesMut::new();
        }
    }

    /// Whether a client that closed the connection in order had read all that it was sent: one
    /// that closes with unread bytes, or is sent some after it closed, resets the connection by
    /// its system's doing.
    pub(super) async fn was_read(&mut self) -> bool {
        end_sending(&mut self.stream).await;
        let until = Instant::now() + AFTERMATH;
        loop {
            // In this order: what is over has said all that it has to say.
            let is_over = is_over(&self.stream);
            if take_error(&self.stream).is_some() {
                return false;
            }
            if is_over || Instant::now() >= until {
                return true;
            }
            tokio::time::sleep(AFTERMATH_LOOK).await;
        }
    }

    /// Ends the connection.
    pub(super) async fn close(&mut self) {
        let _ = self.stream.shutdown().await;
    }
}
