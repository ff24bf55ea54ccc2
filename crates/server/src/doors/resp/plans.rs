//! `PLAN.*` and `ACTION.*`.

use std::sync::Arc;

use protocol::plan::Plan;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde_json::{Value, json};
use shard::documents::{ActionHead, Entry};

use super::answers::{Answered, RespError, job_id, json_bulk};
use super::connection::Connection;
use super::jobs::{ListWords, text_at};
use crate::plans::action;
use crate::plans::kept::{self, ListedPlan, PlanError, delete};
use crate::wire_words::payload::{describe, is_object};

impl Connection {
    /// Answers with the plan's name (clients keep the reply as the name); a person reads
    /// `OK plan_id=...`.
    pub(super) async fn on_plan_submit(&mut self, request: &Request) -> Answered {
        let json = &request.arguments[1];
        if !is_object(json) {
            return Err(RespError::new("ERR a plan is a JSON object"));
        }
        let plan: Plan = serde_json::from_slice(json).map_err(|error| {
            let like = r#"{"plan_id":"p1","tasks":[{"task_number":1,"command":"sort"}]}"#;
            format!("a plan is a JSON object, like {like}: {}", describe(json, &error))
        })?;
        plan.check().map_err(|problem| problem.to_string())?;
        kept::add_plan(&self.member().handle, &plan, self.app.clock.now()).await?;
        let plan_id = plan.plan_id;
        Ok(if self.client.is_person {
            Reply::simple(format!("OK plan_id={plan_id}"))
        } else {
            plan_id.into()
        })
    }

    pub(super) async fn on_plan_get(&mut self, request: &Request) -> Answered {
        let plan_id = text_at(request, 1)?;
        let plan = self.plan_document(plan_id).await?;
        let mut plan = plan.ok_or_else(|| PlanError::NoPlan(plan_id.to_owned()))?;
        plan["metadata"] =
            json!({ "created_at": plan["created_at"], "task_count": plan["task_count"] });
        if let Some(fields) = plan.as_object_mut() {
            for own in ["json", "status", "created_at", "task_count"] {
                fields.remove(own);
            }
        }
        Ok(json_bulk(plan))
    }

    /// `PLAN.LIST [pattern] [LIMIT n] [OFFSET n]`: one document for each plan.
    pub(super) async fn on_plan_list(&mut self, request: &Request) -> Answered {
        let list = ListWords::read(&request.arguments[1..])?;
        let pattern = list.words.first().copied().unwrap_or("*");
        let plans = kept::plans(&self.member().handle).await?;
        let fits = |name: &str| keyspace::matches(pattern.as_bytes(), name.as_bytes());
        let fitting = plans.iter().filter(|(name, _)| fits(name));
        let page = fitting.skip(list.offset).take(list.limit as usize);
        let line = |(plan_id, kept): &ListedPlan| {
            json_bulk(json!({
                "plan_id": plan_id,
                "description": kept.head.description,
                "plan_description": kept.head.description,
                "task_count": kept.head.task_count,
                // Text: clients of this list read no number here.
                "created_at": (kept.at_ms / 1_000).to_string(),
            }))
        };
        Ok(Reply::Array(page.map(line).collect()))
    }

    /// Refused while jobs of the plan are not over.
    pub(super) async fn on_plan_delete(&mut self, request: &Request) -> Answered {
        delete(&self.app, &self.member().handle, text_at(request, 1)?).await?;
        Ok(Reply::ok())
    }
}

/// Actions that a list with a status looks at, newest first.
const LOOKED_AT_MAX: usize = 1_000;

impl Connection {
    pub(super) async fn on_action_submit(&mut self, request: &Request) -> Answered {
        let (handle, json) = (&self.member().handle, &request.arguments[1]);
        let (made, _) = action::submit(&self.app, handle, json).await?;
        if self.client.is_person {
            let (name, jobs) = (&made.action_id, made.jobs_created);
            return Ok(Reply::simple(format!("OK action_id={name} jobs_created={jobs}")));
        }
        Ok(Reply::bulk(serde_json::to_vec(&made).expect("our own words are JSON")))
    }

    async fn counted(
        &self,
        action_id: &str,
        action: &Entry<ActionHead>,
    ) -> Answered<(Value, Vec<String>)> {
        let records = action::records(&self.app, &self.member().handle, action_id).await?;
        let counts = action::counts(&records);
        let names = records.iter().map(|record| job_id(record.id, &record.parameters)).collect();
        let line = json!({
            "action_id": action_id,
            "plan_id": action.head.plan_id,
            "status": action::status(&counts),
            "created_at": action.at_ms / 1_000,
            "jobs_total": counts.total,
            "jobs_pending": counts.queued + counts.waiting,
            "jobs_running": counts.running,
            "jobs_completed": counts.completed,
            "jobs_failed": counts.failed,
            "jobs_dead": counts.dead,
            "jobs_cancelled": counts.stopped,
        });
        Ok((line, names))
    }

    pub(super) async fn action(&self, action_id: &str) -> Answered<Arc<Entry<ActionHead>>> {
        let found = kept::action(&self.member().handle, action_id).await?;
        found.ok_or_else(|| format!("Action not found: {action_id}").into())
    }

    pub(super) async fn on_action_status(&mut self, request: &Request) -> Answered {
        let action_id = text_at(request, 1)?;
        let (line, _) = self.counted(action_id, &*self.action(action_id).await?).await?;
        Ok(json_bulk(line))
    }

    /// `ACTION.GET id [offset] [limit]`: the same, with the names of its jobs.
    pub(super) async fn on_action_get(&mut self, request: &Request) -> Answered {
        let action_id = text_at(request, 1)?;
        let list = ListWords::read(&request.arguments[2..])?;
        let (mut line, names) = self.counted(action_id, &*self.action(action_id).await?).await?;
        let page: Vec<String> =
            names.into_iter().skip(list.offset).take(list.limit as usize).collect();
        line["summary"] = json!({
            "total": line["jobs_total"],
            "pending": line["jobs_pending"],
            "running": line["jobs_running"],
            "completed": line["jobs_completed"],
            "failed": line["jobs_failed"],
            "dead": line["jobs_dead"],
            "cancelled": line["jobs_cancelled"],
        });
        line["job_ids_offset"] = list.offset.into();
        line["job_ids_limit"] = list.limit.into();
        line["job_ids_returned"] = page.len().into();
        line["job_ids"] = page.into();
        Ok(json_bulk(line))
    }

    /// `ACTION.LIST [status|all] [offset] [limit]`: newest first.
    pub(super) async fn on_action_list(&mut self, request: &Request) -> Answered {
        let list = ListWords::read(&request.arguments[1..])?;
        let wanted = list.words.first().copied().filter(|word| *word != "all");
        let limit = list.limit as usize;
        // What an action came to is only known from its jobs.
        let (skip, most) = wanted.map_or((list.offset, limit), |_| (0, LOOKED_AT_MAX));
        let (actions, _) = kept::actions(&self.member().handle, skip, most).await?;
        let mut to_skip = if wanted.is_some() { list.offset } else { 0 };
        let mut lines = Vec::new();
        for (action_id, action) in actions {
            let (line, _) = self.counted(&action_id, &action).await?;
            if wanted.is_some_and(|wanted| line["status"] != wanted) {
                continue;
            }
            if to_skip > 0 {
                to_skip -= 1;
                continue;
            }
            lines.push(json_bulk(line));
            if lines.len() == limit {
                break;
            }
        }
        Ok(Reply::Array(lines))
    }
}
