//! What is known of workers that speak the Redis protocol: the door and the task of the shard share
//! it. It decides nothing.
//!
//! Reading order: the workers of one tenant, one of them and the jobs that it holds, what a worker
//! says that it can do.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use model::{LeaseId, Offer, TagKey, TagValue, TaskId, Timestamp, ToolName, TypeName, WorkerId};
use parking_lot::Mutex;
use protocol::plan::{PLAN, PLAN_STEP};
use protocol::rest::actions::JobTags;
use serde::Deserialize;
use serde_json::value::RawValue;
use shard::sessions::{DEAD_AFTER, Registration};
use tokio::sync::watch;

use crate::plans::job::{self, FREE_JOB};
use crate::wire_words::payload::{describe, is_object};

/// The workers of one tenant that speak the Redis protocol, by name. The shard bounds them: it is
/// told of each new name, and tells which ones are forgotten.
#[derive(Default)]
pub(crate) struct WorkerRegistry {
    workers: Mutex<BTreeMap<WorkerId, RespWorker>>,
    is_loaded: watch::Sender<bool>,
}

impl WorkerRegistry {
    /// The shard was restored: all else that was known is gone with the former one.
    pub(crate) fn restore<'a>(
        &self,
        registered: impl Iterator<Item = (&'a WorkerId, &'a Arc<Registration>)>,
    ) {
        let restored = registered.map(|(worker, own)| {
            // What was taken in once can be read; a worker that cannot offers nothing of its own.
            let abilities = abilities(worker, own.metadata.get()).unwrap_or_default();
            let registration = Some(Arc::clone(own));
            (worker.clone(), RespWorker { registration, abilities, ..RespWorker::default() })
        });
        *self.workers.lock() = restored.collect();
        self.is_loaded.send_replace(true);
    }

    /// Waits until it is known who is registered.
    pub(crate) async fn until_loaded(&self) {
        let mut is_loaded = self.is_loaded.subscribe();
        is_loaded.wait_for(|is_loaded| *is_loaded).await.expect("the sender lives with self");
    }

    /// Workers registered, or were forgotten.
    pub(crate) fn apply(&self, members: Vec<(WorkerId, Option<Arc<Registration>>)>) {
        let mut workers = self.workers.lock();
        for (worker, registration) in members {
            match registration {
                Some(own) => workers.entry(worker).or_default().registration = Some(own),
                None => {
                    workers.remove(&worker);
                }
            }
        }
    }

    /// Looks at a worker, and says whether it was unknown before.
    pub(crate) fn with<T>(
        &self,
        worker: &WorkerId,
        look: impl FnOnce(&mut RespWorker) -> T,
    ) -> (T, bool) {
        let mut workers = self.workers.lock();
        if let Some(known) = workers.get_mut(worker) {
            return (look(known), false);
        }
        (look(workers.entry(worker.clone()).or_default()), true)
    }

    /// Looks at a worker that is known.
    pub(crate) fn known<T>(
        &self,
        worker: &WorkerId,
        look: impl FnOnce(&mut RespWorker) -> T,
    ) -> Option<T> {
        self.workers.lock().get_mut(worker).map(look)
    }

    /// Walks over the workers, by name.
    pub(crate) fn each(&self, mut look: impl FnMut(&WorkerId, &RespWorker)) {
        self.workers.lock().iter().for_each(|(worker, known)| look(worker, known));
    }

    /// Whether another credential registered a worker that lives.
    pub(crate) fn is_anothers(&self, worker: &WorkerId, credential: &str, now: Timestamp) -> bool {
        let is_anothers = self.known(worker, |known| {
            known.registration.as_ref().is_some_and(|own| own.credential != credential)
                && known.is_alive(now)
        });
        is_anothers == Some(true)
    }

    /// The lease that a job of this worker is held by, as far as it is remembered.
    pub(crate) fn held(&self, worker: &WorkerId, job: &str) -> Option<HeldJob> {
        self.known(worker, |known| known.held(job).cloned()).flatten()
    }

    /// What a worker said of itself.
    pub(crate) fn metadata(&self, worker: &WorkerId) -> Option<Bytes> {
        let text = |own: &Arc<Registration>| Bytes::copy_from_slice(own.metadata.get().as_bytes());
        self.known(worker, |known| known.registration.as_ref().map(text)).flatten()
    }
}

/// How often a worker should be heard of.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);
/// How long its last numbers are shown (seed 004 section 3.4).
const STATS_SHOWN_FOR: Duration = Duration::from_mins(2);
/// Limit: jobs of a Redis worker whose leases are found without the store.
const HELD_REMEMBERED_MAX: usize = 100_000;

/// What a worker said that it can do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) offer: Offer,
    /// Jobs at the same time.
    pub(crate) slots: Option<u32>,
    /// Whether it understands `quiet` and `terminate`.
    pub(crate) wants_signals: bool,
}

/// A job that a worker was given.
#[derive(Clone, Debug)]
pub(crate) struct HeldJob {
    pub(crate) lease: LeaseId,
    pub(crate) attempt: u32,
    /// How often the worker may fail at it.
    pub(crate) retries: u32,
    /// What `SET job:<id>:stdout` and `:stderr` said so far.
    pub(crate) outputs: BTreeMap<&'static str, Bytes>,
}

/// What the door remembers of one worker.
#[derive(Debug, Default)]
pub(crate) struct RespWorker {
    pub(crate) registration: Option<Arc<Registration>>,
    pub(crate) abilities: Abilities,
    pub(crate) last_seen: Timestamp,
    /// How many connections are bound to it.
    pub(crate) connections: usize,
    pub(crate) stats: Option<(Bytes, Timestamp)>,
    /// What `SET worker:<id>:tools` and `:tags` said.
    pub(crate) texts: BTreeMap<&'static str, Bytes>,
    /// Jobs that went over their time since it registered: someone should look at it (seed 004
    /// section 5.2).
    pub(crate) timed_out: u32,
    /// Each with its name, the oldest first.
    held: BTreeMap<TaskId, (HeldJob, Option<String>)>,
    names: HashMap<String, TaskId, RandomState>,
}

impl RespWorker {
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        now.since(self.last_seen) < DEAD_AFTER
    }

    /// When it was there for certain: after a restart its registration is all that is known.
    pub(crate) fn last_known(&self) -> Timestamp {
        let registered = self.registration.as_ref().map_or(0, |own| own.registered_ms);
        self.last_seen.max(Timestamp::from_millis(registered))
    }

    /// Seconds until silence makes it dead.
    pub(crate) fn alive_for(&self, now: Timestamp) -> Option<Duration> {
        DEAD_AFTER.checked_sub(now.since(self.last_seen)).filter(|left| !left.is_zero())
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Option<(Bytes, Duration)> {
        let (stats, at) = self.stats.as_ref()?;
        let left = STATS_SHOWN_FOR.checked_sub(now.since(*at)).filter(|left| !left.is_zero())?;
        Some((stats.clone(), left))
    }

    /// The worker was given a job.
    pub(crate) fn hold(&mut self, job: HeldJob, name: Option<&str>) {
        let task = job.lease.task;
        if let Some(name) = name {
            self.names.insert(name.to_owned(), task);
        }
        self.held.insert(task, (job, name.map(str::to_owned)));
        while self.held.len() > HELD_REMEMBERED_MAX
            && let Some((oldest, _)) = self.held.first_key_value()
        {
            self.let_go(*oldest);
        }
    }

    /// The job is no longer the worker's.
    pub(crate) fn let_go(&mut self, task: TaskId) {
        if let Some((_, Some(name))) = self.held.remove(&task)
            && self.names.get(&name) == Some(&task)
        {
            self.names.remove(&name);
        }
    }

    pub(crate) fn held_mut(&mut self, job: &str) -> Option<&mut HeldJob> {
        let task = self.task_named(job)?;
        self.held.get_mut(&task).map(|(held, _)| held)
    }

    pub(crate) fn held(&self, job: &str) -> Option<&HeldJob> {
        self.held.get(&self.task_named(job)?).map(|(held, _)| held)
    }

    fn task_named(&self, job: &str) -> Option<TaskId> {
        self.names.get(job).copied().or_else(|| job.parse().ok())
    }
}

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
    tags: JobTags,
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
    let mut tags = job::tags(register.tags).map_err(|problem| problem.to_string())?;
    tags.extend([own_tag(worker)]);
    let slots = register.max_concurrent_jobs.unwrap_or(1);
    Ok(Abilities {
        offer: Offer { tools, tags, types: Some(job_types()), ..Offer::default() },
        slots: Some(u32::try_from(slots).expect("at most SLOTS_MAX")),
        wants_signals: register.signals,
    })
}

/// A worker that never registered is offered everything.
pub(crate) fn unregistered(worker: &WorkerId) -> Abilities {
    let tags = [own_tag(worker)].into();
    let offer = Offer { all_tools: true, tags, types: Some(job_types()), ..Offer::default() };
    Abilities { offer, slots: None, wants_signals: false }
}

/// The tag by which a job is meant for this worker.
pub(crate) fn own_tag(worker: &WorkerId) -> (TagKey, TagValue) {
    let value = worker.as_str().parse().expect("a worker's name is short and printable");
    (WORKER_TAG.parse().expect("a name"), value)
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
