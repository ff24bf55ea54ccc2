//! Where the door for workers of a server is.

use std::fmt;
use std::str::FromStr;

use crate::endpoint::{Endpoint, InvalidEndpoint};

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
