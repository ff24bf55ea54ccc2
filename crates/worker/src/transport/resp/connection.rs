//! One connection to a server: where the server is, requests out, replies in, in order and within time.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use protocol::resp::client::{ReplyError, ReplyReader, encode_request};
use protocol::resp::reply::Reply;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long a connection may take to come about.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest reply that is read: a job with the largest input that another server takes, and
/// some.
pub const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How much is read at a time.
const READ_BYTES: usize = 16 * 1024;

/// The name of a command and its arguments.
pub type Request = Vec<Bytes>;

/// A request of words.
pub(crate) fn request(words: &[&str]) -> Request {
    words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No connection came about.
    #[error("{address} cannot be reached: {source}")]
    Unreachable {
        /// Where it was looked for.
        address: Address,
        source: io::Error,
    },
    /// Nothing came in time.
    #[error("{address} did not answer within {within:?}")]
    Silent { address: Address, within: Duration },
    /// The server hung up.
    #[error("{0} closed the connection")]
    Closed(Address),
    /// The network broke.
    #[error("the connection to {address} broke: {source}")]
    Broken {
        /// Who was at the other end.
        address: Address,
        source: io::Error,
    },
    /// It is no such server.
    #[error("{address} does not speak the Redis protocol: {source}")]
    Garbled { address: Address, source: ReplyError },
}

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A connection that is open. After an error it is of no use: which reply belongs to which request
/// is lost.
pub struct Connection {
    address: Address,
    stream: Box<dyn Stream>,
    reader: ReplyReader,
    input: BytesMut,
    reply_within: Duration,
}

impl Connection {
    /// Connects. A reply may take as long as `reply_within`, unless the request itself waits.
    pub async fn open(address: &Address, reply_within: Duration) -> Result<Self, ConnectionError> {
        let opened = timeout(CONNECT_TIMEOUT, connect(address.place())).await;
        let silent =
            |_| ConnectionError::Silent { address: address.clone(), within: CONNECT_TIMEOUT };
        let stream = opened.map_err(silent)?.map_err(|source| {
            let address = address.clone();
            ConnectionError::Unreachable { address, source }
        })?;
        let (address, reader) = (address.clone(), ReplyReader::new(REPLY_BYTES_MAX));
        Ok(Self { address, stream, reader, input: BytesMut::new(), reply_within })
    }

    /// Asks one thing.
    pub async fn ask(&mut self, request: &Request) -> Result<Reply, ConnectionError> {
        self.send(std::slice::from_ref(request)).await?;
        self.receive(Duration::ZERO).await
    }

    /// Writes requests, all at once.
    pub async fn send(&mut self, requests: &[Request]) -> Result<(), ConnectionError> {
        let mut output = BytesMut::new();
        for request in requests {
            encode_request(&mut output, request);
        }
        let within = self.reply_within;
        match timeout(within, self.stream.write_all(&output)).await {
            Ok(written) => written.map_err(|source| self.broken(source)),
            Err(_) => Err(ConnectionError::Silent { address: self.address.clone(), within }),
        }
    }

    /// The reply to the oldest request that has none yet; `wait` is how long the request itself
    /// may wait at the server.
    pub async fn receive(&mut self, wait: Duration) -> Result<Reply, ConnectionError> {
        let within = self.reply_within + wait;
        match timeout(within, self.read_reply()).await {
            Ok(reply) => reply,
            Err(_) => Err(ConnectionError::Silent { address: self.address.clone(), within }),
        }
    }

    async fn read_reply(&mut self) -> Result<Reply, ConnectionError> {
        loop {
            let garbled =
                |source| ConnectionError::Garbled { address: self.address.clone(), source };
            if let Some(reply) = self.reader.next(&mut self.input).map_err(garbled)? {
                return Ok(reply);
            }
            self.input.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return Err(ConnectionError::Closed(self.address.clone())),
                Ok(_) => {}
                Err(source) => return Err(self.broken(source)),
            }
        }
    }

    fn broken(&self, source: io::Error) -> ConnectionError {
        ConnectionError::Broken { address: self.address.clone(), source }
    }
}

async fn connect(place: &Place) -> io::Result<Box<dyn Stream>> {
    Ok(match place {
        Place::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // Small requests must not wait for company.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Place::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// The port of a server whose address names none (seed 004 section 2.1).
const PORT_DEFAULT: u16 = 6380;
/// What the path of a Unix socket begins with.
const UNIX: &str = "unix:";

/// The address of a server, and the user that is named to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    place: Place,
    user: Option<String>,
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// TLS is not spoken here.
    #[error("{0}: TLS is not spoken here; put a TLS proxy in front of a server far away")]
    NotPlain(String),
    /// A password, which would be seen by everyone who lists processes. It is not repeated.
    #[error("an address holds no password; show it with --token or ASTRA_TOKEN")]
    Password,
    /// Neither host and port nor a socket.
    #[error("{0} is not an address like 127.0.0.1:6380, worker-1@10.0.0.5 or unix:/run/astra.sock")]
    Malformed(String),
}

impl Address {
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whom `AUTH` names; `None` shows the key alone.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => write!(out, "[{host}]:{port}"),
            Place::Tcp(host, port) => write!(out, "{host}:{port}"),
            Place::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let malformed = || InvalidAddress::Malformed(text.into());
        let rest = match text.split_once("://") {
            Some(("redis" | "tcp", rest)) => rest,
            Some(("rediss", _)) => return Err(InvalidAddress::NotPlain(text.into())),
            Some(_) => return Err(malformed()),
            None => text,
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(InvalidAddress::Password),
            Some((user, rest)) if is_plain(user) => (Some(user.to_owned()), rest),
            Some(_) => return Err(malformed()),
            None => (None, rest),
        };
        let place = match rest.strip_prefix(UNIX) {
            Some(path) if path.starts_with('/') => Place::Unix(path.into()),
            Some(_) => return Err(malformed()),
            None => split(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(malformed)?,
        };
        Ok(Self { place, user })
    }
}

fn split(authority: &str) -> Option<Place> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, port) = bracketed.split_once(']')?;
            if port.is_empty() { (host, None) } else { (host, Some(port.strip_prefix(':')?)) }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(PORT_DEFAULT), |port| port.parse().ok())?;
    is_plain(host).then(|| Place::Tcp(host.into(), port))
}

fn is_plain(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c);
    !text.is_empty() && !text.contains(is_odd)
}

#[cfg(test)]
mod tests;
