//! `PLAN.*`.

use bytes::Bytes;
use protocol::plan::Plan;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde_json::json;

use super::answers::store_error;
use super::connection::Connection;
use super::jobs::{ListWords, arity, text_of};
use crate::doors::http::json_path::{describe, is_object};
use crate::plans::delete::{DeleteError, delete};
use crate::plans::registry::KeepError;

pub(super) fn keep_error(error: KeepError) -> Reply {
    match error {
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
        let plan_id = plan.plan_id.clone();
        let (tenant, now) = (self.member().tenant(), self.app.clock.now());
        self.app.plans.add(tenant, plan, now).await.map_err(keep_error)?;
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
    pub(super) fn on_plan_list(&mut self, request: &Request) -> Result<Reply, Reply> {
        let list = ListWords::read(&request.arguments[1..])?;
        let pattern = list.words.first().copied().unwrap_or("*");
        let plans = self.app.plans.plans(self.member().tenant());
        let fitting = plans
            .iter()
            .filter(|kept| keyspace::matches(pattern.as_bytes(), kept.plan.plan_id.as_bytes()));
        let page = fitting.skip(list.offset).take(list.limit as usize);
        let line = |kept: &std::sync::Arc<crate::plans::registry::KeptPlan>| {
            let plan = &kept.plan;
            let line = json!({
                "plan_id": plan.plan_id,
                "description": plan.plan_description,
                "plan_description": plan.plan_description,
                "task_count": plan.tasks.len(),
                // Text: clients of this list read no number here.
                "created_at": (kept.created_ms / 1_000).to_string(),
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
        let deleted = delete(&self.app, &member.handle, member.tenant(), plan_id).await;
        deleted.map_err(|error| match error {
            DeleteError::Keep(error) => keep_error(error),
            active @ DeleteError::Active(_) => Reply::error(format!("ERR {active}")),
        })?;
        Ok(Reply::ok())
    }
}
