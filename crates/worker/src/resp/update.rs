//! `JOB.UPDATE`: what is said about a job to a server that knows leases, and how its answer is
//! read (seed 004 section 4.2).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use model::{Timestamp, WorkerId};
use protocol::resp::reply::Reply;
use protocol::rest::leases::VerdictWord;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::connection::Request;
use super::error_text::{Meaning, meaning};
use super::job::{Claim, Job};
use super::line::{Line, Unanswered};
use super::pace::Pace;
use crate::attempt::Judgement;
use crate::executor::Outcome;

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

#[derive(Default, Serialize)]
struct Update<'a> {
    status: &'a str,
    worker_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_task: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
pub(super) struct Speaker<'a> {
    pub(super) job: &'a Job,
    pub(super) worker_id: &'a WorkerId,
}

impl Speaker<'_> {
    /// The work begins.
    pub(super) fn started(self) -> Request {
        let started_at = Some(now());
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
                completed_at: Some(now()),
                task_results: results(result),
                ..self.blank()
            },
            Outcome::Failed { code, reason, retryable, details } => Update {
                status: "failed",
                failed_at: Some(now()),
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

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().after(since).to_string()
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
    line: &Line,
    request: &Request,
    lease_id: &str,
    pace: &Pace,
) -> Option<Judgement> {
    let judged = |verdict, reason| Judgement { lease_id: lease_id.into(), verdict, reason };
    let sending = async {
        let mut pause = pace.retry_pause;
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
    timeout(pace.report_patience, sending).await.unwrap_or_else(|_| {
        let patience = pace.report_patience;
        tracing::error!(lease_id, "no answer to the report within {patience:?}; it is given up");
        None
    })
}

#[cfg(test)]
mod tests;
