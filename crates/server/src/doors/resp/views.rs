//! Keys that are not kept but looked up: jobs, plans, workers, as seed 004 names them.

use std::time::Duration;

use bytes::Bytes;
use coordinator::{TaskRecord, TaskState};
use protocol::plan::{Plan, PlanJob};
use protocol::resp::reply::Reply;
use serde_json::{Map, Value, json};

use super::answers::{
    Answered, RespError, job_id, job_view, json_bulk, seconds, status_word, whole,
};
use super::connection::Connection;
use super::jobs::text_of;
use crate::plans::{action, kept};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// What stands behind such a key.
pub(super) enum View {
    /// A value, and how long it is there; `None` is for good.
    Text(Bytes, Option<Duration>),
    /// A document that some clients read as JSON and some field by field.
    Document(Value),
    Members(Vec<Bytes>),
}

impl View {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(..) => "string",
            Self::Document(_) => "hash",
            Self::Members(_) => "set",
        }
    }
}

impl Connection {
    /// Looks a key up.
    pub(super) async fn view(&self, key: &str) -> Answered<Option<View>> {
        if let Some(popped) = key.strip_prefix("job:").filter(|rest| rest.starts_with('{')) {
            // Older workers ask for the popped value itself.
            return self.job_document(&super::jobs::popped_name(popped)).await;
        }
        let parts: Vec<&str> = key.splitn(3, ':').collect();
        match parts[..] {
            ["job", job] => self.job_document(job).await,
            ["job", job, field] => {
                let record = self.find_record(job).await?;
                Ok(record.and_then(|record| self.job_field(&record, field)))
            }
            ["plan", plan_id] => Ok(self.plan_document(plan_id).await?.map(View::Document)),
            ["action", action_id] => self.action_view(action_id).await,
            ["action", action_id, "jobs"] => self.action_jobs(action_id).await,
            ["worker", worker] => Ok(self.worker_view(worker)),
            ["worker", worker, field] => Ok(self.worker_field(worker, field)),
            ["capability", tool, "workers"] => Ok(self.capable(tool)),
            ["plans", "all"] => {
                let plans = kept::plans(&self.member().handle).await?;
                let names = plans.iter().map(|(name, _)| bytes_of(name));
                Ok(members(names.collect()))
            }
            ["actions", "all"] => {
                let most = super::jobs::LISTED_JOBS_MAX as usize;
                let (actions, _) = kept::actions(&self.member().handle, 0, most).await?;
                Ok(members(actions.iter().map(|(name, _)| bytes_of(name)).collect()))
            }
            ["workers", "all"] => {
                let mut names = Vec::new();
                self.member().workers().each(|worker, _| {
                    names.push(bytes_of(worker.as_str()));
                });
                Ok(members(names))
            }
            _ => Ok(None),
        }
    }

    fn job_field(&self, record: &TaskRecord, field: &str) -> Option<View> {
        let now = self.app.clock.now();
        match (field, &record.progress.state) {
            ("worker", TaskState::Leased(lease)) => {
                // The claim lasts as long as the job may take (seed 004 section 4.3).
                let left = lease.attempt_ends_at.map(|ends| ends.since(now));
                Some(View::Text(bytes_of(lease.holder.as_str()), left))
            }
            ("status", state) => Some(View::Text(bytes_of(status_word(state.word())), None)),
            ("stdout" | "stderr", TaskState::Settled(_)) => {
                let view = job_view(record);
                let text = output_of(&Value::Object(view), field)?;
                Some(View::Text(Bytes::from(text), None))
            }
            _ => None,
        }
    }

    async fn job_document(&self, job: &str) -> Answered<Option<View>> {
        let record = self.find_record(job).await?;
        Ok(record.map(|record| View::Document(Value::Object(job_view(&record)))))
    }

    /// A plan that is kept, or the one that a job of this name brought along.
    pub(super) async fn plan_document(&self, plan_id: &str) -> Answered<Option<Value>> {
        let kept = kept::plan(&*self.app.store, &self.member().handle, plan_id).await?;
        let (plan, created_ms) = if let Some(kept) = kept {
            (kept.plan, kept.created_ms)
        } else {
            let Some(record) = self.find_record(plan_id).await? else { return Ok(None) };
            let Ok(job) = serde_json::from_slice::<PlanJob>(&record.parameters) else {
                return Ok(None);
            };
            let plan_description = job.plan_description;
            let plan = Plan { plan_id: plan_id.to_owned(), plan_description, tasks: job.tasks };
            (plan, record.created_at.as_millis())
        };
        let mut document = json!(plan);
        document["json"] = json!(plan).to_string().into();
        document["status"] = "ready".into();
        document["created_at"] = (created_ms / 1_000).into();
        document["task_count"] = plan.tasks.len().into();
        Ok(Some(document))
    }

    async fn action_view(&self, action_id: &str) -> Answered<Option<View>> {
        let kept = kept::action(&self.member().handle, action_id).await?;
        let Some(kept) = kept else { return Ok(None) };
        let records = action::records(&self.app, &self.member().handle, action_id).await?;
        let counts = action::counts(&records);
        Ok(Some(View::Document(json!({
            "action_id": action_id,
            "plan_id": kept.head.plan_id,
            "status": action::status(&counts),
            "created_at": kept.at_ms / 1_000,
            "jobs_total": counts.total,
            "jobs_completed": counts.completed,
            "jobs_failed": counts.failed + counts.dead,
        }))))
    }

    async fn action_jobs(&self, action_id: &str) -> Answered<Option<View>> {
        let records = action::records(&self.app, &self.member().handle, action_id).await?;
        let name = |record: &TaskRecord| Bytes::from(job_id(record.id, &record.parameters));
        Ok(members(records.iter().map(name).collect()))
    }

    fn worker_view(&self, worker: &str) -> Option<View> {
        let worker = worker.parse().ok()?;
        let now = self.app.clock.now();
        self.member().workers().known(&worker, |member| {
            let status = if member.is_alive(now) { "active" } else { "dead" };
            View::Document(json!({ "last_seen": seconds(member.last_seen), "status": status }))
        })
    }

    fn worker_field(&self, worker: &str, field: &str) -> Option<View> {
        let worker = worker.parse().ok()?;
        let (workers, now) = (self.member().workers(), self.app.clock.now());
        if field == "metadata" {
            return workers.metadata(&worker).map(|text| View::Text(text, None));
        }
        let found = workers.known(&worker, |member| match field {
            "alive" => {
                let left = member.alive_for(now)?;
                let at = member.last_seen.as_millis() / 1_000;
                Some(View::Text(Bytes::from(at.to_string()), Some(left)))
            }
            "stats" => {
                let (stats, left) = member.stats(now)?;
                Some(View::Text(stats, Some(left)))
            }
            "tools" | "tags" => Some(View::Text(member.texts.get(field)?.clone(), None)),
            _ => None,
        });
        found.flatten()
    }

    /// The workers that have a tool, and live.
    fn capable(&self, tool: &str) -> Option<View> {
        let now = self.app.clock.now();
        let mut names = Vec::new();
        self.member().workers().each(|worker, member| {
            let has = member.abilities.offer.tools.iter().any(|own| own.as_str() == tool);
            if has && member.is_alive(now) {
                names.push(bytes_of(worker.as_str()));
            }
        });
        members(names)
    }

    /// The names of such keys, for `KEYS` and `SCAN`, each with its type. Jobs have lists of their
    /// own.
    pub(super) async fn view_names(&self) -> Vec<(String, &'static str)> {
        let queues = self.queue_views().await.unwrap_or_default();
        let filled = queues.iter().filter(|view| view.depth > 0);
        let mut all: Vec<(String, &'static str)> =
            filled.map(|view| (format!("queue:{}", view.queue), "list")).collect();
        all.extend(self.kept_names());
        let plans = kept::plans(&self.member().handle).await.unwrap_or_default();
        all.extend(plans.into_iter().map(|(name, _)| (format!("plan:{name}"), "hash")));
        all
    }

    fn kept_names(&self) -> Vec<(String, &'static str)> {
        let now = self.app.clock.now();
        let mut names = Vec::new();
        let mut tools = std::collections::BTreeSet::new();
        self.member().workers().each(|worker, member| {
            if member.is_alive(now) {
                names.push(format!("worker:{worker}:alive"));
                tools.extend(member.abilities.offer.tools.iter().cloned());
            }
            if member.registration.is_some() {
                names.push(format!("worker:{worker}:metadata"));
            }
            if member.stats(now).is_some() {
                names.push(format!("worker:{worker}:stats"));
            }
            names.extend(member.texts.keys().map(|field| format!("worker:{worker}:{field}")));
        });
        let mut names: Vec<_> = names.into_iter().map(|name| (name, "string")).collect();
        names.extend(tools.iter().map(|tool| (format!("capability:{tool}:workers"), "set")));
        names
    }

    /// Reading commands, on a key that is looked up.
    pub(super) async fn answer_view(&self, command: &str, key: &Bytes, rest: &[Bytes]) -> Answered {
        let key = text_of(key)?;
        let view = self.view(key).await?;
        read(command, rest, view).unwrap_or_else(|| {
            Err(format!("'{key}' is kept by the server and can only be read").into())
        })
    }
}

fn read(command: &str, rest: &[Bytes], view: Option<View>) -> Option<Answered> {
    let wrong = || Err(RespError::new(WRONG_TYPE));
    Some(match (command, rest, view) {
        ("exists", [], view) => Ok(view.is_some().into()),
        ("type", [], view) => Ok(Reply::simple(view.map_or("none", |view| view.kind()))),
        ("ttl", [], None) => Ok(Reply::Integer(-2)),
        ("ttl", [], Some(View::Text(_, Some(left)))) => Ok(whole(left.as_millis().div_ceil(1_000))),
        ("ttl", [], Some(_)) => Ok(Reply::Integer(-1)),
        ("get", [], None) => Ok(Reply::Null),
        ("get", [], Some(View::Text(text, _))) => Ok(Reply::Bulk(text)),
        ("get", [], Some(View::Document(document))) => Ok(json_bulk(document)),
        ("smembers", [], None) => Ok(Reply::Set(Vec::new())),
        ("smembers", [], Some(View::Members(all))) => {
            Ok(Reply::Set(all.into_iter().map(Reply::Bulk).collect()))
        }
        ("sismember", [_], None) => Ok(Reply::Integer(0)),
        ("sismember", [one], Some(View::Members(all))) => Ok(all.contains(one).into()),
        ("get" | "smembers", [], Some(_)) | ("sismember", [_], Some(_)) => wrong(),
        (_, fields, None) => return read_fields(command, fields, &Map::new()),
        (_, fields, Some(View::Document(Value::Object(document)))) => {
            return read_fields(command, fields, &document);
        }
        ("hgetall" | "hlen" | "hget" | "hexists", _, Some(_)) => wrong(),
        _ => return None,
    })
}

fn read_fields(command: &str, fields: &[Bytes], document: &Map<String, Value>) -> Option<Answered> {
    let text = |value: &Value| match value {
        Value::String(text) => Reply::from(text.clone()),
        other => json_bulk(other.clone()),
    };
    let one = |field: &Bytes| {
        let found = std::str::from_utf8(field).ok().and_then(|field| document.get(field));
        found.map_or(Reply::Null, text)
    };
    let pair = |(key, value): (&String, &Value)| (key.clone().into(), text(value));
    Some(Ok(match (command, fields) {
        ("hgetall", []) => Reply::Map(document.iter().map(pair).collect()),
        ("hlen", []) => document.len().into(),
        ("hget", [field]) => one(field),
        ("hexists", [field]) => (one(field) != Reply::Null).into(),
        _ => return None,
    }))
}

/// What a job wrote: said as a whole, or step by step.
fn output_of(job: &Value, field: &str) -> Option<String> {
    if let Some(text) = job.get("result").and_then(|result| result.get(field)) {
        return text.as_str().map(str::to_owned);
    }
    let steps = job.get("task_results")?.as_array()?;
    Some(steps.iter().filter_map(|step| step.get(field)?.as_str()).collect())
}

fn members(names: Vec<Bytes>) -> Option<View> {
    (!names.is_empty()).then_some(View::Members(names))
}

fn bytes_of(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
