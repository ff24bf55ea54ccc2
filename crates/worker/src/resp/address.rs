//! Where the door for Redis clients of a server is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_their_parts() {
        check("127.0.0.1:6381", "127.0.0.1:6381 None");
        check("localhost", "localhost:6380 None");
        check("redis://example.org:6380/", "example.org:6380 None");
        check("[::1]:9", "[::1]:9 None");
        check("[::1]", "[::1]:6380 None");
        check("worker-1@10.0.0.5", "10.0.0.5:6380 Some(\"worker-1\")");
        check("unix:/run/astra.sock", "unix:/run/astra.sock None");
        check("w@unix:/run/a.sock", "unix:/run/a.sock Some(\"w\")");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_sentence() {
        check("rediss://example.org", "TLS is not spoken here");
        check("redis://user:secret@example.org", "holds no password");
        for wrong in ["", "a:b", "two words", "unix:relative", "@a", "http://a", "[::1]9", "a/b"] {
            check(wrong, "is not an address");
        }
    }

    fn check(text: &str, expected: &str) {
        let shown = match text.parse::<Address>() {
            Ok(address) => format!("{address} {:?}", address.user()),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{text}: {shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
