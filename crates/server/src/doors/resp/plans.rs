//! `PLAN.*`.

use bytes::Bytes;
use protocol::plan::Plan;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde_json::json;

use super::answers::store_error;
use super::connection::Connection;
use super::jobs::{ListWords, arity, text_of};
use crate::plans::delete::{DeleteError, delete};
use crate::plans::kept::{self, KeepError, ListedPlan};
use crate::wire_words::json_path::{describe, is_object};

pub(super) fn keep_error(error: KeepError) -> Reply {
    match error {
        KeepError::Ask(error) => error.into(),
        KeepError::Store(error) => store_error(&error),
        other => Reply::error(format!("ERR {other}")),
    }
}

impl Connection {
    /// Answers with the plan's name (clients keep the reply as the name); a person reads
    /// `OK plan_id=...`.
    pub(super) async fn on_plan_submit(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, json] = &request.arguments[..] else { return Err(arity(request)) };
        if !is_object(json) {
            return Err(Reply::error("ERR a plan is a JSON object"));
        }
        let plan: Plan = serde_json::from_slice(json).map_err(|error| {
            let like = r#"{"plan_id":"p1","tasks":[{"task_number":1,"command":"sort"}]}"#;
            let why = describe(json, &error);
            Reply::error(format!("ERR a plan is a JSON object, like {like}: {why}"))
        })?;
        plan.check().map_err(|problem| Reply::error(format!("ERR {problem}")))?;
        let (handle, now) = (&self.member().handle, self.app.clock.now());
        kept::add_plan(handle, &plan, now).await.map_err(keep_error)?;
        let plan_id = plan.plan_id;
        if self.client.is_person {
            return Ok(Reply::simple(format!("OK plan_id={plan_id}")));
        }
        Ok(Reply::bulk(plan_id.into_bytes()))
    }

    pub(super) async fn on_plan_get(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, plan_id] = &request.arguments[..] else { return Err(arity(request)) };
        let plan_id = text_of(plan_id)?;
        let plan = self.plan_document(plan_id).await?;
        let mut plan = plan.ok_or_else(|| keep_error(KeepError::NoPlan(plan_id.to_owned())))?;
        plan["metadata"] =
            json!({ "created_at": plan["created_at"], "task_count": plan["task_count"] });
        if let Some(fields) = plan.as_object_mut() {
            for own in ["json", "status", "created_at", "task_count"] {
                fields.remove(own);
            }
        }
        Ok(Reply::bulk(plan.to_string().into_bytes()))
    }

    /// `PLAN.LIST [pattern] [LIMIT n] [OFFSET n]`: one document for each plan.
    pub(super) async fn on_plan_list(&mut self, request: &Request) -> Result<Reply, Reply> {
        let list = ListWords::read(&request.arguments[1..])?;
        let pattern = list.words.first().copied().unwrap_or("*");
        let plans = kept::plans(&self.member().handle).await?;
        let fits = |name: &str| keyspace::matches(pattern.as_bytes(), name.as_bytes());
        let fitting = plans.iter().filter(|(name, _)| fits(name));
        let page = fitting.skip(list.offset).take(list.limit as usize);
        let line = |(plan_id, kept): &ListedPlan| {
            let line = json!({
                "plan_id": plan_id,
                "description": kept.head.description,
                "plan_description": kept.head.description,
                "task_count": kept.head.task_count,
                // Text: clients of this list read no number here.
                "created_at": (kept.at_ms / 1_000).to_string(),
            });
            Reply::Bulk(Bytes::from(line.to_string()))
        };
        Ok(Reply::Array(page.map(line).collect()))
    }

    /// Refused while jobs of the plan are not over.
    pub(super) async fn on_plan_delete(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, plan_id] = &request.arguments[..] else { return Err(arity(request)) };
        let plan_id = text_of(plan_id)?;
        let member = self.member();
        let deleted = delete(&self.app, &member.handle, plan_id).await;
        deleted.map_err(|error| match error {
            DeleteError::Keep(error) => keep_error(error),
            active @ DeleteError::Active(_) => Reply::error(format!("ERR {active}")),
        })?;
        Ok(Reply::ok())
    }
}
