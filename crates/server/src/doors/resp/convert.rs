//! Wire words to nouns: registrations, updates of jobs, names of queues.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::{Offer, QueueName, TagKey, TagValue, ToolName, TypeName, WorkerId};
use protocol::plan::{PLAN, PLAN_STEP};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::resp_worker::Abilities;
use crate::doors::http::json_path::{describe, is_object};
use crate::plans::job::{DEFAULT_QUEUE, FREE_JOB, READY_QUEUE, Tags};

/// What keys of queues begin with.
pub(super) const QUEUE_PREFIX: &[u8] = b"queue:";
/// Jobs that are held by workers, as a list.
pub(super) const PROCESSING: &str = "processing";
/// Jobs that wait for their moment, as a list.
pub(super) const SCHEDULED: &str = "scheduled";
/// Every worker carries it, so that a job can be meant for one worker.
pub(super) const WORKER_TAG: &str = "worker_id";
/// Tools, units or tags that one worker may list.
pub(super) const ABILITIES_MAX: usize = 10_000;
/// Jobs of one worker at the same time.
const SLOTS_MAX: u64 = 4_096;
const TEXT_CHARS_MAX: usize = 256;
/// A worker's name.
const WORKER_ID_CHARS_MAX: usize = 64;

/// What `WORKER.REGISTER` takes (seed 004 section 2.2).
#[derive(Deserialize)]
pub(super) struct Register<'a> {
    #[serde(borrow)]
    pub(super) worker_id: Cow<'a, str>,
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
    pub(super) descriptions: BTreeMap<Cow<'a, str>, &'a RawValue>,
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
    pub(super) fn check_version(&self) -> Result<(), String> {
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

/// A worker's name, or what is wrong with it in the words of seed 004 section 7.2.
pub(super) fn worker_id_in(text: &str) -> Result<WorkerId, String> {
    let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_';
    if text.contains(is_odd) {
        return Err("Invalid worker ID characters: worker_id takes A-Z a-z 0-9 - _".to_owned());
    }
    if text.len() > WORKER_ID_CHARS_MAX {
        return Err(format!(
            "Worker ID too long: worker_id takes {WORKER_ID_CHARS_MAX} characters"
        ));
    }
    text.parse().map_err(|error| format!("{error}"))
}

/// Reads a registration; the sentence says what is wrong.
pub(super) fn register(json: &[u8]) -> Result<Register<'_>, String> {
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
pub(super) fn abilities(worker: &WorkerId, json: &str) -> Result<Abilities, String> {
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
pub(super) fn unregistered(worker: &WorkerId) -> Abilities {
    let tags = [(worker_tag(), worker_tag_value(worker))].into();
    let offer = Offer { all_tools: true, tags, types: Some(job_types()), ..Offer::default() };
    Abilities { offer, slots: None, wants_signals: false }
}

pub(super) fn worker_tag() -> TagKey {
    WORKER_TAG.parse().expect("a name")
}

pub(super) fn worker_tag_value(worker: &WorkerId) -> TagValue {
    worker.as_str().parse().expect("a worker's name is short and printable")
}

/// The types of tasks that are jobs.
pub(super) fn job_types() -> BTreeSet<TypeName> {
    [PLAN, PLAN_STEP, FREE_JOB].into_iter().map(type_name).collect()
}

pub(super) fn type_name(name: &str) -> TypeName {
    name.parse().expect("our own word")
}

/// The name in `queue:<name>`.
pub(super) fn queue_in(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(QUEUE_PREFIX)?).ok()
}

/// The queues behind a list's name. `queue:ready` shows whole plans and single commands: a worker
/// of the one list takes both.
pub(super) fn queues_of(name: &str) -> Result<BTreeSet<QueueName>, String> {
    let names: &[&str] = if name == READY_QUEUE { &[READY_QUEUE, DEFAULT_QUEUE] } else { &[name] };
    names.iter().map(|name| name.parse().map_err(|error| format!("{error}"))).collect()
}

/// `a,b,c` as `SET worker:<id>:tools` has it.
pub(super) fn comma_list(text: &[u8]) -> Result<Vec<&str>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the list is not text".to_owned())?;
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if names.len() > ABILITIES_MAX {
        return Err(format!("the list has {} names; at most {ABILITIES_MAX}", names.len()));
    }
    Ok(names)
}

/// What `JOB.UPDATE` takes (seed 004 section 4.2); all else stays in the result.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) worker_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) lease_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) current_task: Option<u64>,
    #[serde(default)]
    pub(super) progress_percent: Option<f64>,
    #[serde(borrow, default)]
    pub(super) message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error_code: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) retryable: Option<bool>,
}

/// What an update says of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It runs, or says how far it is.
    Progress,
    Completed,
    Failed,
}

impl Update<'_> {
    pub(super) fn step(&self) -> Result<Step, String> {
        match self.status.as_deref() {
            None | Some("running" | "in_progress") => Ok(Step::Progress),
            Some("completed" | "success" | "succeeded") => Ok(Step::Completed),
            Some("failed" | "error") => Ok(Step::Failed),
            Some(other) => {
                let known = "running, completed or failed";
                Err(format!("status is '{other}'; a worker reports {known}"))
            }
        }
    }

    /// Why the job failed, in the worker's words.
    pub(super) fn reason(&self) -> String {
        match self.error {
            None => "the worker reported a failure without a reason".to_owned(),
            Some(raw) => match serde_json::from_str::<String>(raw.get()) {
                Ok(text) => text,
                Err(_) => raw.get().to_owned(),
            },
        }
    }
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

    #[test]
    fn names_of_workers_are_refused_in_the_words_of_the_seed() {
        check_name("worker-001_b", None);
        check_name("a b", Some("Invalid worker ID characters"));
        check_name("w\u{fc}", Some("Invalid worker ID characters"));
        check_name(&"x".repeat(64), None);
        check_name(&"x".repeat(65), Some("Worker ID too long"));
        check_name("", Some("worker_id must be"));
    }

    fn check_name(name: &str, refused: Option<&str>) {
        let said = worker_id_in(name).err();
        match (&said, refused) {
            (None, None) => {}
            (Some(said), Some(words)) => assert!(said.contains(words), "{name}: {said}"),
            _ => panic!("{name}: {said:?}"),
        }
    }
}
