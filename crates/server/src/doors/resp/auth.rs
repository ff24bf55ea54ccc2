//! `AUTH` and `HELLO`: who is it, and which version does it speak; failed tries are rate-limited.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::resp::reply::{Reply, Version};
use protocol::resp::request::Request;
use tokio::time::Instant;

use super::answers::{Answered, RespError, whole};
use super::client::{Binding, Member};
use super::connection::Connection;
use super::jobs::arity;
use crate::auth::Caller;

/// The user name that stands for no user.
const NO_USER: &[u8] = b"default";
/// The word of the credential that dev mode hands out.
const DEV_CREDENTIAL: &str = "dev";
/// How long a client waits for a shard that is being restored.
const LOADED_WITHIN: Duration = Duration::from_secs(5);
const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_ANSWER: &str = "ERR the server cannot take this client now; try again";

impl Connection {
    /// A dev server lets everyone in who can reach it: only this machine can.
    pub(super) async fn let_in_without_key(&mut self) {
        if let Some((caller, _)) = self.app.auth.identify_token(None, self.app.clock.now()) {
            let _ = self.admit(caller, DEV_CREDENTIAL.to_owned(), None).await;
        }
    }

    pub(super) async fn on_auth(&mut self, request: &Request) -> Answered {
        match &request.arguments[1..] {
            [key] => self.log_in(None, key).await?,
            [user, key] => self.log_in(Some(user), key).await?,
            _ => return Err(arity(request)),
        }
        Ok(Reply::ok())
    }

    async fn log_in(&mut self, user: Option<&[u8]>, key: &[u8]) -> Answered<()> {
        if key.is_empty() {
            return Err(RespError::new("ERR AUTH key cannot be empty"));
        }
        if let Some(wait) = self.app.resp.attempts.wait_of(self.client.address) {
            let seconds = wait.as_secs() + 1;
            let text = format!("too many failed AUTH attempts; try again in {seconds} s");
            return Err(text.into());
        }
        let user = user.filter(|user| *user != NO_USER);
        let Some((caller, credential)) = self.identify(key) else {
            self.app.resp.attempts.failed(self.client.address);
            tracing::info!(peer = %self.client.peer, "a key was refused");
            return Err(RespError::new(WRONG));
        };
        self.admit(caller, credential, user).await?;
        self.app.resp.attempts.succeeded(self.client.address);
        Ok(())
    }

    /// Who stands behind a key, and what the key is called.
    fn identify(&self, key: &[u8]) -> Option<(Caller, String)> {
        let key = std::str::from_utf8(key).ok()?;
        if let Some(caller) = self.app.auth.identify_worker_key(key) {
            let worker = caller.worker.as_ref()?;
            let credential = format!("key-{worker}");
            return Some((caller, credential));
        }
        let (caller, token_id) = self.app.auth.identify_token(Some(key), self.app.clock.now())?;
        Some((caller, token_id.unwrap_or_else(|| DEV_CREDENTIAL.to_owned())))
    }

    async fn admit(
        &mut self,
        caller: Caller,
        credential: String,
        user: Option<&[u8]>,
    ) -> Answered<()> {
        let named = user.map(std::str::from_utf8).transpose().ok().flatten();
        let binding = match (&caller.worker, user) {
            (Some(own), None) => Binding::Credential(own.clone()),
            (Some(own), Some(_)) if named == Some(own.as_str()) => Binding::Credential(own.clone()),
            (Some(_), Some(_)) => return Err(RespError::new(WRONG)),
            (None, None) => Binding::None,
            // A user name says which worker it is; a name that cannot be one is no user.
            (None, Some(_)) => {
                let worker = named.and_then(|name| name.parse().ok());
                Binding::Credential(worker.ok_or(RespError::new(WRONG))?)
            }
        };
        let handle = self.app.directory.of(&caller.tenant).await;
        let handle = handle.map_err(|_| RespError::new(NO_ANSWER))?;
        let loaded = tokio::time::timeout(LOADED_WITHIN, handle.workers().until_loaded()).await;
        loaded.map_err(|_| RespError::new(NO_ANSWER))?;
        self.unbind();
        self.client.member = Some(Member::new(caller, credential, handle));
        self.bind(binding);
        self.wire.trust();
        self.list_self();
        Ok(())
    }

    pub(super) async fn on_hello(&mut self, request: &Request) -> Answered {
        let mut version = self.client.version;
        let mut rest = &request.arguments[1..];
        if let [wanted, more @ ..] = rest {
            version = match wanted.as_ref() {
                b"2" => Version::Two,
                b"3" => Version::Three,
                other if std::str::from_utf8(other).is_ok_and(|n| n.parse::<i64>().is_ok()) => {
                    return Err(RespError::new("NOPROTO unsupported protocol version"));
                }
                _ => {
                    let text = "ERR Protocol version is not an integer or out of range";
                    return Err(RespError::new(text));
                }
            };
            rest = more;
        }
        let mut name = None;
        while let [option, more @ ..] = rest {
            match more {
                [user, key, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    self.log_in(Some(user), key).await?;
                    rest = after;
                }
                [given, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(String::from_utf8_lossy(given).into_owned());
                    rest = after;
                }
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(format!("Syntax error in HELLO option '{option}'").into());
                }
            }
        }
        if self.client.member.is_none() {
            let text = "NOAUTH HELLO must be called with the client already authenticated, \
                        otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                        authenticate the client and select the RESP protocol version at the same \
                        time";
            return Err(RespError::new(text));
        }
        self.client.version = version;
        if let Some(name) = name {
            self.client.name = name;
        }
        let proto = if version == Version::Three { 3 } else { 2 };
        let said: [(&str, Reply); 7] = [
            ("server", "astraflow".into()),
            ("version", super::info::REDIS_VERSION.into()),
            ("proto", Reply::Integer(proto)),
            ("id", whole(self.client.id)),
            ("mode", "standalone".into()),
            ("role", "master".into()),
            ("modules", Reply::Array(Vec::new())),
        ];
        Ok(Reply::Map(said.map(|(name, value)| (name.into(), value)).into()))
    }
}

/// Limit: wrong keys of one address in a minute; then it has to wait.
const AUTH_FAILURES_MAX: u32 = 5;
/// The span in which failures are counted.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// The first wait; it doubles with every further failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// Addresses that are remembered; then the one that failed longest ago is forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// What is known of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since: Instant,
    wait_until: Instant,
}

/// Failed tries, by address; those of a Unix socket count as one address.
#[derive(Default)]
pub(crate) struct Attempts {
    by_address: Mutex<BTreeMap<Option<IpAddr>, Failures>>,
}

impl Attempts {
    /// How long an address still has to wait before its next try is looked at.
    pub(super) fn wait_of(&self, address: Option<IpAddr>) -> Option<Duration> {
        let by_address = self.by_address.lock();
        let wait = by_address.get(&address)?.wait_until.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// A try failed.
    pub(super) fn failed(&self, address: Option<IpAddr>) {
        let now = Instant::now();
        let mut by_address = self.by_address.lock();
        if by_address.len() >= ADDRESSES_MAX && !by_address.contains_key(&address) {
            let oldest = by_address.iter().min_by_key(|(_, failures)| failures.since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                by_address.remove(&oldest);
            }
        }
        let fresh = Failures { count: 0, since: now, wait_until: now };
        let failures = by_address.entry(address).or_insert(fresh);
        if now.duration_since(failures.since) > WINDOW && now >= failures.wait_until {
            *failures = fresh;
        }
        failures.count += 1;
        if let Some(beyond) = failures.count.checked_sub(AUTH_FAILURES_MAX) {
            let wait = WAIT_FIRST.saturating_mul(1 << beyond.min(16)).min(WAIT_MAX);
            failures.wait_until = now + wait;
        }
    }

    /// A try succeeded: earlier ones were typing errors.
    pub(super) fn succeeded(&self, address: Option<IpAddr>) {
        self.by_address.lock().remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_failures_make_an_address_wait_and_others_not() {
        let (attempts, address) = (Attempts::default(), Some(IpAddr::from([10, 0, 0, 1])));
        for _ in 0..AUTH_FAILURES_MAX {
            assert_eq!(attempts.wait_of(address), None);
            attempts.failed(address);
        }
        assert_eq!(attempts.wait_of(address), Some(WAIT_FIRST));
        assert_eq!(attempts.wait_of(None), None);
        tokio::time::advance(WAIT_FIRST).await;
        assert_eq!(attempts.wait_of(address), None);
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), Some(2 * WAIT_FIRST), "the wait grows");
        for _ in 0..20 {
            attempts.failed(address);
        }
        assert_eq!(attempts.wait_of(address), Some(WAIT_MAX));
        tokio::time::advance(WAIT_MAX + WINDOW).await;
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), None, "what is long ago is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_clears_an_address() {
        let (attempts, address) = (Attempts::default(), Some(IpAddr::from([10, 0, 0, 1])));
        for _ in 0..AUTH_FAILURES_MAX - 1 {
            attempts.failed(address);
        }
        attempts.succeeded(address);
        attempts.failed(address);
        assert_eq!(attempts.wait_of(address), None);
    }

    #[test]
    fn memory_of_addresses_is_bounded() {
        let attempts = Attempts::default();
        for number in 0..u32::try_from(ADDRESSES_MAX).expect("small") + 10 {
            attempts.failed(Some(IpAddr::from(number.to_be_bytes())));
        }
        assert_eq!(attempts.by_address.lock().len(), ADDRESSES_MAX);
    }
}
