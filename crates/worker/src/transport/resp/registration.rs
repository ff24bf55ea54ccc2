//! The first words on a connection: who we are, what we offer, and which dialect the server speaks.
//!
//! A server that knows workers is told one JSON, one that only knows keys is told lists. Agentic units
//! say of themselves what they do (seed 004 section 10).

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::ToolName;
use protocol::resp::reply::Reply;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use super::connection::{Address, Connection, ConnectionError, Request, request};
use super::report::{Meaning, meaning};
use super::worker::{HEARTBEAT_EVERY, Options};
use crate::core::handle::WorkerError;
use crate::core::identity::hostname;
use crate::runner::tools::{find_program, scrubbed};

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
#[derive(Clone)]
pub(super) struct Greeting {
    pub(super) options: Arc<Options>,
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
        if let Some(key) = &self.options.key {
            let words = match self.options.address.user() {
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
        match connection.ask(&self.options.register()).await? {
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
        for words in self.options.lists() {
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
        let (address, said) = (self.options.address.to_string(), text.to_owned());
        match meaning(text) {
            Meaning::WrongKey => self.wrong_key(text),
            Meaning::Passing => self.passing(text),
            Meaning::NotAllowed => {
                GreetError::Refused(WorkerError::NotAllowed { address, text: said })
            }
            // Whatever else it is, the same words would be answered the same.
            _ => GreetError::Refused(WorkerError::Refused { address, text: said }),
        }
    }

    fn passing(&self, text: &str) -> GreetError {
        GreetError::Passing { address: self.options.address.clone(), text: text.into() }
    }

    fn wrong_key(&self, text: &str) -> GreetError {
        let (address, text) = (self.options.address.to_string(), text.to_owned());
        GreetError::Refused(match self.options.key {
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

/// What a server that only knows keys takes as a list of tools.
const LISTED_TOOLS_MAX: usize = 100;
/// The longest name in such a list.
const LISTED_NAME_BYTES_MAX: usize = 64;
/// The tag of a worker that has no other.
const TAG_DEFAULT: &str = "cpu";
/// A label with this value is a tag of one word.
const TAG_ON: &str = "true";

#[derive(Serialize)]
struct Capabilities<'a> {
    tools: Vec<&'a str>,
    agentic_units: Vec<&'a str>,
}

/// Seed 004 section 2.2.
#[derive(Serialize)]
struct WorkerJson<'a> {
    worker_id: &'a str,
    hostname: String,
    platform: String,
    agw_version: &'a str,
    capabilities: Capabilities<'a>,
    max_concurrent_jobs: usize,
    tags: &'a BTreeMap<String, String>,
    /// Heartbeats may be answered with `quiet` and `terminate`.
    signals: bool,
    /// What the units say of themselves (seed 004 section 10).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<&'a str, &'a RawValue>,
}

impl Options {
    /// `WORKER.REGISTER <json>`.
    pub(super) fn register(&self) -> Request {
        // One odd name among a thousand programs would make the whole registration invalid.
        let is_told = |name: &&str| name.parse::<ToolName>().is_ok();
        let json = WorkerJson {
            worker_id: self.worker_id.as_str(),
            hostname: hostname(),
            platform: platform(std::env::consts::OS, std::env::consts::ARCH),
            agw_version: &self.version,
            capabilities: Capabilities {
                tools: self.offer.tools.iter().map(String::as_str).filter(is_told).collect(),
                agentic_units: self.units.iter().map(|unit| unit.name.as_str()).collect(),
            },
            max_concurrent_jobs: self.offer.slots,
            tags: &self.offer.tags,
            signals: true,
            descriptions: self.descriptions(),
        };
        let json = serde_json::to_vec(&json).expect("plain values become JSON");
        vec![Bytes::from_static(b"WORKER.REGISTER"), json.into()]
    }

    fn descriptions(&self) -> BTreeMap<&str, &RawValue> {
        let units = self.units.iter();
        units.filter_map(|unit| Some((&*unit.name, unit.description.as_deref()?))).collect()
    }

    /// The same in keys: `SET worker:<id>:tools`, `SET worker:<id>:tags`, `PING <id>`.
    pub(super) fn lists(&self) -> Vec<Request> {
        let worker_id = self.worker_id.as_str();
        let mut requests = Vec::new();
        // The units first: where there are too many names, tools are left out.
        let units = self.units.iter().map(|unit| unit.name.as_str());
        let tools: Vec<&str> = units.chain(self.offer.tools.iter().map(String::as_str)).collect();
        let tools: Vec<&str> = listable(tools).take(LISTED_TOOLS_MAX).collect();
        if !tools.is_empty() {
            let key = format!("worker:{worker_id}:tools");
            requests.push(request(&["SET", &key, &tools.join(",")]));
        }
        let tags: Vec<String> =
            self.offer.tags.iter().map(|(key, value)| tag(key, value)).collect();
        let mut tags: Vec<&str> = listable(tags.iter().map(String::as_str).collect()).collect();
        if tags.is_empty() {
            tags.push(TAG_DEFAULT);
        }
        let key = format!("worker:{worker_id}:tags");
        requests.push(request(&["SET", &key, &tags.join(",")]));
        requests.push(request(&["PING", worker_id]));
        requests
    }
}

fn tag(key: &str, value: &str) -> String {
    if value == TAG_ON { key.to_owned() } else { format!("{key}-{value}") }
}

/// The names that fit into a list between commas.
fn listable(names: Vec<&str>) -> impl Iterator<Item = &str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    names.into_iter().filter(move |name| {
        (1..=LISTED_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain)
    })
}

/// `linux-x86_64`, `darwin-arm64`: the words of the seed.
fn platform(system: &str, processor: &str) -> String {
    match (system, processor) {
        ("macos", "aarch64") => "darwin-arm64".into(),
        ("macos", other) => format!("darwin-{other}"),
        (system, processor) => format!("{system}-{processor}"),
    }
}

/// What a unit is asked.
const DESCRIBE: &str = "--describe";
/// How long it may take to say it.
const DESCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// How much of it is kept.
pub const DESCRIPTION_BYTES_MAX: u64 = 16 * 1024;

/// A program that a job may demand by name, like a tool.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What jobs call it.
    pub name: String,
    /// What it says of itself: its JSON, or its words as a JSON text.
    pub description: Option<Box<RawValue>>,
}

/// Asks every unit what it does. One that does not say it is offered all the same.
pub async fn describe_all(names: Vec<String>) -> Vec<Unit> {
    let mut units = Vec::with_capacity(names.len());
    for name in names {
        let description = match timeout(DESCRIBE_WITHIN, describe(&name)).await {
            Ok(Ok(said)) => json_of(&said),
            Ok(Err(why)) => {
                tracing::warn!(unit = name, why, "the unit does not describe itself");
                None
            }
            Err(_) => {
                tracing::warn!(unit = name, "the unit takes too long to describe itself");
                None
            }
        };
        units.push(Unit { name, description });
    }
    units
}

async fn describe(name: &str) -> Result<String, String> {
    let environment = scrubbed(std::env::vars_os());
    let program = find_program(name, None, &environment).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg(DESCRIBE)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let mut said = Vec::new();
    let read = (&mut stdout).take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut said).await;
    read.map_err(|error| error.to_string())?;
    if said.len() as u64 > DESCRIPTION_BYTES_MAX {
        return Err(format!("it says more than {DESCRIPTION_BYTES_MAX} bytes"));
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("{DESCRIBE} ended with {status}"));
    }
    String::from_utf8(said).map_err(|_| "what it says is not text".to_owned())
}

/// JSON as it is, anything else as a text; nothing if nothing was said.
fn json_of(said: &str) -> Option<Box<RawValue>> {
    let said = said.trim();
    if said.is_empty() {
        return None;
    }
    RawValue::from_string(said.to_owned()).or_else(|_| serde_json::value::to_raw_value(said)).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::core::capabilities::Offer;

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

    #[test]
    fn a_registration_says_what_the_seed_asks_for() {
        let request = registration().register();
        assert_eq!(request[0], "WORKER.REGISTER");
        let json: Value = serde_json::from_slice(&request[1]).expect("JSON");
        assert_eq!(json["worker_id"], "w-1");
        assert_eq!(json["agw_version"], "1.2.3");
        assert_eq!(json["capabilities"]["tools"], serde_json::json!(["sort", "g++"]));
        assert_eq!(json["capabilities"]["agentic_units"], serde_json::json!([]));
        assert_eq!(json["max_concurrent_jobs"], 3);
        assert_eq!(json["tags"], serde_json::json!({ "gpu": "true", "zone": "a" }));
        assert_eq!(json["signals"], true);
        assert!(json["hostname"].as_str().is_some_and(|name| !name.is_empty()));
        assert_eq!(platform("linux", "x86_64"), "linux-x86_64");
        assert_eq!(platform("macos", "aarch64"), "darwin-arm64");
    }

    #[test]
    fn units_are_told_with_what_they_say_of_themselves() {
        let description =
            RawValue::from_string(r#"{"does":"reads pictures"}"#.into()).expect("JSON");
        let ocr = Unit { name: "agx-ocr".into(), description: Some(description) };
        let shy = Unit { name: "agx-shy".into(), description: None };
        let registration = Options { units: vec![ocr, shy], ..registration() };
        let json: Value = serde_json::from_slice(&registration.register()[1]).expect("JSON");
        let units = serde_json::json!(["agx-ocr", "agx-shy"]);
        assert_eq!(json["capabilities"]["agentic_units"], units);
        let said = serde_json::json!({ "agx-ocr": { "does": "reads pictures" } });
        assert_eq!(json["descriptions"], said);
        let tools = "SET worker:w-1:tools agx-ocr,agx-shy,sort";
        check_registration(
            &registration,
            &format!("{tools}|SET worker:w-1:tags gpu,zone-a|PING w-1"),
        );
    }

    #[test]
    fn lists_hold_only_what_fits_between_commas() {
        check_registration(
            &registration(),
            "SET worker:w-1:tools sort|SET worker:w-1:tags gpu,zone-a|PING w-1",
        );
        let bare = Options { offer: Offer::default(), ..registration() };
        check_registration(&bare, "SET worker:w-1:tags cpu|PING w-1");
    }

    fn check_registration(registration: &Options, expected: &str) {
        let lists = registration.lists().into_iter();
        let lines = lists.map(|words| String::from_utf8(words.join(&b' ')).expect("text"));
        assert_eq!(lines.collect::<Vec<_>>().join("|"), expected);
    }

    fn registration() -> Options {
        let address = "127.0.0.1".parse().expect("an address");
        let name = "w-1".parse().expect("a name");
        let executor = Arc::new(crate::builtin::Builtin);
        Options {
            version: "1.2.3".into(),
            offer: Offer {
                tools: vec!["sort".into(), "[".into(), "g++".into()],
                tags: BTreeMap::from([("gpu".into(), "true".into()), ("zone".into(), "a".into())]),
                slots: 3,
                ..Offer::default()
            },
            ..Options::new(address, name, executor)
        }
    }

    #[tokio::test]
    async fn units_say_what_they_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec![
            program(folder.path(), "ocr", "echo '{\"does\": \"reads pictures\"}'"),
            program(folder.path(), "words", "echo counts \"$1\""),
            program(folder.path(), "silent", "true"),
            program(folder.path(), "broken", "echo no; exit 3"),
            program(folder.path(), "endless", "exec yes"),
            program(folder.path(), "secretive", "echo \"[$ASTRA_TOKEN]\""),
            "/nowhere/agx-none".to_owned(),
        ];
        let units = describe_all(names).await;
        let said: Vec<Option<&str>> =
            units.iter().map(|unit| unit.description.as_deref().map(RawValue::get)).collect();
        let expected = [
            Some(r#"{"does": "reads pictures"}"#),
            Some(r#""counts --describe""#),
            None,
            None,
            None,
            Some("[]"),
            None,
        ];
        assert_eq!(said, expected);
    }

    fn program(folder: &Path, name: &str, script: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("set");
        path.to_string_lossy().into_owned()
    }
}
