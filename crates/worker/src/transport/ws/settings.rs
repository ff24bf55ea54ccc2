//! What the environment says about a worker: the `ASTRA_WORKER_*` variables of seed 003 section 9.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use protocol::session::payload::control::AuthMode;
use protocol::session::window::WINDOW_FRAMES;

use super::socket::Address;
use crate::resources::Limits;
use crate::resources::eviction::{DISK_BYTES_MAX_DEFAULT, GC_EVERY_DEFAULT, TTL_DEFAULT};
use crate::runner::tools::is_name;
use crate::sandbox::profile::Level;

/// The protocol that is spoken here.
const PROTOCOL: u64 = 1;
/// The most tasks at once.
pub const SLOTS_MAX: usize = 1024;
/// The longest time between two heartbeats; servers give up on a worker after three.
const HEARTBEAT_SECONDS_MAX: f64 = 3600.0;

/// What is set; nothing is set that was not said.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `ASTRA_WORKER_SCHEDULER_WS_URL`
    pub address: Option<Address>,
    /// `ASTRA_WORKER_NAME`
    pub name: Option<String>,
    /// `ASTRA_WORKER_TENANT`
    pub tenant: Option<String>,
    /// `ASTRA_WORKER_AUTH_MODE`
    pub auth_mode: Option<AuthMode>,
    /// `ASTRA_WORKER_AUTH_TOKEN`
    pub auth_token: Option<String>,
    /// `ASTRA_WORKER_AUTH_FINGERPRINT`
    pub auth_fingerprint: Option<String>,
    /// `ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL`
    pub slots: Option<usize>,
    /// `ASTRA_WORKER_CONCURRENCY_PER_NODE_LIMITS`
    pub per_type_limits: Option<BTreeMap<String, usize>>,
    /// `ASTRA_WORKER_RUNTIME_NAMES`
    pub runtimes: Option<Vec<String>>,
    /// `ASTRA_WORKER_FEATURE_FLAGS`
    pub features: Option<Vec<String>>,
    /// `ASTRA_WORKER_WORKER_VERSION`
    pub version: Option<String>,
    /// `ASTRA_WORKER_HEARTBEAT_INTERVAL_SECONDS`
    pub heartbeat_every: Option<Duration>,
    /// `ASTRA_WORKER_SESSION_ACCEPT_TIMEOUT_SECONDS`
    pub accept_timeout: Option<Duration>,
    /// `ASTRA_WORKER_SESSION_WINDOW_SIZE`
    pub window: Option<u64>,
    /// `ASTRA_WORKER_DATA_DIR`
    pub data: Option<PathBuf>,
    /// `ASTRA_WORKER_ALLOW_TOOLS`
    pub allow_tools: Option<Vec<String>>,
    /// `ASTRA_WORKER_DENY_TOOLS`
    pub deny_tools: Option<Vec<String>>,
    /// `ASTRA_WORKER_SANDBOX`
    pub sandbox: Option<Level>,
    /// `ASTRA_WORKER_RESOURCE_*`
    pub resources: Limits,
}

/// A variable that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} wants {wanted}, not {value:?}")]
pub struct InvalidSetting {
    /// Which variable.
    pub name: String,
    /// What it wants.
    pub wanted: &'static str,
    /// What it says; a secret is not repeated.
    pub value: String,
}

impl Settings {
    /// What the environment says; `look_up` gives the value of a variable.
    pub fn read(look_up: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidSetting> {
        let reader = Reader { look_up };
        reader.read("HANDSHAKE_PROTOCOL_VERSION", "1, the only version there is", |text| {
            text.parse().ok().filter(|version: &u64| *version == PROTOCOL)
        })?;
        reader.read("TRANSPORT", "websocket, the only transport that it selects", |text| {
            matches!(text, "websocket" | "ws").then_some(())
        })?;
        Ok(Self {
            address: reader.read(
                "SCHEDULER_WS_URL",
                "an address like ws://127.0.0.1:8080/ws/worker; TLS is not spoken here",
                parse,
            )?,
            name: reader.read("NAME", NAME, name)?,
            tenant: reader.read("TENANT", NAME, name)?,
            auth_mode: reader.read("AUTH_MODE", "token or mtls", auth_mode)?,
            auth_token: reader.secret("AUTH_TOKEN"),
            auth_fingerprint: reader.read("AUTH_FINGERPRINT", NAME, name)?,
            slots: reader.read("CONCURRENCY_MAX_PARALLEL", "a number from 1 to 1024", slots)?,
            per_type_limits: reader.read(
                "CONCURRENCY_PER_NODE_LIMITS",
                r#"an object of numbers from 1 to 1024, like {"command": 2}"#,
                limits,
            )?,
            runtimes: reader.read("RUNTIME_NAMES", NAMES, |text| {
                names(text).filter(|names| !names.is_empty())
            })?,
            features: reader.read("FEATURE_FLAGS", NAMES, names)?,
            version: reader.read("WORKER_VERSION", NAME, name)?,
            heartbeat_every: reader.read("HEARTBEAT_INTERVAL_SECONDS", SECONDS, seconds)?,
            accept_timeout: reader.read("SESSION_ACCEPT_TIMEOUT_SECONDS", SECONDS, seconds)?,
            window: reader.read("SESSION_WINDOW_SIZE", "a number from 1 to 64", window)?,
            data: reader.read("DATA_DIR", "a folder", |text| Some(text.into()))?,
            allow_tools: reader.read("ALLOW_TOOLS", TOOLS, tools)?,
            deny_tools: reader.read("DENY_TOOLS", TOOLS, tools)?,
            sandbox: reader.read("SANDBOX", "off, basic or strict", Level::from_name)?,
            resources: Limits {
                disk_bytes_max: reader
                    .read("RESOURCE_MAX_DISK_BYTES", BYTES, parse)?
                    .unwrap_or(DISK_BYTES_MAX_DEFAULT),
                ttl: reader.read("RESOURCE_DEFAULT_TTL_SECONDS", TTL, ttl)?.unwrap_or(TTL_DEFAULT),
                gc_every: reader
                    .read("RESOURCE_GC_INTERVAL_SECONDS", SECONDS, seconds)?
                    .unwrap_or(GC_EVERY_DEFAULT),
            },
        })
    }
}

const NAME: &str = "a name without spaces, at most 128 characters";
const NAMES: &str = r#"a list of names, like ["python","playwright"] or python,playwright"#;
const TOOLS: &str = "names of tools, like sort,uniq";
const BYTES: &str = "a number of bytes";
const TTL: &str = "seconds, more than 0 and at most a year";
/// The longest that something is kept that nobody uses.
const TTL_MAX: Duration = Duration::from_hours(366 * 24);
const SECONDS: &str = "seconds, more than 0 and at most 3600";

struct Reader<F> {
    look_up: F,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn read<T>(
        &self,
        name: &str,
        wanted: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidSetting> {
        let name = format!("ASTRA_WORKER_{name}");
        // What is set to nothing is not set, as containers do it.
        let Some(value) = (self.look_up)(&name).filter(|value| !value.trim().is_empty()) else {
            return Ok(None);
        };
        match parse(value.trim()) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(InvalidSetting { name, wanted, value }),
        }
    }

    fn secret(&self, name: &str) -> Option<String> {
        let value = (self.look_up)(&format!("ASTRA_WORKER_{name}"));
        value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }
}

fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn ttl(text: &str) -> Option<Duration> {
    let ttl = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    (!ttl.is_zero() && ttl <= TTL_MAX).then_some(ttl)
}

fn auth_mode(text: &str) -> Option<AuthMode> {
    match text {
        "token" => Some(AuthMode::Token),
        "mtls" => Some(AuthMode::Mtls),
        _ => None,
    }
}

fn name(text: &str) -> Option<String> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    (text.chars().count() <= 128 && text.chars().all(is_plain)).then(|| text.to_owned())
}

fn slots(text: &str) -> Option<usize> {
    parse(text).filter(|slots| (1..=SLOTS_MAX).contains(slots))
}

fn limits(text: &str) -> Option<BTreeMap<String, usize>> {
    let limits: BTreeMap<String, usize> = serde_json::from_str(text).ok()?;
    limits.values().all(|limit| (1..=SLOTS_MAX).contains(limit)).then_some(limits)
}

fn names(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = if text.starts_with('[') {
        serde_json::from_str(text).ok()?
    } else {
        text.split(',').map(|part| part.trim().to_owned()).collect()
    };
    names.iter().all(|text| !text.is_empty() && name(text).is_some()).then_some(names)
}

fn tools(text: &str) -> Option<Vec<String>> {
    names(text).filter(|names| !names.is_empty() && names.iter().all(|name| is_name(name)))
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = parse(text)?;
    let fits = seconds > 0.0 && seconds <= HEARTBEAT_SECONDS_MAX;
    fits.then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn window(text: &str) -> Option<u64> {
    parse(text).filter(|window| (1..=WINDOW_FRAMES).contains(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_seed_is_understood() {
        let settings = read(&[
            ("TRANSPORT", "websocket"),
            ("WORKER_VERSION", "0.1.0"),
            ("HANDSHAKE_PROTOCOL_VERSION", "1"),
            ("AUTH_MODE", "token"),
            ("AUTH_TOKEN", "dev-token"),
            ("CONCURRENCY_MAX_PARALLEL", "2"),
            ("CONCURRENCY_PER_NODE_LIMITS", r#"{"command":1}"#),
            ("RUNTIME_NAMES", r#"["python","playwright"]"#),
            ("FEATURE_FLAGS", "pkg.install, pkg.uninstall"),
            ("SCHEDULER_WS_URL", "ws://localhost:9/ws/worker"),
            ("HEARTBEAT_INTERVAL_SECONDS", "2.5"),
            ("DATA_DIR", ""),
        ]);
        let settings = settings.expect("understood");
        assert_eq!(settings.auth_token.as_deref(), Some("dev-token"));
        assert_eq!(settings.version.as_deref(), Some("0.1.0"));
        assert_eq!(settings.slots, Some(2));
        assert_eq!(settings.per_type_limits, Some(BTreeMap::from([("command".into(), 1)])));
        assert_eq!(settings.runtimes, Some(vec!["python".into(), "playwright".into()]));
        assert_eq!(settings.features, Some(vec!["pkg.install".into(), "pkg.uninstall".into()]));
        assert_eq!(settings.heartbeat_every, Some(Duration::from_millis(2500)));
        assert_eq!(settings.data, None, "set to nothing is not set");
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_wanted() {
        for (name, value, wanted) in [
            ("TRANSPORT", "carrier pigeon", "websocket"),
            ("SCHEDULER_WS_URL", "wss://far", "ws://"),
            ("AUTH_MODE", "password", "token or mtls"),
            ("CONCURRENCY_MAX_PARALLEL", "0", "from 1 to 1024"),
            ("CONCURRENCY_PER_NODE_LIMITS", "[1]", "an object of numbers"),
            ("RUNTIME_NAMES", "[]", "a list of names"),
            ("FEATURE_FLAGS", "[1]", "a list of names"),
            ("HANDSHAKE_PROTOCOL_VERSION", "2", "the only version"),
            ("HEARTBEAT_INTERVAL_SECONDS", "0", "seconds"),
            ("SESSION_ACCEPT_TIMEOUT_SECONDS", "soon", "seconds"),
            ("SESSION_WINDOW_SIZE", "65", "from 1 to 64"),
            ("NAME", "two words", "a name"),
            ("ALLOW_TOOLS", "sort,/bin/sh", "names of tools"),
            ("DENY_TOOLS", "[]", "names of tools"),
            ("SANDBOX", "very", "off, basic or strict"),
        ] {
            let error = read(&[(name, value)]).expect_err(name).to_string();
            assert!(error.starts_with(&format!("ASTRA_WORKER_{name} wants ")), "{error}");
            assert!(error.contains(wanted) && error.contains(value), "{error}");
        }
    }

    fn read(set: &[(&str, &str)]) -> Result<Settings, InvalidSetting> {
        Settings::read(|name| {
            let name = name.strip_prefix("ASTRA_WORKER_")?;
            set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        })
    }
}
