//! The node type `command`: a program by argv, its output streamed, its end reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_with::skip_serializing_none;
use tokio::time::Instant;

use crate::core::executor::{
    Assignment, CANCELLED, Context, Executor, Outcome, PARAMETERS_INVALID, TIMEOUT, Work,
};
use crate::runner::command::parameters::{OUTPUT_BYTES, Parameters};
use crate::runner::output::{CapturedText, Spooled};
use crate::runner::process::Watchdog;
use crate::runner::streams::Captures;
use crate::runner::supervise::{
    self, EXIT, Ended, Ending, GRACE, Invocation, SINK_PATIENCE, SpawnError, last_line, not_started,
};
use crate::runner::tools::{Environment, Tools, scrubbed};
use crate::sandbox::cell::{Cell, Sandbox};

pub mod parameters;

/// The node type.
pub const COMMAND: &str = "command";
/// The largest result, as JSON: one that fits into a frame of a session. Escaped text can be six
/// times as long as the bytes that were kept.
pub const RESULT_BYTES_MAX: usize = 1000 * 1024;

/// How commands are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a program may take to leave when asked to.
    pub grace: Duration,
    /// How long the last words of a program wait for a session that takes nothing.
    pub sink_patience: Duration,
    /// The largest result that can be reported; output is shortened until it fits.
    pub result_bytes_max: usize,
    /// Of which environment a program may inherit; no more than the harmless part is.
    pub environment: Environment,
    /// Which programs may be started.
    pub tools: Tools,
    /// What holds them, if anything does.
    pub sandbox: Option<Sandbox>,
}

impl Default for Options {
    fn default() -> Self {
        let environment = scrubbed(std::env::vars_os());
        Self {
            grace: GRACE,
            sink_patience: SINK_PATIENCE,
            result_bytes_max: RESULT_BYTES_MAX,
            environment,
            tools: Tools::default(),
            sandbox: None,
        }
    }
}

/// Runs commands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CommandRunner {
    pub(super) options: Arc<Options>,
    watchdog: Arc<Watchdog>,
}

/// What became of a command.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Completed or failed, as it is reported.
    pub outcome: Outcome,
    /// How it ended and what it said; `None` if it never ran. The same as the result of a command
    /// that completed, and there for one that failed as well.
    pub result: Option<Box<RawValue>>,
}

impl CommandRunner {
    /// A runner that has not started anything.
    pub fn new(mut options: Options) -> Self {
        options.environment = scrubbed(options.environment);
        Self { options: Arc::new(options), watchdog: Arc::default() }
    }

    /// Runs the command of an assignment; what it says goes to the feedback as it comes. The stop of
    /// the context asks the program to leave and makes it after the grace; dropping the future kills
    /// it at once.
    pub async fn run(&self, assignment: &Assignment, context: &Context) -> Finished {
        let not_run = |outcome| Finished { outcome, result: None };
        match Parameters::parse(assignment.parameters.get()) {
            Ok(parameters) => match self.run_held(assignment, parameters, context).await {
                Ok(finished) => finished,
                Err(error) => not_run(not_started(&error)),
            },
            Err(why) => not_run(Outcome::hopeless(PARAMETERS_INVALID, why)),
        }
    }

    async fn run_held(
        &self,
        assignment: &Assignment,
        parameters: Parameters,
        context: &Context,
    ) -> Result<Finished, SpawnError> {
        let time = context.deadline.map(|deadline| deadline.duration_since(Instant::now()));
        let retry_exit = parameters.retry_exit;
        let cell = self.enter()?;
        let mut invocation = self.invocation(assignment, parameters, cell.clone());
        invocation.timeout = invocation.timeout.into_iter().chain(time).min();
        let ended = self.invoke(invocation, context).await;
        leave(cell).await;
        let ended = ended?;
        let result = result_of(&ended, self.options.result_bytes_max);
        let outcome = outcome_of(&ended, &result, retry_exit);
        Ok(Finished { outcome, result: Some(result) })
    }

    /// What holds the programs of one attempt, if anything does.
    pub(super) fn enter(&self) -> Result<Option<Arc<Cell>>, SpawnError> {
        let cell = self.options.sandbox.as_ref().map(Sandbox::enter).transpose();
        cell.map(|cell| cell.map(Arc::new)).map_err(SpawnError::Scratch)
    }

    /// Runs any program.
    pub(super) async fn invoke(
        &self,
        invocation: Invocation,
        context: &Context,
    ) -> Result<Ended, SpawnError> {
        supervise::run(invocation, context.feedback.clone(), &context.stop, &self.watchdog).await
    }

    /// What every program of this assignment is told.
    pub fn environment(&self, assignment: &Assignment, is_cleared: bool) -> Environment {
        let mut environment =
            if is_cleared { Environment::new() } else { self.options.environment.clone() };
        let attempt = assignment.attempt.to_string();
        let told = [
            ("ASTRA_TASK_ID", assignment.task_id.as_str()),
            ("ASTRA_ATTEMPT", &attempt),
            ("ASTRA_LEASE_ID", &assignment.lease_id),
        ];
        environment.extend(told.map(|(name, value)| (name.into(), value.into())));
        environment
    }

    fn invocation(
        &self,
        assignment: &Assignment,
        parameters: Parameters,
        cell: Option<Arc<Cell>>,
    ) -> Invocation {
        let told = self.environment(assignment, parameters.env_clear);
        let plain = self.plain(parameters.argv, told, parameters.env, cell);
        Invocation {
            cwd: parameters.cwd.map(PathBuf::from).or(plain.cwd),
            stdin: parameters.stdin.map(|text| Spooled::Bytes(text.into())),
            timeout: parameters.timeout_ms.map(Duration::from_millis),
            output_bytes_max: parameters.output_max_bytes,
            ..plain
        }
    }

    /// A program with nothing to read and as much time as it wants. It is told `told`, and
    /// `variables` where they say nothing about who it works for.
    pub(super) fn plain(
        &self,
        argv: Vec<String>,
        told: Environment,
        variables: BTreeMap<String, String>,
        cell: Option<Arc<Cell>>,
    ) -> Invocation {
        let mut environment: Environment =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        // Who the program works for is not the submitter's to say.
        for (name, value) in told {
            if name.to_string_lossy().starts_with("ASTRA_") {
                environment.insert(name, value);
            } else {
                environment.entry(name).or_insert(value);
            }
        }
        if let Some(cell) = &cell {
            cell.tell(&mut environment);
        }
        Invocation {
            argv,
            cwd: cell.as_ref().map(|cell| cell.folder().to_owned()),
            environment,
            stdin: None,
            timeout: None,
            output_bytes_max: OUTPUT_BYTES,
            spool: None,
            options: Arc::clone(&self.options),
            cell,
        }
    }
}

impl Executor for CommandRunner {
    fn types(&self) -> Vec<String> {
        vec![COMMAND.into()]
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        let runner = self.clone();
        Box::pin(async move { runner.run(&assignment, &context).await.outcome })
    }
}

/// Leaves nothing behind of what held the programs of an attempt.
pub(super) async fn leave(cell: Option<Arc<Cell>>) {
    if let Some(cell) = cell {
        cell.close().await;
    }
}

#[skip_serializing_none]
#[derive(Serialize)]
struct CommandResult<'a> {
    exit_code: Option<i32>,
    signal: Option<i32>,
    duration_ms: u64,
    stdout: &'a str,
    stderr: &'a str,
    truncated: bool,
    #[serde(skip_serializing_if = "is_zero")]
    stdout_dropped_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    stderr_dropped_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The result as JSON. A result that nobody takes would be a command that never ends, so output
/// is halved until it fits.
fn result_of(ended: &Ended, bytes_max: usize) -> Box<RawValue> {
    let Captures { stdout, stderr } = &ended.captures;
    let mut kept_max = stdout.n_kept().max(stderr.n_kept());
    let mut json = json_of(ended, &stdout.text(), &stderr.text());
    while json.get().len() > bytes_max && kept_max > 0 {
        kept_max /= 2;
        let (stdout, stderr) = (stdout.narrowed(kept_max), stderr.narrowed(kept_max));
        json = json_of(ended, &stdout.text(), &stderr.text());
    }
    json
}

fn json_of(ended: &Ended, stdout: &CapturedText, stderr: &CapturedText) -> Box<RawValue> {
    let (exit_code, signal) = match ended.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Signalled(signal) => (None, Some(signal)),
        // They end by a signal of ours; which one it was says nothing about the program.
        Ending::TimedOut | Ending::Stopped | Ending::Unspooled => (None, None),
    };
    let result = CommandResult {
        exit_code,
        signal,
        duration_ms: u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX),
        stdout: &stdout.text,
        stderr: &stderr.text,
        truncated: stdout.dropped_bytes + stderr.dropped_bytes > 0,
        stdout_dropped_bytes: stdout.dropped_bytes,
        stderr_dropped_bytes: stderr.dropped_bytes,
    };
    to_raw_value(&result).expect("plain values become JSON")
}

fn outcome_of(ended: &Ended, result: &RawValue, retry_exit: bool) -> Outcome {
    let (code, sentence) = match ended.ending {
        Ending::Exited(0) => return Outcome::done(result.to_owned()),
        Ending::Exited(code) => (EXIT, format!("the program exited with code {code}")),
        Ending::Signalled(signal) => (EXIT, format!("the program was killed by signal {signal}")),
        Ending::TimedOut => {
            let ms = ended.duration.as_millis();
            (TIMEOUT, format!("the program took too long and was stopped after {ms} ms"))
        }
        Ending::Stopped => (CANCELLED, "the program was stopped".into()),
        Ending::Unspooled => (EXIT, "the output of the program could not be kept".into()),
    };
    let reason = match last_line(&ended.captures.stderr.text().text) {
        Some(line) => format!("{sentence}: {line}"),
        None => sentence,
    };
    let retryable = retry_exit || matches!(ended.ending, Ending::Stopped);
    Outcome::Failed { code: code.into(), reason, retryable, details: None }
}

#[cfg(test)]
mod tests;
