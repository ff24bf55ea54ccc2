//! Where a server is.

use std::fmt;
use std::str::FromStr;

use hyper::http::uri::Authority;

/// The port of a server whose address names none.
const PORT_DEFAULT: u16 = 8080;

/// The address of a server: host and port. It can stand in every URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// Text that is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// TLS is not spoken here.
    #[error("{0}: only http:// is spoken here; put a TLS proxy in front of a server far away")]
    NotHttp(String),
    /// A path, a user or a query.
    #[error("{0}: give host and port only, like http://127.0.0.1:8080")]
    Surplus(String),
    /// No host, or a port that is no number.
    #[error("{0} is not an address like http://127.0.0.1:8080")]
    Malformed(String),
}

impl Endpoint {
    /// `host:port`, as sockets and the `Host` header want it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Host and port, as sockets are opened with.
    pub fn parts(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}", self.authority())
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(InvalidEndpoint::NotHttp(text.into())),
            None => text,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(InvalidEndpoint::Surplus(text.into()));
        }
        let malformed = || InvalidEndpoint::Malformed(text.into());
        let host = authority.parse::<Authority>().map_err(|_| malformed())?.host().to_owned();
        let port = match authority.strip_prefix(&host) {
            Some("") => PORT_DEFAULT,
            Some(port) => {
                let port = port.strip_prefix(':').and_then(|port| port.parse().ok());
                port.ok_or_else(malformed)?
            }
            None => return Err(malformed()),
        };
        Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_their_parts() {
        check("http://127.0.0.1:8081", "http://127.0.0.1:8081");
        check("http://127.0.0.1:8081/", "http://127.0.0.1:8081");
        check("example.org", "http://example.org:8080");
        check("localhost:9", "http://localhost:9");
        check("http://[::1]:8080", "http://[::1]:8080");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_sentence() {
        check("https://example.org", "only http:// is spoken here");
        check("http://example.org/api/v1", "give host and port only");
        check("http://", "is not an address");
        check("http://a:port", "is not an address");
        check("two words", "is not an address");
        check("http://a\"b", "is not an address");
    }

    fn check(text: &str, expected: &str) {
        let shown = match text.parse::<Endpoint>() {
            Ok(endpoint) => endpoint.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{text}: {shown}");
    }
}
