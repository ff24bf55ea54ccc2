//! `WORKER.VERIFY`: a claim about a tool is put to the test (seed 004 section 7.3).
//!
//! A challenge is a job like any other: it goes to one worker, by the tag that names it, and its
//! report is judged. What the tool said is remembered until the worker registers anew.

use std::time::Duration;

use bytes::Bytes;
use coordinator::TaskState;
use model::WorkerId;
use protocol::plan::PlanResult;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use serde::Deserialize;
use serde_json::json;

use super::connection::Connection;
use super::jobs::{arity, text_of};
use crate::handle::AskError;
use crate::plans::job::OrderDesk;
use crate::resp_workers::registration::WORKER_TAG;

/// How long a challenge may take.
pub(crate) const VERIFY_WITHIN: Duration = Duration::from_secs(30);
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
    pub(super) async fn on_worker_verify(&mut self, request: &Request) -> Result<Reply, Reply> {
        let (worker, tool, json) = match &request.arguments[1..] {
            [tool, json] => (None, text_of(tool)?, json),
            [worker, tool, json] => (Some(text_of(worker)?), text_of(tool)?, json),
            _ => return Err(arity(request)),
        };
        let invalid = |text: String| Reply::error(format!("ERR {text}"));
        let challenge: Challenge = serde_json::from_slice(json).map_err(|error| {
            let like = r#"{"command":"jq","args":["--version"]}"#;
            invalid(format!("a challenge is a JSON object, like {like}: {error}"))
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
        let task = order.map_err(|problem| invalid(problem.to_string()))?.task;
        let output = self.challenge(task).await?;
        self.note_verified(&claimant, tool, output.clone()).await?;
        Ok(Reply::simple(format!("OK worker_id={claimant} output=\"{output}\"")))
    }

    async fn note_verified(
        &self,
        worker: &WorkerId,
        tool: &str,
        output: String,
    ) -> Result<(), Reply> {
        let invalid = |error: model::InvalidText| Reply::error(format!("ERR {error}"));
        let (worker, tool) = (worker.clone(), tool.parse::<model::ToolName>().map_err(invalid)?);
        Ok(self.member().handle.note_verified(worker, tool, output).await?)
    }

    /// Who claims the tool.
    fn claimant(&self, worker: Option<&str>, tool: &str) -> Result<WorkerId, Reply> {
        let now = self.app.clock.now();
        let mut found = None;
        self.member().workers().each(|name, member| {
            let is_meant = worker.is_none_or(|worker| worker == name.as_str());
            let claims = member.abilities.offer.tools.iter().any(|own| own.as_str() == tool);
            if is_meant && claims && member.is_alive(now) && found.is_none() {
                found = Some(name.clone());
            }
        });
        found.ok_or_else(|| Reply::error(format!("ERR no active worker claims the tool {tool}")))
    }

    /// Submits the challenge and waits for its end.
    async fn challenge(&self, task: model::NewTask) -> Result<String, Reply> {
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
            return Err(Reply::error("ERR the worker did not answer the challenge in time"));
        };
        if let Some(failure) = &settlement.failure {
            return Err(Reply::error(format!("ERR the challenge failed: {}", failure.reason)));
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
