//! The node type `command`: a program by argv, its output streamed, its end reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::session::payload::feedback::Channel;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::executor::{
    Assignment, CANCELLED, Context, Executor, Outcome, PARAMETERS_INVALID, TIMEOUT, Work,
};
use crate::feedback::FeedbackSink;
use crate::runner::command::parameters::{InvalidParameters, OUTPUT_BYTES, Parameters};
use crate::runner::environment::{Environment, scrubbed};
use crate::runner::failure::{EXIT, last_line, not_started};
use crate::runner::output::{self, CapturedText, Chunk};
use crate::runner::sandbox::{Cell, Sandbox};
use crate::runner::spool::Spooled;
use crate::runner::streams::{Captures, Sink};
use crate::runner::supervise::{self, Ended, Ending, GRACE, Invocation, SINK_PATIENCE, SpawnError};
use crate::runner::tools::Tools;
use crate::runner::watchdog::Watchdog;

pub mod parameters;

/// The node type.
pub const COMMAND: &str = "command";
/// The largest result, as JSON: one that fits into a frame of a session. Escaped text can be six
/// times as long as the bytes that were kept.
pub const RESULT_BYTES_MAX: usize = 1000 * 1024;
/// Batches that wait between a program and the session; more wait with the session itself.
pub(super) const BATCHES_WAITING_MAX: usize = 1;

/// How commands are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a program may take to leave when asked to.
    pub grace: Duration,
    /// How long the last words of a program wait for a sink that takes nothing.
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
    grace: Duration,
    sink_patience: Duration,
    result_bytes_max: usize,
    inherited: Arc<Environment>,
    tools: Arc<Tools>,
    sandbox: Option<Sandbox>,
    watchdog: Arc<Watchdog>,
}

/// A command that never ran.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// Its parameters make no command.
    #[error(transparent)]
    Parameters(#[from] InvalidParameters),
    /// It did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
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
    pub fn new(options: Options) -> Self {
        Self {
            grace: options.grace,
            sink_patience: options.sink_patience,
            result_bytes_max: options.result_bytes_max,
            inherited: Arc::new(scrubbed(options.environment)),
            tools: Arc::new(options.tools),
            sandbox: options.sandbox,
            watchdog: Arc::default(),
        }
    }

    /// Runs the command of an assignment; what it says goes to `sink` as it comes. `stop` asks the
    /// program to leave and makes it after the grace; dropping the future kills it at once.
    pub async fn run(
        &self,
        assignment: &Assignment,
        sink: Option<Sink>,
        stop: &CancellationToken,
    ) -> Finished {
        self.run_within(assignment, None, sink, stop).await
    }

    async fn run_within(
        &self,
        assignment: &Assignment,
        time: Option<Duration>,
        sink: Option<Sink>,
        stop: &CancellationToken,
    ) -> Finished {
        let parameters = match Parameters::parse(assignment.parameters.get()) {
            Ok(parameters) => parameters,
            Err(error) => return Finished { outcome: not_run(&error.into()), result: None },
        };
        match self.run_held(assignment, parameters, time, (sink, stop)).await {
            Ok(finished) => finished,
            Err(error) => Finished { outcome: not_run(&error.into()), result: None },
        }
    }

    async fn run_held(
        &self,
        assignment: &Assignment,
        parameters: Parameters,
        time: Option<Duration>,
        (sink, stop): (Option<Sink>, &CancellationToken),
    ) -> Result<Finished, SpawnError> {
        let retry_exit = parameters.retry_exit;
        let cell = self.enter()?;
        let mut invocation = self.invocation(assignment, parameters, cell.clone());
        invocation.timeout = invocation.timeout.into_iter().chain(time).min();
        let ended = self.invoke(invocation, sink, stop).await;
        leave(cell).await;
        let ended = ended?;
        let result = result_of(&ended, self.result_bytes_max);
        let outcome = outcome_of(&ended, &result, retry_exit);
        Ok(Finished { outcome, result: Some(result) })
    }

    /// What holds the programs of one attempt, if anything does.
    pub(super) fn enter(&self) -> Result<Option<Arc<Cell>>, SpawnError> {
        let cell = self.sandbox.as_ref().map(Sandbox::enter).transpose();
        cell.map(|cell| cell.map(Arc::new)).map_err(SpawnError::Scratch)
    }

    /// Runs any program.
    pub async fn invoke(
        &self,
        invocation: Invocation,
        sink: Option<Sink>,
        stop: &CancellationToken,
    ) -> Result<Ended, SpawnError> {
        supervise::run(invocation, sink, stop, &self.watchdog).await
    }

    /// What every program of this assignment is told.
    pub fn environment(&self, assignment: &Assignment, is_cleared: bool) -> Environment {
        let mut environment =
            if is_cleared { Environment::new() } else { Environment::clone(&self.inherited) };
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
            grace: self.grace,
            sink_patience: self.sink_patience,
            output_bytes_max: OUTPUT_BYTES,
            spool: None,
            tools: Arc::clone(&self.tools),
            cell,
        }
    }

    /// The largest result that can be reported.
    pub(super) fn result_bytes_max(&self) -> usize {
        self.result_bytes_max
    }
}

impl Executor for CommandRunner {
    fn types(&self) -> Vec<String> {
        vec![COMMAND.into()]
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        let runner = self.clone();
        Box::pin(async move {
            let (sink, mut batches) = mpsc::channel(BATCHES_WAITING_MAX);
            let time = context.deadline.map(|deadline| deadline.duration_since(Instant::now()));
            let running = runner.run_within(&assignment, time, Some(sink), &context.stop);
            let listening = pass_on(&mut batches, &context.feedback);
            // Both end when the program has: the sink goes with it.
            let (finished, ()) = tokio::join!(running, listening);
            finished.outcome
        })
    }
}

/// Leaves nothing behind of what held the programs of an attempt.
pub(super) async fn leave(cell: Option<Arc<Cell>>) {
    if let Some(cell) = cell {
        cell.close().await;
    }
}

/// Passes on what programs say, until the last of them has ended.
pub(super) async fn pass_on(batches: &mut mpsc::Receiver<Vec<Chunk>>, feedback: &FeedbackSink) {
    while let Some(batch) = batches.recv().await {
        for chunk in batch {
            let channel = match chunk.channel {
                output::Channel::Stdout => Channel::Stdout,
                output::Channel::Stderr => Channel::Stderr,
            };
            feedback.write(channel, chunk.bytes).await;
        }
    }
}

#[derive(Serialize)]
struct CommandResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
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

fn not_run(error: &NotRun) -> Outcome {
    let reason = error.to_string();
    match error {
        NotRun::Parameters(_) => Outcome::hopeless(PARAMETERS_INVALID, reason),
        NotRun::Spawn(error) => not_started(error, reason),
    }
}

#[cfg(test)]
mod tests;
