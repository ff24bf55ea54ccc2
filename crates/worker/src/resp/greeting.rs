//! The first words on a connection: who we are, and which dialect the server speaks.

use std::time::Duration;

use protocol::resp::reply::Reply;

use super::address::Address;
use super::connection::{Connection, ConnectionError, request};
use super::error_text::{Meaning, meaning};
use super::pace::HEARTBEAT_EVERY;
use super::registration::Registration;
use super::worker::WorkerError;

/// What a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// It knows workers: `WORKER.*`, `JOB.UPDATE`, leases. A pop may be abandoned, for the server
    /// takes back what nobody read.
    Registered,
    /// It knows keys and lists only. All goes over one connection.
    Listed,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) dialect: Dialect,
    /// How often the server wants to hear of us.
    pub(super) heartbeat_every: Duration,
}

/// Who greets.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    pub(super) address: Address,
    pub(super) key: Option<String>,
    pub(super) registration: Registration,
    /// Whether the connection registers the worker, or only belongs to it.
    pub(super) registers: bool,
}

/// Why a connection cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{address} cannot take this worker now: {text}")]
    Passing { address: Address, text: String },
    #[error(transparent)]
    Refused(WorkerError),
}

impl Greeting {
    /// Says who we are.
    pub(super) async fn greet(&self, connection: &mut Connection) -> Result<Terms, GreetError> {
        if let Some(key) = &self.key {
            let words = match self.address.user() {
                Some(user) => request(&["AUTH", user, key]),
                None => request(&["AUTH", key]),
            };
            if let Reply::Error(text) = connection.ask(&words).await? {
                return Err(self.no_entry(&text));
            }
        }
        if self.registers {
            self.register(connection).await
        } else {
            Ok(Terms { dialect: Dialect::Registered, heartbeat_every: HEARTBEAT_EVERY })
        }
    }

    async fn register(&self, connection: &mut Connection) -> Result<Terms, GreetError> {
        match connection.ask(&self.registration.register()).await? {
            Reply::Error(text) if meaning(&text) == Meaning::UnknownCommand => {
                self.list(connection).await
            }
            Reply::Error(text) => Err(self.refused(&text)),
            reply => {
                let heartbeat_every = interval(&reply).unwrap_or(HEARTBEAT_EVERY);
                Ok(Terms { dialect: Dialect::Registered, heartbeat_every })
            }
        }
    }

    async fn list(&self, connection: &mut Connection) -> Result<Terms, GreetError> {
        for words in self.registration.lists() {
            if let Reply::Error(text) = connection.ask(&words).await? {
                return Err(self.refused(&text));
            }
        }
        Ok(Terms { dialect: Dialect::Listed, heartbeat_every: HEARTBEAT_EVERY })
    }

    /// `AUTH` was answered with an error, which is about the key unless it says that it passes.
    fn no_entry(&self, text: &str) -> GreetError {
        match meaning(text) {
            Meaning::Passing => self.passing(text),
            // Nothing else was said that could be wrong.
            _ => self.wrong_key(text),
        }
    }

    fn refused(&self, text: &str) -> GreetError {
        match meaning(text) {
            Meaning::WrongKey => self.wrong_key(text),
            Meaning::Passing => self.passing(text),
            Meaning::NotAllowed => {
                let address = self.address.clone();
                GreetError::Refused(WorkerError::NotAllowed { address, text: text.into() })
            }
            // Whatever else it is, the same words would be answered the same.
            _ => {
                let address = self.address.clone();
                GreetError::Refused(WorkerError::Refused { address, text: text.into() })
            }
        }
    }

    fn passing(&self, text: &str) -> GreetError {
        GreetError::Passing { address: self.address.clone(), text: text.into() }
    }

    fn wrong_key(&self, text: &str) -> GreetError {
        let (address, text) = (self.address.clone(), text.to_owned());
        GreetError::Refused(match self.key {
            Some(_) => WorkerError::WrongKey { address, text },
            None => WorkerError::NoKey { address, text },
        })
    }
}

/// The `heartbeat_interval=30` in the reply to a registration.
fn interval(reply: &Reply) -> Option<Duration> {
    let Reply::Simple(text) = reply else { return None };
    let word = text.split_whitespace().find_map(|word| word.strip_prefix("heartbeat_interval="))?;
    let every = Duration::from_secs(word.parse().ok()?);
    (!every.is_zero()).then_some(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_read_if_it_makes_sense() {
        check("OK worker_id=w heartbeat_interval=7", Some(7));
        check("OK worker_id=w", None);
        check("OK heartbeat_interval=0", None);
        check("OK heartbeat_interval=x", None);
    }

    fn check(text: &str, expected: Option<u64>) {
        let reply = Reply::simple(text.to_owned());
        assert_eq!(interval(&reply), expected.map(Duration::from_secs), "{text}");
    }
}
