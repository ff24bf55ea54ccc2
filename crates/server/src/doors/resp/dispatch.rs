//! Every command that is answered alone, one line each.

use std::fmt::Write as _;

use protocol::resp::command;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use protocol::rest::tokens::Role;

use super::connection::Connection;
use super::convert::QUEUE_PREFIX;
use super::jobs::arity;

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Anyone who proved who it is.
    Nothing,
    /// To look at things.
    Look,
    /// To submit, stop, retry, pause.
    Submit,
    /// To take jobs and report them.
    Work,
    /// To keep values of one's own.
    Keep,
}

impl Need {
    /// Whatever is not listed reads or writes keys.
    fn of(name: &str, key: &[u8]) -> Self {
        match name {
            "AUTH" | "HELLO" | "PING" | "ECHO" | "QUIT" | "RESET" | "SELECT" | "CLIENT"
            | "COMMAND" | "TIME" | "MULTI" | "EXEC" | "DISCARD" => Self::Nothing,
            "INFO" | "CONFIG" | "MODULE" | "METRICS" | "SUBSCRIBE" | "PSUBSCRIBE"
            | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "WORKERS.LIST" | "CAPABILITY.SEARCH"
            | "PLAN.GET" | "PLAN.LIST" | "ACTION.STATUS" | "ACTION.GET" | "ACTION.LIST"
            | "JOB.GET" | "JOB.STATUS" | "JOB.LIST" | "JOBS.LIST" | "JOBS.SEARCH"
            | "QUEUE.STATS" | "QUEUE.PEEK" => Self::Look,
            "PLAN.SUBMIT" | "PLAN.DELETE" | "ACTION.SUBMIT" | "JOB.SUBMIT" | "JOB.RETRY"
            | "JOB.CANCEL" | "QUEUE.PAUSE" | "QUEUE.RESUME" | "WORKER.VERIFY" => Self::Submit,
            "WORKER.REGISTER" | "WORKER.HEARTBEAT" | "WORKER.UNREGISTER" | "JOB.UPDATE" => {
                Self::Work
            }
            "LPUSH" | "RPUSH" if key.starts_with(QUEUE_PREFIX) => Self::Submit,
            "BRPOP" | "BLPOP" | "RPOP" | "LPOP" | "BRPOPLPUSH" | "RPOPLPUSH" | "BLMOVE"
            | "LMOVE" | "LREM"
                if key.starts_with(QUEUE_PREFIX) =>
            {
                Self::Work
            }
            _ => Self::Keep,
        }
    }

    fn is_met(self, role: Role, is_read: bool) -> bool {
        match (self, role) {
            (_, Role::Admin)
            | (Self::Nothing | Self::Look, _)
            | (Self::Submit | Self::Keep, Role::Client)
            | (Self::Work | Self::Keep, Role::Worker) => true,
            (Self::Keep, Role::Viewer) => is_read,
            _ => false,
        }
    }
}

impl Connection {
    /// Why the client's role does not reach for this command, if so.
    pub(super) fn refuse_role(&self, request: &Request) -> Option<Reply> {
        let name = request.upper_name()?;
        let key = request.arguments.get(1).map_or(&b""[..], AsRef::as_ref);
        let is_read = command::find(request.name()).is_some_and(|spec| spec.is("readonly"));
        let role = self.member().caller.role;
        if Need::of(name.as_str(), key).is_met(role, is_read) {
            return None;
        }
        let name = name.as_str().to_lowercase();
        let role = role.word();
        Some(Reply::error(format!(
            "NOPERM a {role} key has no permissions to run the '{name}' command"
        )))
    }

    /// One command in its own way; `None` when it has replied itself.
    pub(super) async fn answer_alone(&mut self, request: &Request) -> Option<Reply> {
        let Some(name) = request.upper_name() else { return Some(unknown(request)) };
        let name = name.as_str();
        match name {
            "AUTH" => return Some(self.on_auth(request).await),
            "HELLO" => return Some(self.on_hello(request).await),
            "QUIT" => {
                self.is_leaving = true;
                return Some(Reply::ok());
            }
            "RESET" => return Some(self.on_reset().await),
            _ => {}
        }
        let Some(spec) = command::find(request.name()) else { return Some(unknown(request)) };
        if !spec.takes(request.arguments.len()) {
            return Some(arity(request));
        }
        if let Some(reply) = self.refuse_role(request) {
            return Some(reply);
        }
        if let Some(reply) = self.refuse_while_listening(request) {
            return Some(reply);
        }
        if name.ends_with("SUBSCRIBE") {
            return self.on_subscribe(request);
        }
        let reply = self.answer_named(name, request).await;
        Some(reply.unwrap_or_else(|error| error))
    }

    async fn answer_named(&mut self, name: &str, request: &Request) -> Result<Reply, Reply> {
        match name {
            "PING" => self.on_ping(request).await,
            "ECHO" => Ok(Reply::Bulk(request.arguments[1].clone())),
            "SELECT" => match request.arguments[1].as_ref() {
                b"0" => Ok(Reply::ok()),
                _ => Err(Reply::error("ERR DB index is out of range")),
            },
            "CLIENT" => self.on_client(request),
            "COMMAND" => self.on_command(request),
            "MULTI" => Ok(self.on_multi()),
            "EXEC" => Err(Reply::error("ERR EXEC without MULTI")),
            "DISCARD" => Err(Reply::error("ERR DISCARD without MULTI")),
            "INFO" => self.on_info(request).await,
            "CONFIG" => super::info::on_config(request),
            "MODULE" => Ok(Reply::Array(Vec::new())),
            "TIME" => Ok(self.on_time()),
            "METRICS" => self.on_metrics(),
            "WORKER.REGISTER" => self.on_worker_register(request).await,
            "WORKER.HEARTBEAT" => self.on_worker_heartbeat(request).await,
            "WORKER.UNREGISTER" => self.on_worker_unregister(request).await,
            "WORKER.VERIFY" => self.on_worker_verify(request).await,
            "WORKERS.LIST" => self.on_workers_list().await,
            "CAPABILITY.SEARCH" => self.on_capability_search(request).await,
            "PLAN.SUBMIT" => self.on_plan_submit(request).await,
            "PLAN.GET" => self.on_plan_get(request).await,
            "PLAN.LIST" => self.on_plan_list(request).await,
            "PLAN.DELETE" => self.on_plan_delete(request).await,
            "ACTION.SUBMIT" => self.on_action_submit(request).await,
            "ACTION.STATUS" => self.on_action_status(request).await,
            "ACTION.GET" => self.on_action_get(request).await,
            "ACTION.LIST" => self.on_action_list(request).await,
            "JOB.GET" => self.on_job_get(request).await,
            "JOB.STATUS" => self.on_job_status(request).await,
            "JOB.LIST" => self.on_job_list(request).await,
            "JOB.RETRY" => self.on_job_retry(request).await,
            "JOB.CANCEL" => self.on_job_cancel(request).await,
            "JOBS.LIST" => self.on_jobs_list(request).await,
            "JOBS.SEARCH" => self.on_jobs_search(request).await,
            "QUEUE.STATS" => self.on_queue_stats(request).await,
            "QUEUE.PEEK" => self.on_queue_peek(request).await,
            "QUEUE.PAUSE" => self.on_queue_pause(request, true).await,
            "QUEUE.RESUME" => self.on_queue_pause(request, false).await,
            _ => self.answer_own_key(name, request).await,
        }
    }

    /// As after connecting: no name, no channels, no proof.
    async fn on_reset(&mut self) -> Reply {
        self.unsubscribe_all();
        self.step = None;
        self.unbind();
        self.client.reset();
        self.wire.distrust();
        self.let_in_without_key().await;
        Reply::simple("RESET")
    }
}

fn unknown(request: &Request) -> Reply {
    let name = String::from_utf8_lossy(request.name());
    let name: String = name.chars().take(64).collect();
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    for argument in request.arguments[1..].iter().take(3) {
        let argument: String = String::from_utf8_lossy(argument).chars().take(32).collect();
        let _ = write!(text, "'{argument}' ");
    }
    Reply::error(text)
}
