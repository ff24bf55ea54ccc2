//! `MULTI` and `EXEC`: several commands on keys as one step, durable together.
//!
//! Only commands of the scratch keyspace go in: a job is taken and reported by a decision of its
//! own, which no other command can be a part of.

use keyspace::Answer;
use protocol::resp::command;
use protocol::resp::reply::{Reply, write_array_head};
use protocol::resp::request::Request;

use super::classify::{Class, classify};
use super::connection::Connection;
use super::jobs::arity;
use super::keys::write_answer;

/// Commands of one step.
pub(crate) const STEP_COMMANDS_MAX: usize = 10_000;

/// What was sent since `MULTI`.
#[derive(Default)]
pub(super) struct Step {
    requests: Vec<Request>,
    /// One of them cannot be carried out, so none is.
    is_spoilt: bool,
}

impl Connection {
    /// Whether requests are gathered instead of answered.
    pub(super) fn is_gathering(&self) -> bool {
        self.step.is_some()
    }

    pub(super) fn on_multi(&mut self) -> Reply {
        if self.is_gathering() {
            return Reply::error("ERR MULTI calls can not be nested");
        }
        self.step = Some(Step::default());
        Reply::ok()
    }

    /// One request since `MULTI`; `None` when it has replied itself.
    pub(super) async fn gather_step(&mut self, request: &Request) -> Option<Reply> {
        if request.name_is("EXEC") {
            return self.on_exec().await;
        }
        if request.name_is("DISCARD") {
            self.step = None;
            return Some(Reply::ok());
        }
        if request.name_is("MULTI") {
            return Some(self.on_multi());
        }
        if request.name_is("QUIT") || request.name_is("RESET") {
            self.step = None;
            return self.answer_alone(request).await;
        }
        let refusal = self.refuse_in_step(request);
        let step = self.step.as_mut()?;
        if let Some(reply) = refusal {
            step.is_spoilt = true;
            return Some(reply);
        }
        step.requests.push(request.clone());
        Some(Reply::simple("QUEUED"))
    }

    fn refuse_in_step(&self, request: &Request) -> Option<Reply> {
        let name = String::from_utf8_lossy(request.name()).to_lowercase();
        let Some(spec) = command::find(request.name()) else {
            return Some(Reply::error(format!("ERR unknown command '{name}'")));
        };
        if !spec.takes(request.arguments.len()) {
            return Some(arity(request));
        }
        if !matches!(classify(request, true), Class::Keys | Class::Wait) {
            let text = format!("ERR '{name}' cannot be part of MULTI: only keys of your own can");
            return Some(Reply::error(text));
        }
        if self.step.as_ref().is_some_and(|step| step.requests.len() >= STEP_COMMANDS_MAX) {
            return Some(Reply::error(format!(
                "ERR at most {STEP_COMMANDS_MAX} commands in MULTI"
            )));
        }
        self.refuse_role(request)
    }

    async fn on_exec(&mut self) -> Option<Reply> {
        let step = self.step.take()?;
        if step.is_spoilt {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Some(Reply::error(text));
        }
        match self.carry_out(&step.requests).await {
            Ok(answers) => {
                write_array_head(&mut self.wire.output, answers.len());
                for (request, answer) in step.requests.iter().zip(answers) {
                    let answer = self.shaped(request, answer);
                    write_answer(&mut self.wire.output, &answer, self.client.version);
                }
                None
            }
            Err(reply) => Some(reply),
        }
    }

    async fn carry_out(&self, requests: &[Request]) -> Result<Vec<Answer>, Reply> {
        let scratch = self.scratch().await?;
        let (answers, mark) = scratch.transact(requests)?;
        scratch.durable(&mark).await?;
        Ok(answers)
    }
}
