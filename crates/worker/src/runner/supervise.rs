//! One program from its start to its end.

use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::core::executor::Outcome;
use crate::core::feedback::FeedbackSink;
use crate::runner::command::Options;
use crate::runner::output::{Spool, SpoolError, Spooled};
use crate::runner::process::{ProcessGroup, Watchdog};
use crate::runner::streams::{Captures, Moved, Streams};
use crate::runner::tools::{Environment, NotAllowed, NotFound, find_program};
use crate::sandbox::cell::Cell;
use crate::sandbox::launch::{Fault, LAUNCH_FAILED};

/// How long a program may take to leave after TERM.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long others may hold the pipes of a program that has ended.
pub const LINGER: Duration = Duration::from_millis(500);
/// How long a killed program may take to vanish; one that hangs in the kernel is left to it.
const VANISH: Duration = Duration::from_secs(5);
/// How long the last words of a program that has ended wait for a session that takes
/// nothing. Long enough for a connection that was cut to come back.
pub const SINK_PATIENCE: Duration = Duration::from_secs(30);

/// A program to run. No shell is involved.
#[derive(Debug)]
pub struct Invocation {
    /// Its name or path, then its arguments; never empty.
    pub argv: Vec<String>,
    /// Where it runs; the worker's own folder if not given.
    pub cwd: Option<PathBuf>,
    /// All that it is told by environment.
    pub environment: Environment,
    /// What it reads; `None` gives it nothing to read.
    pub stdin: Option<Spooled>,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How much is kept of each output.
    pub output_bytes_max: usize,
    /// Takes its whole standard output, if another program is to read it.
    pub spool: Option<Spool>,
    /// Which programs it may be, and how long it may take to leave.
    pub options: Arc<Options>,
    /// What holds it, if anything does.
    pub cell: Option<Arc<Cell>>,
}

/// A program that did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such folder.
    #[error("the working folder {} does not exist or is no folder", .0.display())]
    Folder(PathBuf),
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] NotFound),
    /// It is not for tasks.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// There is no room for its folder.
    #[error("a folder for the program could not be made: {0}")]
    Scratch(io::Error),
    /// The bounds that it has to stay in cannot be had.
    #[error("the sandbox could not be entered: {0}")]
    Bounds(String),
    /// The bounds that it has to stay in leave it out.
    #[error("{0} is not shown in the sandbox; a worker shows it with --sandbox-ro")]
    OutOfSight(String),
    /// The system refused.
    #[error("{program} did not start: {source}")]
    System {
        /// What was to be started.
        program: String,
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the machine was short of something that it may have again.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Folder(_)
            | Self::Program(_)
            | Self::NotAllowed(_)
            | Self::Bounds(_)
            | Self::OutOfSight(_) => false,
            Self::Scratch(_) => true,
            Self::System { source, .. } => {
                let busy = [io::ErrorKind::OutOfMemory, io::ErrorKind::ExecutableFileBusy];
                let short =
                    [rustix::io::Errno::AGAIN, rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
                busy.contains(&source.kind())
                    || short.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
            }
        }
    }
}

/// Why a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself.
    Exited(i32),
    /// A signal ended it that did not come from us.
    Signalled(i32),
    /// It took too long.
    TimedOut,
    /// Somebody wanted it to stop.
    Stopped,
    /// Its standard output could not be kept for another program.
    Unspooled,
}

/// What is known of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Why.
    pub ending: Ending,
    /// From its start to its end.
    pub duration: Duration,
    /// What it said, within bounds.
    pub captures: Captures,
    /// Its whole standard output, if another program is to read it.
    pub spooled: Option<Result<Spooled, SpoolError>>,
}

/// Runs a program to its end. When this future is dropped, the whole group is killed.
pub async fn run(
    invocation: Invocation,
    feedback: FeedbackSink,
    stop: &CancellationToken,
    watchdog: &Arc<Watchdog>,
) -> Result<Ended, SpawnError> {
    let mut command = command(&invocation)?;
    let (stdin, bytes) =
        invocation.stdin.map_or((Stdio::null(), Bytes::new()), Spooled::into_stdin);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let (mut group, pipes) = ProcessGroup::spawn(command, watchdog)
        .map_err(|source| SpawnError::System { program: invocation.argv[0].clone(), source })?;
    let streams = Streams::new(pipes, bytes, invocation.output_bytes_max, feedback);
    let mut streams = streams.spooled(invocation.spool);
    let ours = until_over(&mut group, &mut streams, invocation.timeout, stop).await;
    if ours.is_some() {
        end(&mut group, &mut streams, invocation.options.grace).await;
    }
    let duration = started.elapsed();
    // Who stopped it does not wait for its last words.
    let is_stopped = ours == Some(Ending::Stopped);
    let patience = if is_stopped { Duration::ZERO } else { invocation.options.sink_patience };
    drain(&group, &mut streams, patience).await;
    let status = timeout(VANISH, group.finish()).await;
    let ending = ours.unwrap_or_else(|| ending_of(status.ok().and_then(Result::ok)));
    if ending == Ending::Exited(LAUNCH_FAILED.into())
        && let Some(fault) = invocation.cell.and_then(|cell| cell.take_fault())
    {
        return Err(not_launched(fault, &invocation.argv[0]));
    }
    let (captures, spooled) = streams.into_captures();
    Ok(Ended { ending, duration, captures, spooled })
}

/// Whatever the launcher met is told as if it had not been there.
fn not_launched(fault: Fault, program: &str) -> SpawnError {
    let denied = rustix::io::Errno::ACCESS.raw_os_error();
    match fault {
        Fault::Bounds(reason) => SpawnError::Bounds(reason),
        // We have seen that it can be executed.
        Fault::Exec(errno) if errno == denied => SpawnError::OutOfSight(program.to_owned()),
        Fault::Exec(errno) => {
            let source = io::Error::from_raw_os_error(errno);
            SpawnError::System { program: program.to_owned(), source }
        }
    }
}

/// The files are looked at in place, as the start of the program itself does.
fn command(invocation: &Invocation) -> Result<Command, SpawnError> {
    let Invocation { argv, cwd, environment, cell, .. } = invocation;
    if let Some(cwd) = cwd
        && !cwd.is_dir()
    {
        return Err(SpawnError::Folder(cwd.clone()));
    }
    let program = find_program(&argv[0], cwd.as_deref(), environment)?;
    invocation.options.tools.check(&argv[0], &program, environment)?;
    let name = OsStr::new(&argv[0]);
    let mut command = match cell {
        Some(cell) => cell.command(&program, name, invocation.timeout),
        None => Command::new(program),
    };
    if cell.is_none() {
        command.arg0(name);
    }
    command.args(&argv[1..]).env_clear().envs(environment);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Waits until the program ends (`None`) or has to.
async fn until_over(
    group: &mut ProcessGroup,
    streams: &mut Streams,
    time: Option<Duration>,
    stop: &CancellationToken,
) -> Option<Ending> {
    let time_is_up = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => pending().await,
        }
    };
    // In this order: a program that has ended did so by itself, and one that talks without a
    // pause cannot keep us from looking at the clock.
    tokio::select! {
        biased;
        () = group.exited() => None,
        () = stop.cancelled() => Some(Ending::Stopped),
        () = time_is_up => Some(Ending::TimedOut),
        () = run_on(streams) => Some(Ending::Unspooled),
    }
}

/// Moves bytes and goes on, for a program may close its pipes and live; ends when what it says is
/// of no use to the program that was to read it.
async fn run_on(streams: &mut Streams) {
    if streams.run().await == Moved::Everything {
        pending::<()>().await;
    }
}

/// Moves bytes until nothing is left to move, whatever becomes of them.
async fn run_out(streams: &mut Streams) {
    while streams.run().await == Moved::Unspooled {}
}

/// Asks the whole group to leave, then makes it.
async fn end(group: &mut ProcessGroup, streams: &mut Streams, grace: Duration) {
    for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, VANISH)] {
        group.signal(signal);
        let moved = async {
            run_out(streams).await;
            pending::<()>().await;
        };
        let exited = async {
            tokio::select! {
                biased;
                () = group.exited() => {}
                () = moved => {}
            }
        };
        if timeout(patience, exited).await.is_ok() {
            return;
        }
    }
}

/// Takes the last words. Whoever else holds the pipes, a background process for instance, gets a
/// moment and is then killed with the rest of the group; one that left the group is not waited for.
async fn drain(group: &ProcessGroup, streams: &mut Streams, patience: Duration) {
    if timeout(LINGER, run_out(streams)).await.is_ok() {
        return;
    }
    group.signal(Signal::KILL);
    let since = Instant::now();
    // Nobody writes any more, so what is left fits into a pipe; a slow session gets time to take it.
    while timeout(LINGER, run_out(streams)).await.is_err() {
        if !streams.waits_for_session() || since.elapsed() >= patience {
            return;
        }
    }
}

fn ending_of(status: Option<ExitStatus>) -> Ending {
    let by_code = status.and_then(|status| status.code()).map(Ending::Exited);
    let by_signal = status.and_then(|status| status.signal()).map(Ending::Signalled);
    // Nobody could collect it, so nobody knows more than that it was killed.
    by_code.or(by_signal).unwrap_or(Ending::Signalled(Signal::KILL.as_raw()))
}

/// A program that did not start.
const NOT_STARTED: &str = "E.RUNNER.SPAWN";
/// A program that the worker does not allow.
const NOT_ALLOWED: &str = "E.RUNNER.NOT_ALLOWED";
/// A program that ended with another code than 0, or by a signal.
pub(super) const EXIT: &str = "E.RUNNER.EXIT";
/// How much of the last line of standard error a failure quotes.
const QUOTE_CHARS_MAX: usize = 300;

/// The failure of a program that did not start.
pub(super) fn not_started(error: &SpawnError) -> Outcome {
    let outcome = if error.is_passing() { Outcome::passing } else { Outcome::hopeless };
    outcome(code_of(error), error.to_string())
}

/// The code of a program that did not start.
pub(super) fn code_of(error: &SpawnError) -> &'static str {
    match error {
        SpawnError::NotAllowed(_) => NOT_ALLOWED,
        SpawnError::Folder(_)
        | SpawnError::Program(_)
        | SpawnError::Scratch(_)
        | SpawnError::Bounds(_)
        | SpawnError::OutOfSight(_)
        | SpawnError::System { .. } => NOT_STARTED,
    }
}

/// The last thing that was said, fit for a sentence.
pub(super) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    Some(line.chars().map(plain).take(QUOTE_CHARS_MAX).collect())
}
