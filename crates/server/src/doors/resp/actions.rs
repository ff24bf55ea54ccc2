//! `ACTION.*`.

use bytes::Bytes;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde_json::{Value, json};

use super::answers::{ask_error, job_id, refusal, store_error};
use super::connection::Connection;
use super::jobs::{ListWords, arity, text_of};
use super::plans::keep_error;
use crate::plans::action::{self, ActionError, Counts};
use crate::plans::registry::KeptAction;

/// Actions that a list with a status looks at, newest first.
const LOOKED_AT_MAX: usize = 1_000;

fn action_error(error: ActionError) -> Reply {
    match error {
        ActionError::Invalid(problem) => Reply::error(format!("ERR {problem}")),
        ActionError::Keep(error) => keep_error(error),
        ActionError::Refused(why) => refusal(&why),
        ActionError::Ask(error) => ask_error(error),
        ActionError::Store(error) => store_error(&error),
    }
}

impl Connection {
    pub(super) async fn on_action_submit(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, json] = &request.arguments[..] else { return Err(arity(request)) };
        let member = self.member();
        let made = action::submit(&self.app, &member.handle, member.tenant(), json).await;
        let made = made.map_err(action_error)?;
        if self.client.is_person {
            let (name, jobs) = (&made.action_id, made.jobs_created);
            return Ok(Reply::simple(format!("OK action_id={name} jobs_created={jobs}")));
        }
        Ok(Reply::bulk(serde_json::to_vec(&made).expect("our own words are JSON")))
    }

    async fn counted(
        &self,
        action_id: &str,
        action: &KeptAction,
    ) -> Result<(Value, Vec<String>), Reply> {
        let handle = &self.member().handle;
        let records = action::records(&self.app, handle, action_id).await;
        let records = records.map_err(|error| store_error(&error))?;
        let counts = Counts::of(&records);
        let names = records.iter().map(|record| job_id(record.id, &record.parameters)).collect();
        let line = json!({
            "action_id": action_id,
            "plan_id": action.plan_id,
            "status": counts.status(),
            "created_at": action.created_ms / 1_000,
            "jobs_total": counts.total(),
            "jobs_pending": counts.pending + counts.scheduled,
            "jobs_running": counts.running,
            "jobs_completed": counts.completed,
            "jobs_failed": counts.failed,
            "jobs_dead": counts.dead,
            "jobs_cancelled": counts.cancelled,
        });
        Ok((line, names))
    }

    fn action(&self, action_id: &str) -> Result<KeptAction, Reply> {
        let found = self.app.plans.action(self.member().tenant(), action_id);
        found.ok_or_else(|| Reply::error(format!("ERR Action not found: {action_id}")))
    }

    pub(super) async fn on_action_status(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, action_id] = &request.arguments[..] else { return Err(arity(request)) };
        let action_id = text_of(action_id)?;
        let (line, _) = self.counted(action_id, &self.action(action_id)?).await?;
        Ok(Reply::Bulk(Bytes::from(line.to_string())))
    }

    /// `ACTION.GET id [offset] [limit]`: the same, with the names of its jobs.
    pub(super) async fn on_action_get(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, action_id, rest @ ..] = &request.arguments[..] else { return Err(arity(request)) };
        let action_id = text_of(action_id)?;
        let list = ListWords::read(rest)?;
        let (mut line, names) = self.counted(action_id, &self.action(action_id)?).await?;
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
        Ok(Reply::Bulk(Bytes::from(line.to_string())))
    }

    /// `ACTION.LIST [status|all] [offset] [limit]`: newest first.
    pub(super) async fn on_action_list(&mut self, request: &Request) -> Result<Reply, Reply> {
        let list = ListWords::read(&request.arguments[1..])?;
        let wanted = list.words.first().copied().filter(|word| *word != "all");
        let (limit, tenant) = (list.limit as usize, self.member().tenant());
        let actions = match wanted {
            None => self.app.plans.actions(tenant, list.offset, limit),
            // What an action came to is only known from its jobs.
            Some(_) => self.app.plans.actions(tenant, 0, LOOKED_AT_MAX),
        };
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
            lines.push(Reply::Bulk(Bytes::from(line.to_string())));
            if lines.len() == limit {
                break;
            }
        }
        Ok(Reply::Array(lines))
    }
}
