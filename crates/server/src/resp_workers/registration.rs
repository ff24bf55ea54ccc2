//! What a worker says of itself when it registers, and what it can do by that.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::{Offer, TagKey, TagValue, ToolName, TypeName, WorkerId};
use protocol::plan::{PLAN, PLAN_STEP};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::resp_worker::Abilities;
use crate::plans::job::{FREE_JOB, Tags};
use crate::wire_words::json_path::{describe, is_object};

/// Every worker carries it, so that a job can be meant for one worker.
pub(crate) const WORKER_TAG: &str = "worker_id";
/// Tools, units or tags that one worker may list.
pub(crate) const ABILITIES_MAX: usize = 10_000;
/// Jobs of one worker at the same time.
const SLOTS_MAX: u64 = 4_096;
const TEXT_CHARS_MAX: usize = 256;

/// What `WORKER.REGISTER` takes (seed 004 section 2.2).
#[derive(Deserialize)]
pub(crate) struct Register<'a> {
    #[serde(borrow)]
    pub(crate) worker_id: Cow<'a, str>,
    #[serde(borrow)]
    hostname: Cow<'a, str>,
    #[serde(borrow, default)]
    platform: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "version")]
    agw_version: Cow<'a, str>,
    capabilities: Capabilities,
    #[serde(default)]
    max_concurrent_jobs: Option<u64>,
    #[serde(default)]
    tags: Tags,
    /// Whether heartbeats may be answered with `quiet` and `terminate`.
    #[serde(default)]
    signals: bool,
    /// What its units said when they were asked to describe themselves, by name (seed 004
    /// section 10).
    #[serde(borrow, default)]
    pub(crate) descriptions: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

/// `{"tools": [...], "agentic_units": [...]}`, or all in one list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Capabilities {
    Named {
        tools: Vec<String>,
        #[serde(default)]
        agentic_units: Vec<String>,
    },
    Flat(Vec<String>),
}

impl Register<'_> {
    /// Seed 004 section 2.2. Only what is new is checked: a registration that was taken in once
    /// stays.
    pub(crate) fn check_version(&self) -> Result<(), String> {
        let version = &self.agw_version;
        if is_semantic(version) {
            return Ok(());
        }
        Err(format!("agw_version '{version}' is no semantic version, such as 0.1.0"))
    }
}

/// Three numbers, then perhaps `-` and what it is before, then perhaps `+` and how it was built.
fn is_semantic(version: &str) -> bool {
    let (version, build) = split_mark(version, '+');
    let (numbers, early) = split_mark(version, '-');
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_number = |word: &str| {
        let is_padded = word.len() > 1 && word.starts_with('0');
        !word.is_empty() && !is_padded && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let are_words = |words: Option<&str>| words.is_none_or(|words| words.split('.').all(is_word));
    let n_numbers = numbers.split('.').filter(|word| is_number(word)).count();
    n_numbers == 3 && numbers.split('.').count() == 3 && are_words(early) && are_words(build)
}

fn split_mark(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// Reads a registration; the sentence says what is wrong.
pub(crate) fn register(json: &[u8]) -> Result<Register<'_>, String> {
    if !is_object(json) {
        return Err("Invalid worker JSON: a worker is an object".to_owned());
    }
    let register: Register<'_> = serde_json::from_slice(json).map_err(|error| {
        let text = error.to_string();
        if error.is_data() && !text.contains("Capabilities") {
            return format!("Invalid worker JSON: {}", describe(json, &error));
        }
        if text.contains("untagged enum Capabilities") {
            return "Invalid capabilities format: use {\"tools\":[\"sort\"],\"agentic_units\":[]} \
                    or [\"sort\"]"
                .to_owned();
        }
        format!("Invalid worker JSON: {text}")
    })?;
    let texts = [
        ("hostname", register.hostname.as_ref()),
        ("agw_version", register.agw_version.as_ref()),
        ("platform", register.platform.as_deref().unwrap_or("-")),
    ];
    for (field, text) in texts {
        let length = text.chars().count();
        if length == 0 || length > TEXT_CHARS_MAX || text.chars().any(char::is_control) {
            let rule =
                format!("must be 1 to {TEXT_CHARS_MAX} characters without control characters");
            return Err(format!("{field} {rule}"));
        }
    }
    if let Some(jobs) = register.max_concurrent_jobs
        && !(1..=SLOTS_MAX).contains(&jobs)
    {
        return Err(format!("max_concurrent_jobs must be 1 to {SLOTS_MAX}"));
    }
    Ok(register)
}

/// What a registered worker can do.
pub(crate) fn abilities(worker: &WorkerId, json: &str) -> Result<Abilities, String> {
    let register = register(json.as_bytes())?;
    let names = match register.capabilities {
        Capabilities::Named { mut tools, agentic_units } => {
            tools.extend(agentic_units);
            tools
        }
        Capabilities::Flat(names) => names,
    };
    if names.len() > ABILITIES_MAX {
        return Err(format!("capabilities lists {} names; at most {ABILITIES_MAX}", names.len()));
    }
    let tools: Result<BTreeSet<ToolName>, _> = names.iter().map(|name| name.parse()).collect();
    let tools = tools.map_err(|error| format!("Invalid capabilities format: {error}"))?;
    let mut tags = register.tags.read().map_err(|problem| problem.to_string())?;
    tags.insert(worker_tag(), worker_tag_value(worker));
    let slots = register.max_concurrent_jobs.unwrap_or(1);
    Ok(Abilities {
        offer: Offer { tools, tags, types: Some(job_types()), ..Offer::default() },
        slots: Some(u32::try_from(slots).expect("at most SLOTS_MAX")),
        wants_signals: register.signals,
    })
}

/// A worker that never registered is offered everything.
pub(crate) fn unregistered(worker: &WorkerId) -> Abilities {
    let tags = [(worker_tag(), worker_tag_value(worker))].into();
    let offer = Offer { all_tools: true, tags, types: Some(job_types()), ..Offer::default() };
    Abilities { offer, slots: None, wants_signals: false }
}

pub(crate) fn worker_tag() -> TagKey {
    WORKER_TAG.parse().expect("a name")
}

pub(crate) fn worker_tag_value(worker: &WorkerId) -> TagValue {
    worker.as_str().parse().expect("a worker's name is short and printable")
}

/// The types of tasks that are jobs.
pub(crate) fn job_types() -> BTreeSet<TypeName> {
    [PLAN, PLAN_STEP, FREE_JOB].into_iter().map(type_name).collect()
}

pub(crate) fn type_name(name: &str) -> TypeName {
    name.parse().expect("our own word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers_and_perhaps_more() {
        for version in ["0.1.0", "10.20.30", "1.2.3-rc.1", "1.0.0+build-5", "1.0.0-a+b"] {
            assert!(is_semantic(version), "{version}");
        }
        for version in ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.02.3", "1.2.x", "1.2.3-", "1.2.3+"]
        {
            assert!(!is_semantic(version), "{version}");
        }
    }
}
