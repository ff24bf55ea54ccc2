//! What is said about a job, and how the answers are read.
//!
//! A server that knows leases is told with `JOB.UPDATE` (seed 004 section 4.2), one that only knows keys
//! and lists with keys.

use std::time::Duration;

use bytes::Bytes;
use model::WorkerId;
use protocol::plan::PlanResult;
use protocol::resp::reply::Reply;
use protocol::rest::leases::VerdictWord;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use tokio::time::{sleep, timeout};

use super::connection::{Request, request};
use super::job::{Claim, Job};
use super::reconnecting::{Reconnecting, Unanswered};
use super::worker::Timing;
use crate::core::clock::now;
use crate::core::executor::Outcome;
use crate::core::verdict::Judgement;

/// The longest pause between two tries of a report.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Progress {
    /// The step that runs, from 1.
    pub(super) current_task: u64,
    /// From 0 to 100.
    pub(super) progress_percent: f64,
}

impl Progress {
    /// Nothing is done yet.
    pub(super) const START: Self = Self { current_task: 1, progress_percent: 0.0 };
}

#[skip_serializing_none]
#[derive(Default, Serialize)]
struct Update<'a> {
    status: &'a str,
    worker_id: &'a str,
    lease_id: Option<&'a str>,
    started_at: Option<String>,
    current_task: Option<u64>,
    progress_percent: Option<f64>,
    completed_at: Option<String>,
    failed_at: Option<String>,
    error: Option<&'a str>,
    error_code: Option<&'a str>,
    retryable: Option<bool>,
    task_results: Option<&'a RawValue>,
}

/// The results of the steps, as the executor gave them.
#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow)]
    task_results: &'a RawValue,
}

/// Says things about one job.
#[derive(Clone, Copy)]
pub(super) struct JobUpdates<'a> {
    pub(super) job: &'a Job,
    pub(super) worker_id: &'a WorkerId,
}

impl JobUpdates<'_> {
    /// The work begins.
    pub(super) fn started(self) -> Request {
        let started_at = Some(now().to_string());
        self.request(&Update { started_at, ..self.at(Progress::START) })
    }

    /// The work goes on.
    pub(super) fn running(self, progress: Progress) -> Request {
        self.request(&self.at(progress))
    }

    /// The work is over. The same bytes are sent however often it takes, so that the server
    /// recognises them.
    pub(super) fn ended(self, outcome: &Outcome) -> Request {
        self.request(&match outcome {
            Outcome::Completed { result, .. } => Update {
                status: "completed",
                completed_at: Some(now().to_string()),
                task_results: results(result),
                ..self.blank()
            },
            Outcome::Failed { code, reason, retryable, details } => Update {
                status: "failed",
                failed_at: Some(now().to_string()),
                error: Some(reason),
                error_code: Some(code),
                // How often a job may fail is its submitter's word, which came with the job.
                retryable: Some(*retryable && self.job.attempt <= self.job.max_retries),
                task_results: details.as_deref().and_then(results),
                ..self.blank()
            },
        })
    }

    fn at(&self, progress: Progress) -> Update<'_> {
        Update {
            current_task: Some(progress.current_task),
            progress_percent: Some(progress.progress_percent),
            ..self.blank()
        }
    }

    fn blank(&self) -> Update<'_> {
        let lease_id = match &self.job.claim {
            Claim::Leased(lease_id) => lease_id.as_deref(),
            Claim::Listed { .. } => None,
        };
        let worker_id = self.worker_id.as_str();
        Update { status: "running", worker_id, lease_id, ..Update::default() }
    }

    fn request(self, update: &Update<'_>) -> Request {
        let json = serde_json::to_vec(update).expect("plain values become JSON");
        let id = Bytes::copy_from_slice(self.job.id.as_bytes());
        vec![Bytes::from_static(b"JOB.UPDATE"), id, json.into()]
    }
}

fn results(json: &RawValue) -> Option<&RawValue> {
    serde_json::from_str::<Results<'_>>(json.get()).ok().map(|results| results.task_results)
}

/// What the answer to an update means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It counts.
    Taken,
    /// The server gave another verdict, which is final.
    Judged(VerdictWord, String),
    /// It could not be taken in now.
    Passing(String),
}

/// Reads the answer to an update.
pub(super) fn hear(reply: &Reply) -> Heard {
    let Reply::Error(text) = reply else { return Heard::Taken };
    let text = text.to_string();
    match meaning(&text) {
        Meaning::Cancelled => Heard::Judged(VerdictWord::Cancelled, text),
        Meaning::Passing => Heard::Passing(text),
        // Whatever else a server does not take is a mistake of ours, and would be the next time.
        Meaning::Rejected
        | Meaning::WrongKey
        | Meaning::NotAllowed
        | Meaning::UnknownCommand
        | Meaning::NotRegistered
        | Meaning::Other => Heard::Judged(VerdictWord::Rejected, text),
    }
}

/// Sends a report until it is answered. `None` if nobody did within the time that it is worth.
pub(super) async fn report(
    line: &Reconnecting,
    request: &Request,
    lease_id: &str,
    timing: &Timing,
) -> Option<Judgement> {
    let judged = |verdict, reason| Judgement { lease_id: lease_id.into(), verdict, reason };
    let sending = async {
        let mut pause = timing.retry_pause;
        loop {
            match line.ask(request.clone()).await.map(|reply| hear(&reply)) {
                Ok(Heard::Taken) => return Some(judged(VerdictWord::Committed, None)),
                Ok(Heard::Judged(verdict, text)) => return Some(judged(verdict, Some(text))),
                Ok(Heard::Passing(text)) => {
                    tracing::warn!(lease_id, text, "the report is sent again in {pause:?}");
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
                Err(Unanswered::Lost) => {
                    tracing::info!(lease_id, "the report is sent again on the next connection");
                }
                Err(Unanswered::Closed) => return None,
            }
        }
    };
    timeout(timing.report_patience, sending).await.unwrap_or_else(|_| {
        let patience = timing.report_patience;
        tracing::error!(lease_id, "no answer to the report within {patience:?}; it is given up");
        None
    })
}

/// The list of what is worked on.
pub(super) const PROCESSING: &str = "queue:processing";
/// The pauses between the tries of a report that is answered with an error.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];
/// The most output that is told. Such a server takes messages of 1 MiB, and hangs up on others
/// without a word.
const OUTPUT_BYTES_MAX: usize = 1000 * 1024;

/// A report in keys.
#[derive(Debug)]
pub(super) struct KeyReport {
    id: String,
    outputs: [Request; 2],
    status: Request,
    remove: Request,
}

impl KeyReport {
    pub(super) fn new(id: &str, value: &Bytes, outcome: &Outcome) -> Self {
        let (status, stdout, stderr) = told(outcome);
        let set = |field: &str, text: String| {
            let key = format!("job:{id}:{field}");
            vec![Bytes::from_static(b"SET"), key.into(), cut(text).into()]
        };
        let outputs = [set("stdout", stdout), set("stderr", stderr)];
        let status = set("status", status.into());
        Self { id: id.to_owned(), outputs, status, remove: remove(value) }
    }

    /// Sends it until it is answered. `None` if nobody did within the time that it is worth.
    pub(super) async fn send(&self, line: &Reconnecting, timing: &Timing) -> Option<Judgement> {
        let id = &self.id;
        let sending = async {
            if let Err(text) = self.set_keys(line).await? {
                // It stays among what is worked on, where somebody may find it.
                return Some(self.judged(VerdictWord::Rejected, Some(text)));
            }
            ask_until_heard(line, vec![self.remove.clone()]).await?;
            Some(self.judged(VerdictWord::Committed, None))
        };
        timeout(timing.report_patience, sending).await.unwrap_or_else(|_| {
            tracing::error!(id, "no answer to the report; it is given up");
            None
        })
    }

    /// `None` if the line is over.
    async fn set_keys(&self, line: &Reconnecting) -> Option<Result<(), String>> {
        let mut pauses = PAUSES.iter();
        loop {
            let mut error = error_in(ask_until_heard(line, self.outputs.to_vec()).await?);
            // The status comes last: whoever sees it finds the output.
            if error.is_none() {
                error = error_in(ask_until_heard(line, vec![self.status.clone()]).await?);
            }
            match (error, pauses.next()) {
                (None, _) => return Some(Ok(())),
                (Some(_), Some(pause)) => sleep(*pause).await,
                (Some(text), None) => return Some(Err(text)),
            }
        }
    }

    fn judged(&self, verdict: VerdictWord, reason: Option<String>) -> Judgement {
        Judgement { lease_id: self.id.clone(), verdict, reason }
    }
}

/// Gives a job back that cannot be finished here: first it is there again, then it is no longer
/// worked on.
pub(super) async fn give_back(line: &Reconnecting, queue: &str, value: &Bytes) {
    let push = vec![Bytes::from_static(b"LPUSH"), Bytes::from(queue.to_owned()), value.clone()];
    if ask_until_heard(line, vec![push, remove(value)]).await.is_none() {
        tracing::warn!(queue, "a job could not be given back; it stays in {PROCESSING}");
    }
}

fn error_in(replies: Vec<Reply>) -> Option<String> {
    replies.into_iter().find_map(|reply| match reply {
        Reply::Error(text) => Some(text.into_owned()),
        _ => None,
    })
}

fn remove(value: &Bytes) -> Request {
    let mut words = request(&["LREM", PROCESSING, "1"]);
    words.push(value.clone());
    words
}

/// Sends the same again on each new connection. `None` if the line is over.
async fn ask_until_heard(line: &Reconnecting, requests: Vec<Request>) -> Option<Vec<Reply>> {
    loop {
        match line.ask_all(requests.clone()).await {
            Ok(replies) => return Some(replies),
            Err(Unanswered::Lost) => {}
            Err(Unanswered::Closed) => return None,
        }
    }
}

/// The status, and what all steps wrote.
fn told(outcome: &Outcome) -> (&'static str, String, String) {
    let (status, json, reason) = match outcome {
        Outcome::Completed { result, .. } => ("completed", Some(result), None),
        Outcome::Failed { reason, details, .. } => ("failed", details.as_ref(), Some(reason)),
    };
    let steps: PlanResult =
        json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for step in steps.task_results {
        stdout.push_str(&step.stdout);
        stderr.push_str(&step.stderr);
    }
    // There is no other place that could say why.
    if let Some(reason) = reason {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(reason);
        stderr.push('\n');
    }
    (status, stdout, stderr)
}

/// The end of a text says more than its beginning.
fn cut(text: String) -> String {
    if text.len() <= OUTPUT_BYTES_MAX {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - OUTPUT_BYTES_MAX);
    text[start..].to_owned()
}

/// What an error reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The key is wrong, or missing.
    WrongKey,
    /// The key does not allow it.
    NotAllowed,
    /// The server does not know such a command.
    UnknownCommand,
    /// The work is not wanted any more.
    Cancelled,
    /// What was said breaks the contract.
    Rejected,
    /// The server does not know this worker.
    NotRegistered,
    /// The same request may be answered later.
    Passing,
    /// Something else, which asking again would not change.
    Other,
}

/// Parts of texts, and what they mean; the first that is found counts.
const PARTS: [(&str, Meaning); 11] = [
    ("noauth", Meaning::WrongKey),
    ("invalid authentication key", Meaning::WrongKey),
    ("auth key cannot be empty", Meaning::WrongKey),
    ("invalid password", Meaning::WrongKey),
    ("unknown command", Meaning::UnknownCommand),
    ("worker not registered", Meaning::NotRegistered),
    ("try again", Meaning::Passing),
    ("connect again", Meaning::Passing),
    ("max number of clients", Meaning::Passing),
    ("internal error", Meaning::Passing),
    ("rate limit", Meaning::Passing),
];

/// Reads an error reply.
pub(super) fn meaning(text: &str) -> Meaning {
    let code = text.split_whitespace().next().unwrap_or_default();
    match code {
        "NOAUTH" | "WRONGPASS" => return Meaning::WrongKey,
        "NOPERM" => return Meaning::NotAllowed,
        "CANCELLED" => return Meaning::Cancelled,
        "REJECTED" => return Meaning::Rejected,
        "BUSY" | "LOADING" | "TRYAGAIN" => return Meaning::Passing,
        _ => {}
    }
    let text = text.to_lowercase();
    let found = PARTS.iter().find(|(part, _)| text.contains(part));
    found.map_or(Meaning::Other, |(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests;
