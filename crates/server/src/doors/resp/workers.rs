//! `WORKER.*`, and what counts as such: `PING <worker_id>`, `SET worker:<id>:tools`; then
//! `WORKER.VERIFY` and `CAPABILITY.SEARCH`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    DrainOrder, Refusal, Renewal, SilenceLimits, TaskState, WorkerHealth, WorkerView,
};
use model::{InvalidText, Offer, TagValue, Timestamp, WorkerId};
use protocol::plan::PlanResult;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shard::sessions::{MemberMessage, Registration};

use super::answers::{Answered, RespError, comma_list, json_bulk, seconds, worker_id_in};
use super::client::Binding;
use super::connection::Connection;
use super::jobs::{arity, text_at, text_of};
use crate::handle::{AskError, WorkerRegistration};
use crate::plans::job::OrderDesk;
use crate::resp_workers::HEARTBEAT_EVERY;
use crate::resp_workers::{self, WORKER_TAG, abilities, unregistered};
use crate::wire_words::payload::PARAMETERS_BYTES_MAX;

/// Limit: the numbers of a heartbeat.
const STATS_BYTES_MAX: usize = 16 * 1024;

/// Limit: tools that `WORKERS.LIST` names of one worker.
const TOOLS_LISTED_MAX: usize = 100;

/// A tool or a tag in a list that older workers set.
const LISTED_NAME_CHARS_MAX: usize = 64;

const NAME_TAKEN: RespError = RespError(Cow::Borrowed("ERR Worker ID already registered"));

fn not_registered(worker: &WorkerId) -> RespError {
    format!("Worker not registered: {worker}").into()
}

fn member_error(error: AskError) -> RespError {
    match error {
        AskError::Refused(Refusal::WorkerNameTaken) => NAME_TAKEN,
        other => other.into(),
    }
}

impl Connection {
    /// A key that is bound to a worker speaks for that one alone; and nobody speaks for a worker
    /// that another key registered, while it lives.
    pub(super) fn check_speaks_for(&self, worker: &WorkerId) -> Answered<()> {
        let member = self.member();
        if !member.may_be(worker) {
            let text = format!("NOPERM this key does not speak for worker {worker}");
            return Err(RespError::new(text));
        }
        let now = self.app.clock.now();
        if member.workers().is_anothers(worker, &member.credential, now) {
            return Err(NAME_TAKEN);
        }
        Ok(())
    }

    pub(super) async fn on_worker_register(&mut self, request: &Request) -> Answered {
        let json = &request.arguments[1];
        if json.len() > PARAMETERS_BYTES_MAX {
            return Err(RespError::new("ERR the registration is too long"));
        }
        let read = resp_workers::register(json)?;
        let worker = worker_id_in(&read.worker_id)?;
        read.check_version()?;
        let text = text_of(json)?;
        let known = abilities(&worker, text)?;
        self.check_speaks_for(&worker)?;
        let (member, now) = (self.member(), self.app.clock.now());
        let credential = member.credential.clone();
        let metadata = RawValue::from_string(text.to_owned())
            .map_err(|error| format!("Invalid worker JSON: {error}"))?;
        let registered_ms = now.as_millis();
        let own = Arc::new(Registration { credential, metadata, registered_ms });
        let register = MemberMessage::Register(Arc::clone(&own));
        self.tell_registered(&worker, register, Arc::new(known.offer.clone())).await?;
        member.workers().known(&worker, |worker| {
            worker.timed_out = 0;
            // Another connection may have registered it again meanwhile.
            if worker.registration.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, &own)) {
                worker.abilities = known;
                worker.last_seen = now;
            }
        });
        self.bind(Binding::Registered(worker.clone()));
        let seconds = HEARTBEAT_EVERY.as_secs();
        Ok(Reply::simple(format!("OK worker_id={worker} heartbeat_interval={seconds}")))
    }

    /// The shard learns who is there, and whether its process is a new one.
    async fn tell_registered(
        &self,
        worker: &WorkerId,
        message: MemberMessage,
        offer: Arc<Offer>,
    ) -> Answered<()> {
        let anew = matches!(message, MemberMessage::Register(_));
        let (worker, silence_limits) = (worker.clone(), SilenceLimits::SLOW);
        let own = WorkerRegistration { worker, offer, silence_limits, anew };
        self.member().handle.register(own, Some(message)).await.map_err(member_error)
    }

    pub(super) async fn on_worker_heartbeat(&mut self, request: &Request) -> Answered {
        let stats = match &request.arguments[2..] {
            [] => None,
            [stats] => Some(stats),
            _ => return Err(arity(request)),
        };
        let worker = worker_id_in(text_at(request, 1)?)?;
        self.check_speaks_for(&worker)?;
        let n_active = stats.map_or(Ok(0), read_stats)?;
        let now = self.app.clock.now();
        let wants_signals = self.member().workers().known(&worker, |known| {
            known.registration.as_ref()?;
            known.last_seen = now;
            if let Some(stats) = stats {
                known.stats = Some((Bytes::copy_from_slice(stats), now));
            }
            Some(known.abilities.wants_signals)
        });
        let Some(wants_signals) = wants_signals.flatten() else {
            return Err(not_registered(&worker));
        };
        if !self.member().is_bound() {
            self.bind(Binding::Registered(worker.clone()));
        }
        let drain = self.beat(&worker, n_active).await?.filter(|_| wants_signals);
        Ok(match drain {
            None => Reply::ok(),
            Some(DrainOrder::Finish) => Reply::simple("OK quiet"),
            Some(DrainOrder::Leave) => Reply::simple("OK terminate"),
        })
    }

    /// A sign of life renews what the worker implies that it works on. Gives what a person's drain
    /// asks of it.
    async fn beat(&self, worker: &WorkerId, n_active: usize) -> Answered<Option<DrainOrder>> {
        let (worker, leases) = (worker.clone(), Renewal::Unlisted { n_active });
        Ok(self.member().handle.heartbeat(worker, leases).await?.drain)
    }

    pub(super) async fn on_worker_unregister(&mut self, request: &Request) -> Answered {
        let worker = worker_id_in(text_at(request, 1)?)?;
        self.check_speaks_for(&worker)?;
        if self.member().workers().known(&worker, |_| ()).is_none() {
            return Err(not_registered(&worker));
        }
        if self.member().worker() == worker {
            self.unbind();
        }
        let member = self.member();
        let leave = MemberMessage::Leave { credential: member.credential.clone() };
        let left = member.handle.unregister(worker, leave).await;
        left.map(|()| Reply::ok()).map_err(member_error)
    }

    /// Every worker, by whichever door it works, as the coordinator sees it.
    pub(super) async fn worker_views(&self) -> Answered<Vec<WorkerView>> {
        Ok(self.member().handle.list_workers().await?)
    }

    /// `WORKERS.LIST`: newest sign of life first. Those that registered here and were silent for
    /// so long that the coordinator forgot them are shown as dead.
    pub(super) async fn on_workers_list(&mut self) -> Answered {
        let views = self.worker_views().await?;
        let now = self.app.clock.now();
        // Each with its last sign of life, and the tools that were verified.
        let mut lines: BTreeMap<WorkerId, (Timestamp, Value, Value)> = BTreeMap::new();
        for view in &views {
            let is_dead = view.health == WorkerHealth::Lost;
            let line = json!({
                "worker_id": view.worker.as_str(),
                "last_seen": seconds(view.last_seen),
                "status": if is_dead { "dead" } else { "active" },
                "tools": tool_names(&view.offer),
                "tools_total": view.offer.tools.len(),
                "active_jobs": view.in_flight,
                "registered": false,
            });
            lines.insert(view.worker.clone(), (view.last_seen, verified_tools(view), line));
        }
        self.member().workers().each(|worker, member| {
            let (_, verified, line) = lines.entry(worker.clone()).or_insert_with(|| {
                let line = json!({
                    "worker_id": worker.as_str(),
                    "last_seen": seconds(member.last_known()),
                    "tools": tool_names(&member.abilities.offer),
                    "tools_total": member.abilities.offer.tools.len(),
                    "active_jobs": 0,
                });
                (member.last_seen, json!({}), line)
            });
            line["status"] = if member.is_alive(now) { "active" } else { "dead" }.into();
            line["registered"] = member.registration.is_some().into();
            line["max_concurrent_jobs"] = json!(member.abilities.slots);
            line["verified_tools"] = verified.take();
            line["timed_out_jobs"] = member.timed_out.into();
        });
        let mut lines: Vec<_> = lines.into_values().collect();
        lines.sort_by_key(|(last_seen, ..)| std::cmp::Reverse(*last_seen));
        Ok(Reply::Array(lines.into_iter().map(|(.., line)| json_bulk(line)).collect()))
    }

    // ----- workers that know neither

    /// `PING <worker_id>` counts as a heartbeat. Text that cannot be a worker's name is
    /// an echo, as in Redis.
    pub(super) async fn on_ping(&mut self, request: &Request) -> Answered {
        let pong = Reply::simple("PONG");
        match &request.arguments[1..] {
            [] if self.subscriptions.is_empty() => Ok(pong),
            [] => Ok(Reply::array(["pong", ""])),
            [echo] => {
                let worker = std::str::from_utf8(echo).ok().and_then(|name| name.parse().ok());
                if let Some(worker) = worker
                    && self.is_worker_name(&worker)
                {
                    self.on_ping_of(&worker).await?;
                }
                Ok(Reply::Bulk(echo.clone()))
            }
            _ => Err(arity(request)),
        }
    }

    /// Whether a ping with this text is a worker's: the connection is its, or nobody's yet, and it
    /// may speak for it. Whoever may not only hears an echo, and keeps nobody's leases alive.
    fn is_worker_name(&self, worker: &WorkerId) -> bool {
        let member = self.member();
        let is_own = !member.is_bound() || member.worker() == *worker;
        is_own && self.check_speaks_for(worker).is_ok()
    }

    async fn on_ping_of(&mut self, worker: &WorkerId) -> Answered<()> {
        let now = self.app.clock.now();
        self.return_unproven();
        if self.member().workers().known(worker, |_| ()).is_none() {
            let offer = Arc::new(unregistered(worker).offer);
            match self.tell_registered(worker, self.greet(), offer).await {
                // The name is a worker's of another door: this is an echo.
                Err(taken) if taken == NAME_TAKEN => return Ok(()),
                told => told?,
            }
        }
        if !self.member().is_bound() {
            self.bind(Binding::Single(worker.clone()));
        }
        self.member().with_worker(worker, |known| {
            known.last_seen = now;
            if known.abilities.offer.types.is_none() {
                known.abilities = unregistered(worker);
            }
        });
        self.beat(worker, 0).await.map(|_| ())
    }

    fn greet(&self) -> MemberMessage {
        MemberMessage::Greet { credential: self.member().credential.clone() }
    }

    /// `SET worker:<id>:tools a,b` and `SET worker:<id>:tags cpu`.
    pub(super) async fn on_set_worker(
        &mut self,
        worker: &str,
        field: &'static str,
        value: &Bytes,
    ) -> Answered {
        let worker = worker_id_in(worker)?;
        self.check_speaks_for(&worker)?;
        let names = comma_list(value)?;
        let known = self.member().workers().known(&worker, |known| known.abilities.clone());
        let known = known.filter(|abilities| abilities.offer.types.is_some());
        let mut abilities = known.unwrap_or_else(|| unregistered(&worker));
        let offer = &mut abilities.offer;
        if let Some(long) = names.iter().find(|name| name.len() > LISTED_NAME_CHARS_MAX) {
            let text = format!("'{long}' is longer than {LISTED_NAME_CHARS_MAX} characters");
            return Err(text.into());
        }
        if field == "tools" {
            offer.all_tools = false;
            offer.tools =
                names.iter().map(|name| name.parse()).collect::<Result<_, InvalidText>>()?;
        } else {
            let value: TagValue = "true".parse().expect("short and printable");
            let tags = names.iter().map(|name| Ok((name.parse()?, value.clone())));
            offer.tags = tags.collect::<Result<_, InvalidText>>()?;
            offer.tags.extend([resp_workers::own_tag(&worker)]);
        }
        self.tell_registered(&worker, self.greet(), Arc::new(offer.clone())).await?;
        if !self.member().is_bound() {
            self.bind(Binding::Single(worker.clone()));
        }
        let now = self.app.clock.now();
        self.member().with_worker(&worker, |known| {
            known.last_seen = now;
            known.abilities = abilities;
            known.texts.insert(field, Bytes::copy_from_slice(value));
        });
        Ok(Reply::ok())
    }
}

/// A machine has thousands of programs; `CAPABILITY.SEARCH` finds the others.
fn tool_names(offer: &Offer) -> Vec<&str> {
    offer.tools.iter().map(model::ToolName::as_str).take(TOOLS_LISTED_MAX).collect()
}

/// What each verified tool said.
fn verified_tools(view: &WorkerView) -> Value {
    let said = view.verified.iter().map(|(tool, said)| (tool.to_string(), json!(said.output)));
    Value::Object(said.collect())
}

/// How many jobs the worker says it works on.
fn read_stats(stats: &Bytes) -> Answered<usize> {
    if stats.len() > STATS_BYTES_MAX {
        return Err(format!("stats has {} bytes; at most {STATS_BYTES_MAX}", stats.len()).into());
    }
    let read = serde_json::from_slice::<serde_json::Map<String, Value>>(stats)
        .map_err(|error| format!("stats is a JSON object: {error}"))?;
    let n_active = read.get("active_jobs").and_then(Value::as_u64).unwrap_or(0);
    Ok(usize::try_from(n_active).unwrap_or(usize::MAX))
}

/// How long a challenge may take.
const VERIFY_WITHIN: Duration = Duration::from_secs(30);
/// How much of the tool's words is told.
const OUTPUT_CHARS_MAX: usize = 200;

/// What is to be executed.
#[derive(Deserialize)]
struct Challenge {
    command: String,
    #[serde(default)]
    args: Vec<String>,
}

impl Connection {
    /// `WORKER.VERIFY tool json` asks any worker that claims the tool;
    /// `WORKER.VERIFY worker_id tool json` asks that one.
    pub(super) async fn on_worker_verify(&mut self, request: &Request) -> Answered {
        let (worker, tool, json) = match &request.arguments[1..] {
            [tool, json] => (None, text_of(tool)?, json),
            [worker, tool, json] => (Some(text_of(worker)?), text_of(tool)?, json),
            _ => return Err(arity(request)),
        };
        let challenge: Challenge = serde_json::from_slice(json).map_err(|error| {
            let like = r#"{"command":"jq","args":["--version"]}"#;
            format!("a challenge is a JSON object, like {like}: {error}")
        })?;
        let claimant = self.claimant(worker, tool)?;
        let job = json!({
            "command": challenge.command,
            "args": challenge.args,
            "tools": [tool],
            "tags": { WORKER_TAG: claimant.as_str() },
            "timeout_secs": VERIFY_WITHIN.as_secs(),
            "priority": model::PRIORITY_LIMIT,
        });
        let mut desk = OrderDesk::new(&self.app, &self.member().handle);
        let order = desk.read(&Bytes::from(job.to_string()), None).await;
        let task = order.map_err(|problem| problem.to_string())?.task;
        let output = self.challenge(task).await?;
        let (worker, tool) = (claimant.clone(), tool.parse()?);
        self.member().handle.note_verified(worker, tool, output.clone()).await?;
        Ok(Reply::simple(format!("OK worker_id={claimant} output=\"{output}\"")))
    }

    /// Who claims the tool.
    fn claimant(&self, worker: Option<&str>, tool: &str) -> Answered<WorkerId> {
        let now = self.app.clock.now();
        let mut found = None;
        self.member().workers().each(|name, member| {
            let is_meant = worker.is_none_or(|worker| worker == name.as_str());
            let claims = member.abilities.offer.tools.iter().any(|own| own.as_str() == tool);
            if is_meant && claims && member.is_alive(now) && found.is_none() {
                found = Some(name.clone());
            }
        });
        found.ok_or_else(|| format!("no active worker claims the tool {tool}").into())
    }

    /// Submits the challenge and waits for its end.
    async fn challenge(&self, task: model::NewTask) -> Answered<String> {
        let handle = self.member().handle.clone();
        let task = handle.submit(vec![task]).await?[0].task;
        let until = self.app.clock.now().after(VERIFY_WITHIN);
        match handle.watch(task, until).await {
            // Nobody can wait for it: it counts as late unless it is done already.
            Ok(_) | Err(AskError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let record = self.find_record(&task.to_string()).await?;
        let state = record.map(|record| record.progress.state);
        let Some(TaskState::Settled(settlement)) = state else {
            // Nobody wants to know any more.
            let _ = handle.stop(task).await;
            return Err(RespError::new("ERR the worker did not answer the challenge in time"));
        };
        if let Some(failure) = &settlement.failure {
            return Err(format!("the challenge failed: {}", failure.reason).into());
        }
        Ok(first_words(settlement.result.as_deref().unwrap_or_default()))
    }
}

/// What the tool said, in one line.
fn first_words(result: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Plain {
        #[serde(default)]
        stdout: String,
    }
    let steps = serde_json::from_slice::<PlanResult>(result);
    let text = match steps {
        Ok(PlanResult { task_results }) if !task_results.is_empty() => {
            task_results.into_iter().map(|step| step.stdout).collect()
        }
        _ => serde_json::from_slice::<Plain>(result).map(|plain| plain.stdout).unwrap_or_default(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control() && *c != '"').take(OUTPUT_CHARS_MAX).collect()
}

/// Limit: capabilities that one search gives, by name.
const FOUND_MAX: usize = 100;
/// Workers that are named with one capability.
const WORKERS_NAMED_MAX: usize = 100;

/// A tool or a unit that some worker has.
#[derive(Default, Serialize)]
struct Found {
    capability: String,
    workers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Box<RawValue>>,
}

impl Found {
    /// Whether every word stands in its name or in its description, in whichever case.
    fn has_all(&self, words: &[String]) -> bool {
        let description = self.description.as_ref().map_or("", |description| description.get());
        let text = format!("{}\n{description}", self.capability).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

impl Connection {
    pub(super) async fn on_capability_search(&self, request: &Request) -> Answered {
        let mut words = Vec::new();
        for argument in &request.arguments[1..] {
            words.extend(text_of(argument)?.split_whitespace().map(str::to_lowercase));
        }
        let mut known: BTreeMap<String, Found> = BTreeMap::new();
        for view in &self.worker_views().await? {
            if view.health != WorkerHealth::Lost {
                let metadata = self.member().workers().metadata(&view.worker);
                add(&mut known, view, metadata.as_ref());
            }
        }
        let found = known.into_values().filter(|one| one.has_all(&words)).take(FOUND_MAX);
        let json = |one: Found| serde_json::to_string(&one).expect("texts and JSON become JSON");
        Ok(Reply::array(found.map(json)))
    }
}

fn add(known: &mut BTreeMap<String, Found>, view: &WorkerView, metadata: Option<&Bytes>) {
    let register = metadata.and_then(|metadata| resp_workers::register(metadata).ok());
    for tool in &view.offer.tools {
        let entry = known.entry(tool.to_string()).or_default();
        entry.capability = tool.to_string();
        if entry.workers.len() < WORKERS_NAMED_MAX {
            entry.workers.push(view.worker.to_string());
        }
        let said = register.as_ref().and_then(|own| own.descriptions.get(tool.as_str()));
        if let (None, Some(said)) = (&entry.description, said) {
            entry.description = Some((*said).to_owned());
        }
    }
}
