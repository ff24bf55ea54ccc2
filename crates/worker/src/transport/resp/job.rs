//! A job as servers give it: what it is called, who may report it, and the plan in it.
//!
//! Servers use different words. A job is a plan (`tasks`, or `plan` with `tasks`), a single command
//! (`command`, `args`), or the name of a plan that has to be asked for (`plan_id`).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use protocol::plan::check::ID_CHARS_MAX;
use protocol::plan::{PLAN, PlanJob, PlanTask};
use protocol::resp::reply::Reply;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::connection::{Request, request};
use super::reconnecting::{Reconnecting, Unanswered};
use crate::core::executor::Assignment;

/// The name of a plan that has none of its own.
const UNNAMED: &str = "job";

/// What gives the right to report a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A lease, if the server names it; else that it was given to us.
    Leased(Option<String>),
    /// That it stands in the list of what is worked on.
    Listed {
        /// What was popped, for it is removed by value.
        value: Bytes,
        /// Where it was popped from.
        queue: String,
    },
}

/// A job that was popped.
#[derive(Debug)]
pub(super) struct Job {
    /// What the server calls it.
    pub(super) id: String,
    pub(super) claim: Claim,
    /// Which attempt, from 1.
    pub(super) attempt: u32,
    /// So often a failure is worth another attempt.
    pub(super) max_retries: u32,
    /// How long all of it may take.
    pub(super) time: Option<Duration>,
    /// What to execute, or why that is impossible.
    pub(super) plan: Result<PlanJob, String>,
}

/// A job as far as its own JSON says it.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) lease_id: Option<String>,
    attempt: u32,
    words: Result<Words, String>,
}

/// What is to be executed.
#[derive(Debug, Deserialize)]
struct Words {
    plan_id: Option<String>,
    tasks: Option<Vec<PlanTask>>,
    plan: Option<Box<RawValue>>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    input: Option<Box<RawValue>>,
    inputs: Option<Box<RawValue>>,
    timeout_secs: Option<u32>,
    max_retries: Option<u32>,
}

/// A plan, inside a job or by itself.
#[derive(Debug, Deserialize)]
struct InnerPlan {
    plan_id: Option<String>,
    tasks: Vec<PlanTask>,
}

impl Draft {
    /// Reads the JSON of a job. `name` is what it was popped by, if that is its name. `None` if it
    /// cannot even be told which job it is.
    pub(super) fn read(json: &[u8], name: Option<&str>) -> Option<Self> {
        let fields: Map<String, Value> = serde_json::from_slice(json).unwrap_or_default();
        let text = |field: &str| match fields.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(_) | None => None,
        };
        let own = || ["job_id", "id", "task_id"].iter().find_map(|field| text(field));
        let id = name.map(str::to_owned).or_else(own)?;
        let attempt = fields.get("attempt").and_then(Value::as_u64);
        let words = serde_json::from_slice(json).map_err(|error| error.to_string());
        Some(Self {
            id,
            lease_id: text("lease_id"),
            attempt: attempt.and_then(|attempt| attempt.try_into().ok()).unwrap_or(1),
            words,
        })
    }

    /// The plan that has to be asked for before anything can be executed.
    pub(super) fn missing_plan(&self) -> Option<&str> {
        let words = self.words.as_ref().ok()?;
        let has_own = words.tasks.is_some() || words.inner().is_some() || words.command.is_some();
        if has_own { None } else { words.plan_id.as_deref() }
    }

    /// The job, with the plan that was asked for, or why there is none.
    pub(super) fn finish(self, claim: Claim, asked: Option<Result<Bytes, String>>) -> Job {
        let Self { id, attempt, words, lease_id: _ } = self;
        let (max_retries, time) = match &words {
            Ok(words) => (words.max_retries, words.timeout_secs),
            Err(_) => (None, None),
        };
        let plan = words
            .map_err(|error| format!("the job cannot be read: {error}"))
            .and_then(|words| words.plan(asked));
        Job {
            id,
            claim,
            attempt,
            max_retries: max_retries.unwrap_or_default(),
            time: time.filter(|seconds| *seconds > 0).map(|s| Duration::from_secs(s.into())),
            plan,
        }
    }
}

impl Words {
    fn inner(&self) -> Option<InnerPlan> {
        serde_json::from_str(self.plan.as_ref()?.get()).ok()
    }

    fn plan(self, asked: Option<Result<Bytes, String>>) -> Result<PlanJob, String> {
        let asked = asked.transpose()?.map(|json| {
            let read: Result<InnerPlan, _> = serde_json::from_slice(&json);
            read.map_err(|error| format!("the plan of the job cannot be read: {error}"))
        });
        let (inner, asked) = (self.inner(), asked.transpose()?);
        let input = self.input.or_else(|| self.inputs.and_then(only_input));
        let named = [&inner, &asked].into_iter().flatten().find_map(|plan| plan.plan_id.clone());
        let plan_id = self.plan_id.or(named).filter(|id| is_id(id));
        let own = self.tasks.or_else(|| inner.or(asked).map(|plan| plan.tasks));
        let tasks = match (own, self.command) {
            (Some(tasks), _) => tasks,
            (None, Some(command)) => vec![PlanTask {
                task_number: 1,
                command,
                args: self.args.unwrap_or_default(),
                timeout_secs: self.timeout_secs.filter(|seconds| *seconds > 0),
                input_from_task: None,
            }],
            (None, None) => {
                return Err("the job has neither tasks nor a command, so there is nothing that \
                            this worker could execute"
                    .into());
            }
        };
        Ok(PlanJob {
            job_id: None,
            action_id: None,
            plan_id: plan_id.unwrap_or_else(|| UNNAMED.into()),
            plan_description: None,
            tasks,
            input: input.filter(|input| input.get() != "null"),
            input_index: None,
            env: self.env.unwrap_or_default(),
            max_retries: self.max_retries.unwrap_or_default(),
        })
    }
}

/// Names of other servers may be longer; they mean nothing to who executes the plan.
fn is_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=ID_CHARS_MAX).contains(&id.len()) && id.chars().all(is_plain)
}

/// Seed 004 section 4.1 calls it `inputs`; a list of one is that one.
fn only_input(inputs: Box<RawValue>) -> Option<Box<RawValue>> {
    match serde_json::from_str::<Vec<Box<RawValue>>>(inputs.get()) {
        Ok(mut all) if all.len() <= 1 => all.pop(),
        Ok(_) | Err(_) => Some(inputs),
    }
}

impl Job {
    /// How many steps it has.
    pub(super) fn n_tasks(&self) -> usize {
        self.plan.as_ref().map_or(1, |plan| plan.tasks.len())
    }

    /// What the executor is given.
    pub(super) fn assignment(&self) -> Result<Assignment, String> {
        let plan = self.plan.as_ref().map_err(Clone::clone)?;
        let lease_id = match &self.claim {
            Claim::Leased(Some(lease_id)) => lease_id,
            Claim::Leased(None) | Claim::Listed { .. } => &self.id,
        };
        Ok(Assignment {
            lease_id: lease_id.clone(),
            task_id: self.id.clone(),
            attempt: self.attempt,
            task_type: PLAN.into(),
            parameters: to_raw_value(plan).expect("plain values become JSON"),
        })
    }
}

/// The JSON of a job; the sentence says where it was looked for.
pub(super) async fn find_job(
    line: &Reconnecting,
    id: &str,
) -> Result<Result<Bytes, String>, Unanswered> {
    let key = format!("job:{id}");
    let places = [request(&["JOB.GET", id]), request(&["GET", &key]), request(&["HGETALL", &key])];
    first(line, places, "job", id).await
}

/// The JSON of a plan.
pub(super) async fn find_plan(
    line: &Reconnecting,
    id: &str,
) -> Result<Result<Bytes, String>, Unanswered> {
    let key = format!("plan:{id}");
    let places =
        [request(&["PLAN.GET", id]), request(&["GET", &key]), request(&["HGET", &key, "json"])];
    first(line, places, "plan", id).await
}

async fn first(
    line: &Reconnecting,
    places: [Request; 3],
    what: &str,
    id: &str,
) -> Result<Result<Bytes, String>, Unanswered> {
    let mut said = Vec::new();
    for place in places {
        let name = String::from_utf8_lossy(&place[0]).into_owned();
        // A lost connection says nothing about the place.
        let reply = loop {
            match line.ask(place.clone()).await {
                Ok(reply) => break reply,
                Err(Unanswered::Lost) => {}
                Err(closed @ Unanswered::Closed) => return Err(closed),
            }
        };
        match document(&reply) {
            Some(json) => return Ok(Ok(json)),
            None => said.push(format!("{name}: {}", short(&reply))),
        }
    }
    Ok(Err(format!("the server does not have the {what} {id} ({})", said.join("; "))))
}

/// A reply that holds a document: as it is, or field by field.
fn document(reply: &Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes.clone()),
        Reply::Array(items) if !items.is_empty() => {
            let text = |reply: &Reply| match reply {
                Reply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).ok(),
                _ => None,
            };
            let pairs = items.as_chunks::<2>().0.iter();
            let fields = pairs.map(|[name, value]| {
                let (name, value) = (text(name)?, text(value)?);
                let value = field(&name, value);
                Some((name, value))
            });
            let fields: Option<Map<String, Value>> = fields.collect();
            Some(Value::Object(fields?).to_string().into())
        }
        _ => None,
    }
}

/// The input is JSON inside a field of text; everything else is text.
fn field(name: &str, text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value) if name == "input" => value,
        Ok(_) | Err(_) => Value::String(text),
    }
}

fn short(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.to_string(),
        Reply::Null | Reply::NullArray => "nothing".into(),
        Reply::Array(items) if items.is_empty() => "nothing".into(),
        _ => "something else".into(),
    }
}

#[cfg(test)]
mod tests;
