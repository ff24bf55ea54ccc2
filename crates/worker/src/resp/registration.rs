//! What a worker says of itself: one JSON to servers that know workers, lists to those that only
//! know keys.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{ToolName, WorkerId};
use serde::Serialize;
use serde_json::value::RawValue;

use super::connection::{Request, request};
use super::units::Unit;
use crate::session::identity::hostname;

/// What a server that only knows keys takes as a list of tools.
const LISTED_TOOLS_MAX: usize = 100;
/// The longest name in such a list.
const LISTED_NAME_BYTES_MAX: usize = 64;
/// The tag of a worker that has no other.
const TAG_DEFAULT: &str = "cpu";
/// A label with this value is a tag of one word.
const TAG_ON: &str = "true";

/// Who a worker is and what it offers.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    pub(super) worker_id: WorkerId,
    pub(super) version: String,
    pub(super) tools: Vec<String>,
    pub(super) units: Vec<Unit>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) slots: usize,
}

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

impl Registration {
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
                tools: self.tools.iter().map(String::as_str).filter(is_told).collect(),
                agentic_units: self.units.iter().map(|unit| unit.name.as_str()).collect(),
            },
            max_concurrent_jobs: self.slots,
            tags: &self.tags,
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
        let tools: Vec<&str> = units.chain(self.tools.iter().map(String::as_str)).collect();
        let tools: Vec<&str> = listable(tools).take(LISTED_TOOLS_MAX).collect();
        if !tools.is_empty() {
            let key = format!("worker:{worker_id}:tools");
            requests.push(request(&["SET", &key, &tools.join(",")]));
        }
        let tags: Vec<String> = self.tags.iter().map(|(key, value)| tag(key, value)).collect();
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

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
        let registration = Registration { units: vec![ocr, shy], ..registration() };
        let json: Value = serde_json::from_slice(&registration.register()[1]).expect("JSON");
        let units = serde_json::json!(["agx-ocr", "agx-shy"]);
        assert_eq!(json["capabilities"]["agentic_units"], units);
        let said = serde_json::json!({ "agx-ocr": { "does": "reads pictures" } });
        assert_eq!(json["descriptions"], said);
        let tools = "SET worker:w-1:tools agx-ocr,agx-shy,sort";
        check(&registration, &format!("{tools}|SET worker:w-1:tags gpu,zone-a|PING w-1"));
    }

    #[test]
    fn lists_hold_only_what_fits_between_commas() {
        check(&registration(), "SET worker:w-1:tools sort|SET worker:w-1:tags gpu,zone-a|PING w-1");
        let bare = Registration { tools: Vec::new(), tags: BTreeMap::new(), ..registration() };
        check(&bare, "SET worker:w-1:tags cpu|PING w-1");
    }

    fn check(registration: &Registration, expected: &str) {
        let lists = registration.lists().into_iter();
        let lines = lists.map(|words| String::from_utf8(words.join(&b' ')).expect("text"));
        assert_eq!(lines.collect::<Vec<_>>().join("|"), expected);
    }

    fn registration() -> Registration {
        Registration {
            worker_id: "w-1".parse().expect("a name"),
            version: "1.2.3".into(),
            tools: vec!["sort".into(), "[".into(), "g++".into()],
            units: Vec::new(),
            tags: BTreeMap::from([("gpu".into(), "true".into()), ("zone".into(), "a".into())]),
            slots: 3,
        }
    }
}
