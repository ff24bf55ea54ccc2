//! Words about jobs: `JOB.UPDATE`, and `SET job:<id>:status` of workers that know nothing else.

use bytes::Bytes;
use coordinator::{HeartbeatVerdict, Renewal, TaskRecord, TaskState};
use model::{Failure, LeaseId, Report, ReportedOutcome, WorkerId};
use protocol::resp::reply::Reply;
use protocol::session::payload::exec::Feedback;
use serde_json::json;
use shard::report_key::{CODE_CHARS_MAX, REASON_CHARS_MAX, content_key};

use super::answers::{Answered, RespError, Step, Update, worker_id_in};
use super::answers::{lost_words, status_word, verdict_reply};
use super::connection::Connection;
use super::dispatch::Invocation;
use crate::handle::AskError;
use crate::plans::job::retries_of;
use crate::wire_words::payload::RESULT_BYTES_MAX;
use crate::wire_words::payload::{describe, is_object};

const DEFAULT_CODE: &str = "E.RUNNER.FAILURE";

/// An update that is understood.
struct Word {
    job: String,
    worker: WorkerId,
    lease: LeaseId,
    /// What is reported, when the job is over.
    outcome: Option<ReportedOutcome>,
    feedback: Option<Feedback>,
}

impl Connection {
    /// A run of updates: neighbours that end jobs are one report, neighbours that do not are one
    /// heartbeat.
    pub(super) async fn answer_updates(&mut self, run: &[Invocation]) {
        let mut words = Vec::with_capacity(run.len());
        for request in run {
            let word = match self.allow(request) {
                Ok(()) => self.read_update(&request.arguments[1], &request.arguments[2]).await,
                Err(error) => Err(error),
            };
            words.push(word);
        }
        let mut rest = words;
        while !rest.is_empty() {
            let kind = kind_of(&rest[0]);
            let n_same = rest.iter().take_while(|word| kind_of(word) == kind).count();
            let after = rest.split_off(n_same);
            let replies = match kind {
                None => rest.into_iter().filter_map(Result::err).map(Reply::from).collect(),
                Some(true) => self.report(rest.into_iter().flatten().collect()).await,
                Some(false) => self.progress(rest.into_iter().flatten().collect()).await,
            };
            for reply in &replies {
                self.reply(reply);
            }
            rest = after;
        }
    }

    async fn read_update(&self, job: &[u8], json: &Bytes) -> Answered<Word> {
        let job = std::str::from_utf8(job).map_err(|_| RespError::new("ERR job_id is not text"))?;
        if json.len() > RESULT_BYTES_MAX {
            let text = format!("the update has {} bytes; at most {RESULT_BYTES_MAX}", json.len());
            return Err(text.into());
        }
        if !is_object(json) {
            return Err(RespError::new("ERR an update is a JSON object"));
        }
        let update: Update<'_> = serde_json::from_slice(json)
            .map_err(|error| format!("Invalid update JSON: {}", describe(json, &error)))?;
        let step = update.step()?;
        let worker = self.update_worker(&update)?;
        let (lease, may_retry) = self.lease_for(job, &worker, &update).await?;
        let outcome = match step {
            Step::Progress => None,
            // The result is what the worker sent, as it sent it.
            Step::Completed => Some(ReportedOutcome::Completed {
                result: Bytes::copy_from_slice(json),
                extra: None,
            }),
            Step::Failed => Some(failed(&update, json, may_retry)),
        };
        let feedback = (step == Step::Progress).then(|| feedback(&update)).flatten();
        Ok(Word { job: job.to_owned(), worker, lease, outcome, feedback })
    }

    /// In whose name the update speaks.
    fn update_worker(&self, update: &Update<'_>) -> Answered<WorkerId> {
        let member = self.member();
        let Some(named) = &update.worker_id else { return Ok(member.worker()) };
        let named = worker_id_in(named)?;
        if named == member.worker() || self.check_speaks_for(&named).is_ok() {
            return Ok(named);
        }
        let text = format!("REJECTED not_holder: this key does not speak for worker {named}");
        Err(RespError::new(text))
    }

    /// The lease that a word about a job is about, and whether a failure may be tried again.
    async fn lease_for(
        &self,
        job: &str,
        worker: &WorkerId,
        update: &Update<'_>,
    ) -> Answered<(LeaseId, bool)> {
        let said = update.lease_id.as_deref().map(|text| self.read_lease(text)).transpose()?;
        let (task, newest, may_retry) =
            if let Some(held) = self.member().workers().held(worker, job) {
                (held.lease.task, Ok(held.lease), held.attempt <= held.retries)
            } else {
                let record = self.record(job).await?;
                let may_retry = record.progress.attempt <= retries_of(&record.spec);
                let newest = epoch_of(&record, worker)
                    .map(|epoch| LeaseId { task: record.id, epoch })
                    .ok_or_else(|| not_holder(&record, worker, job));
                (record.id, newest, may_retry)
            };
        match said {
            None => Ok((newest?, may_retry)),
            Some(lease) if lease.task == task => Ok((lease, may_retry)),
            Some(lease) => {
                let text = format!("REJECTED unknown_lease: {lease} is no lease of job {job}");
                Err(RespError::new(text))
            }
        }
    }

    fn read_lease(&self, text: &str) -> Answered<LeaseId> {
        let lease: LeaseId = text
            .parse()
            .map_err(|_| RespError::new("REJECTED malformed: lease_id is no lease of a job"))?;
        if lease.task.shard() != self.member().handle.shard() {
            return Err(RespError::new("REJECTED unknown_task: there is no such job"));
        }
        Ok(lease)
    }

    /// Reports that end jobs. The verdict is the reply.
    async fn report(&mut self, words: Vec<Word>) -> Vec<Reply> {
        let reports: Vec<Report> = words.iter().filter_map(report_of).collect();
        let handle = self.member().handle.clone();
        let judgements = match handle.report(reports).await {
            Ok(judgements) => judgements,
            Err(error) => return unanswered(error, words.len()),
        };
        let mut replies = Vec::with_capacity(words.len());
        for (word, judgement) in words.iter().zip(judgements) {
            self.forget_taken(word.lease);
            let task = word.lease.task;
            self.member().workers().known(&word.worker, |worker| worker.let_go(task));
            // A failed attempt that is tried again is committed too.
            replies.push(verdict_reply(judgement.verdict, &word.job));
        }
        replies
    }

    /// Signs of life, and how far jobs are.
    async fn progress(&mut self, words: Vec<Word>) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(words.len());
        let mut rest = words;
        while let Some(first) = rest.first() {
            let worker = first.worker.clone();
            let n_same = rest.iter().take_while(|word| word.worker == worker).count();
            let after = rest.split_off(n_same);
            replies.extend(self.progress_of(worker, rest).await);
            rest = after;
        }
        replies
    }

    async fn progress_of(&mut self, worker: WorkerId, words: Vec<Word>) -> Vec<Reply> {
        let leases: Vec<LeaseId> = words.iter().map(|word| word.lease).collect();
        let member = self.member().clone();
        let now = self.app.clock.now();
        member.workers().known(&worker, |known| known.last_seen = now);
        let verdicts = match member.handle.heartbeat(worker, Renewal::Listed(leases)).await {
            Ok(beaten) => beaten.verdicts,
            Err(error) => return unanswered(error, words.len()),
        };
        let mut replies = Vec::with_capacity(words.len());
        for (word, verdict) in words.into_iter().zip(verdicts) {
            self.prove(word.lease);
            if let (HeartbeatVerdict::Extended { .. }, Some(feedback)) = (verdict, word.feedback) {
                // Progress decides nothing: a hub that cannot take it does not fail the job.
                let hub = &self.app.feedback;
                let _ = hub.take(word.lease, feedback, Some(&member.handle)).await;
            }
            replies.push(progress_reply(&word.job, verdict));
        }
        replies
    }

    /// A report by workers that know only `SET`: the verdict is not theirs to hear, and anything
    /// but `OK` would make them try again.
    pub(super) async fn report_by_set(&mut self, job: &str, status: &[u8]) -> Answered {
        let worker = self.member().worker();
        let held = self.member().workers().held(&worker, job);
        let text = |name: &str| {
            let output = held.as_ref().and_then(|held| held.outputs.get(name).cloned());
            String::from_utf8_lossy(&output.unwrap_or_default()).into_owned()
        };
        let status = String::from_utf8_lossy(status).into_owned();
        let update = json!({
            "status": status,
            "stdout": text("stdout"),
            "stderr": text("stderr"),
            "error": format!("the worker set the status {status}"),
        });
        let json = Bytes::from(update.to_string());
        let word = self.read_update(job.as_bytes(), &json).await?;
        let replies = match word.outcome {
            Some(_) => self.report(vec![word]).await,
            None => self.progress(vec![word]).await,
        };
        match replies.into_iter().next() {
            Some(Reply::Error(text))
                if text.starts_with("CANCELLED") || text.starts_with("REJECTED") =>
            {
                tracing::info!(%worker, job, %text, "a report does not count");
                Ok(Reply::ok())
            }
            reply => Ok(reply.unwrap_or(Reply::ok())),
        }
    }
}

/// The same reply to each word. A refusal says nothing of any one of them, so they are sent again.
fn unanswered(error: AskError, n_words: usize) -> Vec<Reply> {
    let error = match error {
        AskError::Refused(_) => AskError::Unavailable,
        other => other,
    };
    vec![RespError::from(error).into(); n_words]
}

/// `Some(true)` ends a job, `Some(false)` does not, `None` is refused.
fn kind_of(word: &Answered<Word>) -> Option<bool> {
    word.as_ref().ok().map(|word| word.outcome.is_some())
}

fn report_of(word: &Word) -> Option<Report> {
    let outcome = word.outcome.clone()?;
    let key = content_key(&outcome);
    Some(Report { lease: word.lease, worker: word.worker.clone(), key, outcome })
}

fn failed(update: &Update<'_>, json: &Bytes, may_retry: bool) -> ReportedOutcome {
    let cut = |text: &str, chars_max| text.chars().take(chars_max).collect::<String>();
    let code = update.error_code.as_deref().filter(|code| !code.is_empty());
    let failure = Failure {
        code: cut(code.unwrap_or(DEFAULT_CODE), CODE_CHARS_MAX),
        reason: cut(&update.reason(), REASON_CHARS_MAX),
        details: Some(Bytes::copy_from_slice(json)),
    };
    ReportedOutcome::Failed { failure, retryable: update.retryable.unwrap_or(may_retry) }
}

fn feedback(update: &Update<'_>) -> Option<Feedback> {
    let stage = update.current_task.map(|task| format!("task {task}"));
    let progress = update.progress_percent.map(|percent| (percent / 100.0).clamp(0.0, 1.0));
    let message = update.message.as_ref().map(|text| text.clone().into_owned());
    if stage.is_none() && progress.is_none() && message.is_none() {
        return None;
    }
    Some(Feedback { stage, progress, message, ..Feedback::default() })
}

fn progress_reply(job: &str, verdict: HeartbeatVerdict) -> Reply {
    match verdict {
        HeartbeatVerdict::Extended { .. } => Reply::ok(),
        HeartbeatVerdict::Cancelled(coordinator::LostAuthority::Reported) => {
            Reply::error(format!("ERR Invalid status transition: {job} was reported already"))
        }
        HeartbeatVerdict::Cancelled(lost) => {
            let (word, why) = lost_words(lost);
            Reply::error(format!("CANCELLED {word}: {why}; stop working on {job}"))
        }
        HeartbeatVerdict::Rejected(violation) => {
            verdict_reply(coordinator::Verdict::Rejected(violation), job)
        }
    }
}

/// The newest lease of a job that a worker was given.
fn epoch_of(record: &TaskRecord, worker: &WorkerId) -> Option<u32> {
    let current = match &record.progress.state {
        TaskState::Leased(lease) => Some(&lease.holder),
        TaskState::Settled(settlement) => settlement.holder.as_ref(),
        TaskState::Waiting { .. } | TaskState::Ready => None,
    };
    if current == Some(worker) {
        return Some(record.progress.epoch);
    }
    let ended = record.ended_attempts.iter().rev().find(|ended| ended.worker == *worker);
    ended.map(|ended| ended.epoch)
}

fn not_holder(record: &TaskRecord, worker: &WorkerId, job: &str) -> RespError {
    RespError::new(if let TaskState::Leased(lease) = &record.progress.state {
        let holder = &lease.holder;
        format!("REJECTED not_holder: Worker {worker} cannot update job claimed by {holder}: {job}")
    } else {
        let word = status_word(record.progress.state.word());
        format!(
            "ERR Invalid status transition: {job} is {word}, and worker {worker} does not hold it"
        )
    })
}
