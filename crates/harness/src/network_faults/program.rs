//! A task whose program prints known lines and leaves a line in a file each time that it really
//! runs; and whether everybody says so afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use model::{LeaseId, TaskId};
use protocol::rest::logs::LogLine;
use protocol::rest::tasks::Task;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit;
use crate::ledger::{self, Ledger};
use crate::rng::Rng;
use crate::test_cluster::TestCluster;

/// `$0` is the key, `$1` the file of executions, `$2` how many lines, `$3` how long to pause.
const SCRIPT: &str = r#"
printf '%s %s\n' "$0" "$ASTRA_LEASE_ID" >>"$1"
printf 'lease %s\n' "$ASTRA_LEASE_ID"
i=0
while [ "$i" -lt "$2" ]; do
  printf 'out %s %s\n' "$0" "$i"
  printf 'err %s %s\n' "$0" "$i" >&2
  if [ "$i" -eq 1 ]; then sleep "$3"; fi
  i=$((i+1))
done
"#;
const LINES_MIN: u64 = 3;
const LINES_MAX: u64 = 12;
/// One in so many tasks prints so much that its log needs several frames.
const LONG_ONE_IN: u64 = 40;
const LONG_LINES: u64 = 1500;
/// The ending of an attempt whose worker was not heard of for too long.
const EXPIRED: &str = "EXPIRED";
/// The ending of an attempt that its worker never confirmed.
const UNDELIVERED: &str = "UNDELIVERED";

/// What the program of one task does.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) key: String,
    pub(super) n_lines: u64,
    pub(super) pause: Duration,
    pub(super) lease_ttl: Duration,
}

impl Program {
    pub(super) fn random(number: u64, rng: &mut Rng, lease_ttl: Duration) -> Self {
        let n_lines = if rng.one_in(LONG_ONE_IN) {
            LONG_LINES
        } else {
            LINES_MIN + rng.below(LINES_MAX - LINES_MIN)
        };
        Self { key: format!("program-{number}"), n_lines, pause: rng.millis(50, 300), lease_ttl }
    }

    /// The task; each execution appends a line to `executions`.
    pub(super) fn task(&self, executions: &Path) -> Value {
        let (lines, pause) = (self.n_lines.to_string(), format!("{:.3}", self.pause.as_secs_f64()));
        let argv = json!(["sh", "-c", SCRIPT, self.key, executions, lines, pause]);
        ledger::task("command", &self.key, &json!({ "argv": argv }), self.lease_ttl)
    }

    /// What it prints to stdout under this lease.
    fn stdout(&self, lease: LeaseId) -> String {
        let mut text = format!("lease {lease}\n");
        self.lines("out", &mut text);
        text
    }

    /// What it prints to stderr.
    fn stderr(&self) -> String {
        let mut text = String::new();
        self.lines("err", &mut text);
        text
    }

    fn lines(&self, word: &str, text: &mut String) {
        for line in 0..self.n_lines {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{word} {} {line}", self.key);
        }
    }
}

/// How often programs really ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Executions {
    /// Tasks that needed more than one attempt.
    pub(super) attempted_again: usize,
    /// Tasks whose program ran more than once.
    pub(super) executed_again: usize,
    pub(super) log_bytes: usize,
}

/// Compares what each program has left behind with its attempts, its result and its log.
pub(super) async fn check(
    cluster: &TestCluster,
    ledger: &Ledger,
    tasks: &BTreeMap<TaskId, Task>,
    (programs, leases_may_end): (&[Program], bool),
) -> Result<Executions> {
    let ran = executions(&executions_path(cluster))?;
    let mut executions = Executions::default();
    for program in programs {
        // Those that are missing are in the books already.
        let id = ledger.open().acknowledged.get(&program.key).copied();
        let Some(task) = id.and_then(|id| tasks.get(&id)) else { continue };
        let log = cluster.client.get_text(&format!("/api/v1/tasks/{}/log", task.task_id)).await?;
        let ran = ran.get(&program.key).map(Vec::as_slice).unwrap_or_default();
        let mut case = Case { program, task, ran, violations: Vec::new() };
        case.check_attempts(leases_may_end);
        executions.log_bytes += case.check_output(&log)?;
        executions.attempted_again += usize::from(task.attempt > 1);
        executions.executed_again += usize::from(ran.len() > 1);
        ledger.open().violations.extend(case.violations);
    }
    Ok(executions)
}

/// Where programs leave a line for each execution.
pub(super) fn executions_path(cluster: &TestCluster) -> std::path::PathBuf {
    cluster.folder().join("executions")
}

/// The leases under which each program was really executed.
fn executions(path: &Path) -> Result<BTreeMap<String, Vec<LeaseId>>> {
    let text = std::fs::read_to_string(path).context("no program left a line")?;
    let mut executions: BTreeMap<String, Vec<LeaseId>> = BTreeMap::new();
    for line in text.lines() {
        let (key, lease) = line.split_once(' ').context("a line without a lease")?;
        executions.entry(key.into()).or_default().push(lease.parse()?);
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

/// All that there is about one task.
struct Case<'a> {
    program: &'a Program,
    task: &'a Task,
    /// The leases of its executions.
    ran: &'a [LeaseId],
    violations: Vec<String>,
}

impl Case<'_> {
    fn violation(&mut self, what: impl std::fmt::Display) {
        let Task { task_id, .. } = self.task;
        self.violations.push(format!("{} ({task_id}): {what}", self.program.key));
    }

    /// Only a lease that ended or never reached its worker makes another attempt, and no lease is
    /// executed twice, whatever arrives twice.
    fn check_attempts(&mut self, leases_may_end: bool) {
        let (task, ran) = (self.task, self.ran);
        for attempt in &task.ended_attempts {
            let was_executed = ran.iter().any(|lease| lease.to_string() == attempt.lease_id);
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
        if ran.iter().collect::<BTreeSet<_>>().len() < ran.len() {
            self.violation(format_args!("a lease was executed twice: {ran:?}"));
        }
        let n_leases = 1 + task.ended_attempts.len();
        if ran.len() > n_leases {
            self.violation(format_args!("{} executions, {n_leases} leases", ran.len()));
        }
    }

    /// Result and log say exactly what the program of the last attempt printed. Gives how many
    /// bytes the log has of it.
    fn check_output(&mut self, log: &str) -> Result<usize> {
        let lease = audit::stamp(self.task).filter(|lease| self.ran.contains(lease));
        let (Some(result), Some(lease)) = (&self.task.result, lease) else {
            self.violation("it has no result of a lease that was executed");
            return Ok(0);
        };
        let output: Output = serde_json::from_str(result.get()).context("an unreadable result")?;
        let (stdout, stderr) = (self.program.stdout(lease), self.program.stderr());
        if output.truncated || output.stdout != stdout || output.stderr != stderr {
            self.violation("its result is not what the program printed");
        }
        let logged = Logged::read(log, lease.epoch)?;
        self.compare("stdout", &logged.stdout, &stdout);
        self.compare("stderr", &logged.stderr, &stderr);
        // An attempt that lost its lease may fall silent anywhere in its output.
        if logged.dropped > 0 && self.task.ended_attempts.is_empty() {
            self.violation(format_args!("{} bytes of its log were dropped", logged.dropped));
        }
        Ok(logged.stdout.len() + logged.stderr.len())
    }

    fn compare(&mut self, channel: &str, logged: &str, printed: &str) {
        if logged != printed {
            let same =
                logged.lines().zip(printed.lines()).take_while(|(left, right)| left == right);
            let place = same.count() + 1;
            self.violation(format_args!(
                "its log has {} bytes of {channel}, the program printed {}; they differ at line \
                 {place}",
                logged.len(),
                printed.len()
            ));
        }
    }
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
