//! What must be true when everything is over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use model::LeaseId;
use protocol::rest::logs::LogLine;
use protocol::rest::tasks::{State, Task, TaskPage};
use serde::Deserialize;
use worker::client::Client;

use super::job::Job;

const PAGE: usize = 200;
/// The ending of an attempt whose worker was not heard of for too long.
const EXPIRED: &str = "EXPIRED";
/// The ending of an attempt that its worker never confirmed.
const UNDELIVERED: &str = "UNDELIVERED";

/// What the audit found, in numbers, and in words where a promise is broken.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) completed: usize,
    /// Tasks that needed more than one attempt.
    pub(super) attempted_again: usize,
    /// Tasks whose program ran more than once.
    pub(super) executed_again: usize,
    pub(super) log_bytes: usize,
    pub(super) violations: Vec<String>,
}

/// What the client knows.
pub(super) struct Expected<'a> {
    pub(super) jobs: &'a [Job],
    /// Where programs have left a line for each execution.
    pub(super) executions: &'a Path,
    /// Whether workers were cut off silently, so that leases may have ended.
    pub(super) leases_may_end: bool,
}

/// Compares what the client knows with what the server says.
pub(super) async fn audit(client: &Client, expected: &Expected<'_>) -> Result<Findings> {
    let tasks = all_tasks(client).await?;
    let executions = executions(expected.executions)?;
    let mut findings = Findings::default();
    for job in expected.jobs {
        let Some(task) = tasks.get(&job.key) else {
            findings.violations.push(format!("{} was acknowledged and is missing", job.key));
            continue;
        };
        let ran = executions.get(&job.key).map(Vec::as_slice).unwrap_or_default();
        let log = client.get_text(&format!("/api/v1/tasks/{}/log", task.task_id)).await?;
        let mut file = File { job, task, ran, findings: &mut findings };
        file.check_state(expected.leases_may_end);
        file.check_executions();
        file.check_output(&log)?;
    }
    Ok(findings)
}

async fn all_tasks(client: &Client) -> Result<BTreeMap<String, Task>> {
    let mut tasks = BTreeMap::new();
    let mut path = format!("/api/v1/tasks?limit={PAGE}");
    loop {
        let page: TaskPage = client.get(&path).await?;
        for task in page.tasks {
            let key = task.idempotency_key.clone().context("a task without its key")?;
            tasks.insert(key, task);
        }
        let Some(cursor) = page.next_cursor else { return Ok(tasks) };
        path = format!("/api/v1/tasks?limit={PAGE}&cursor={cursor}");
    }
}

/// The leases under which each job was really executed.
fn executions(path: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let text = std::fs::read_to_string(path).context("no task left a line")?;
    let mut executions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let (key, lease) = line.split_once(' ').context("a line without a lease")?;
        executions.entry(key.into()).or_default().push(lease.into());
    }
    Ok(executions)
}

/// The result of a command, as far as it is checked.
#[derive(Deserialize)]
struct Output {
    stdout: String,
    stderr: String,
    truncated: bool,
}

/// All that there is about one job.
struct File<'a> {
    job: &'a Job,
    task: &'a Task,
    ran: &'a [String],
    findings: &'a mut Findings,
}

impl File<'_> {
    fn violation(&mut self, what: impl std::fmt::Display) {
        let Task { task_id, .. } = self.task;
        self.findings.violations.push(format!("{} ({task_id}): {what}", self.job.key));
    }

    /// It completed, and only a lease that ended or never reached its worker makes another attempt.
    fn check_state(&mut self, leases_may_end: bool) {
        let task = self.task;
        if task.state == State::Completed {
            self.findings.completed += 1;
        } else {
            self.violation(format_args!("ended up {}", task.state.word()));
        }
        if task.attempt > 1 {
            self.findings.attempted_again += 1;
        }
        for attempt in &task.ended_attempts {
            let was_executed = self.ran.contains(&attempt.lease_id);
            let is_fine = match attempt.ending.as_str() {
                UNDELIVERED => !was_executed || leases_may_end,
                EXPIRED => leases_may_end,
                _ => false,
            };
            if !is_fine {
                self.violation(format_args!(
                    "attempt {} by {} ended {}",
                    attempt.lease_id, attempt.worker_id, attempt.ending
                ));
            }
        }
    }

    /// No lease is executed twice, whatever arrives twice.
    fn check_executions(&mut self) {
        let ran = self.ran;
        let leases: BTreeSet<_> = ran.iter().collect();
        if leases.len() < ran.len() {
            self.violation(format_args!("a lease was executed twice: {ran:?}"));
        }
        if ran.len() > 1 {
            self.findings.executed_again += 1;
        }
        let n_leases = 1 + self.task.ended_attempts.len();
        if ran.len() > n_leases {
            self.violation(format_args!("{} executions, {n_leases} leases", ran.len()));
        }
    }

    /// Result and log say exactly what the program of the last attempt said.
    fn check_output(&mut self, log: &str) -> Result<()> {
        let Some(result) = self.task.result.as_ref().filter(|_| !self.ran.is_empty()) else {
            self.violation("it has no result, or never ran");
            return Ok(());
        };
        let output: Output = serde_json::from_str(result.get()).context("an unreadable result")?;
        let lease = output.stdout.lines().next().and_then(|line| line.strip_prefix("lease "));
        let lease = lease.unwrap_or_default().to_owned();
        if !self.ran.contains(&lease) {
            self.violation(format_args!("its result is that of {lease}, which never ran"));
        }
        let (stdout, stderr) = (self.job.stdout(&lease), self.job.stderr());
        if output.truncated || output.stdout != stdout || output.stderr != stderr {
            self.violation("its result is not what the program said");
        }
        let epoch = lease.parse().map_or(0, |lease: LeaseId| lease.epoch);
        let logged = Logged::read(log, epoch)?;
        self.findings.log_bytes += logged.stdout.len() + logged.stderr.len();
        self.compare("stdout", &logged.stdout, &stdout);
        self.compare("stderr", &logged.stderr, &stderr);
        // An attempt that lost its lease may fall silent anywhere in its output.
        if logged.dropped > 0 && self.task.ended_attempts.is_empty() {
            self.violation(format_args!("{} bytes of its log were dropped", logged.dropped));
        }
        Ok(())
    }

    fn compare(&mut self, channel: &str, logged: &str, said: &str) {
        if logged != said {
            let place = first_difference(logged, said);
            self.violation(format_args!(
                "its log has {} bytes of {channel}, the program said {}; they differ at line {place}",
                logged.len(),
                said.len()
            ));
        }
    }
}

fn first_difference(left: &str, right: &str) -> usize {
    let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right);
    same.count() + 1
}

/// What the log has of one attempt, and what it has lost of any.
#[derive(Debug, Default, PartialEq, Eq)]
struct Logged {
    stdout: String,
    stderr: String,
    dropped: u64,
}

impl Logged {
    fn read(log: &str, epoch: u32) -> Result<Self> {
        let mut logged = Self::default();
        for line in log.lines().filter(|line| !line.is_empty()) {
            let line: LogLine = serde_json::from_str(line).context("an unreadable log")?;
            logged.dropped += line.dropped.unwrap_or(0);
            if line.attempt != Some(epoch) {
                continue;
            }
            let text = line.text.unwrap_or_default();
            match line.channel.as_deref() {
                Some("stdout") => logged.stdout += &text,
                Some("stderr") => logged.stderr += &text,
                Some(_) | None => {}
            }
        }
        Ok(logged)
    }
}
