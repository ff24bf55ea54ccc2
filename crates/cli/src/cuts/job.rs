//! A task that says known lines, and leaves a line in a file for each time that it really runs.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use protocol::rest::tasks::{Retry, TaskToSubmit};
use serde_json::value::to_raw_value;

use crate::chaos::Dice;

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
/// One in so many tasks says so much that its log needs several frames.
const TALKER_ONE_IN: u64 = 40;
const TALKER_LINES: u64 = 1500;
const ATTEMPTS_MAX: i64 = 20;

/// What one task does.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) key: String,
    pub(super) n_lines: u64,
    pub(super) pause: Duration,
    pub(super) lease_ttl: Duration,
}

impl Job {
    pub(super) fn by_chance(number: u64, dice: &mut Dice, lease_ttl: Duration) -> Self {
        let n_lines = if dice.one_in(TALKER_ONE_IN) {
            TALKER_LINES
        } else {
            LINES_MIN + dice.below(LINES_MAX - LINES_MIN)
        };
        Self { key: format!("job-{number}"), n_lines, pause: dice.millis(50, 300), lease_ttl }
    }

    /// The task; each execution appends a line to `executions`.
    pub(super) fn task(&self, executions: &Path) -> Result<TaskToSubmit> {
        let executions = executions.to_str().context("the folder's name is not valid UTF-8")?;
        let (lines, pause) = (self.n_lines.to_string(), format!("{:.3}", self.pause.as_secs_f64()));
        let argv = ["sh", "-c", SCRIPT, &self.key, executions, &lines, &pause];
        Ok(TaskToSubmit {
            task_type: "command".into(),
            parameters: Some(to_raw_value(&serde_json::json!({ "argv": argv }))?),
            queue: None,
            priority: None,
            not_before: None,
            after: Vec::new(),
            timeout_ms: None,
            lease_ttl_ms: i64::try_from(self.lease_ttl.as_millis()).ok(),
            retry: Some(Retry {
                max_attempts: Some(ATTEMPTS_MAX),
                backoff_ms: Some(10),
                backoff_max_ms: Some(100),
            }),
            concurrency_key: None,
            run: None,
            requires: None,
            idempotency_key: Some(self.key.clone()),
        })
    }

    /// What it says on standard output under this lease.
    pub(super) fn stdout(&self, lease_id: &str) -> String {
        let mut text = format!("lease {lease_id}\n");
        self.lines("out", &mut text);
        text
    }

    /// What it says on standard error.
    pub(super) fn stderr(&self) -> String {
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
