//! Why a plan ended before its end, in a sentence that names the step.

use protocol::plan::PlanTask;
use protocol::plan::fill::FillError;
use serde_json::value::RawValue;

use crate::executor::{CANCELLED, Outcome, PARAMETERS_INVALID, TIMEOUT};
use crate::runner::failure::{EXIT, code_of};
use crate::runner::spool::SpoolError;
use crate::runner::supervise::{Ending, SpawnError};

/// A step that did not go well.
#[derive(Debug)]
pub(super) enum StepFailure {
    /// Its arguments cannot be made of the input.
    Arguments(FillError),
    /// It did not start.
    NotStarted(SpawnError),
    /// It exited with another code than 0; what it complained about last.
    Exited(i32, Option<String>),
    /// It was killed by a signal of somebody else; what it complained about last.
    Signalled(i32, Option<String>),
    /// It took longer than it may.
    TooLong,
    /// The whole plan took longer than it may, during this step.
    PlanTooLong,
    /// The whole plan took longer than it may, before this step.
    NoTime,
    /// Somebody wanted it to stop.
    Stopped,
    /// What it said cannot be fed to another step.
    Output(SpoolError),
}

impl StepFailure {
    /// Whether a program ended well. `has_all_time` says that the step had the time it asked for.
    pub(super) fn check(
        ending: Ending,
        last_line: Option<String>,
        has_all_time: bool,
    ) -> Result<(), Self> {
        match ending {
            // Why there is no output is told by the output.
            Ending::Exited(0) | Ending::Unspooled => Ok(()),
            Ending::Exited(code) => Err(Self::Exited(code, last_line)),
            Ending::Signalled(signal) => Err(Self::Signalled(signal, last_line)),
            Ending::TimedOut if has_all_time => Err(Self::TooLong),
            Ending::TimedOut => Err(Self::PlanTooLong),
            Ending::Stopped => Err(Self::Stopped),
        }
    }

    /// The end of the plan. `so_far` is what its steps gave, this one included.
    pub(super) fn outcome(self, task: &PlanTask, so_far: Box<RawValue>) -> Outcome {
        let (code, is_hopeless) = match &self {
            Self::Arguments(_) => (PARAMETERS_INVALID, true),
            Self::NotStarted(error) => (code_of(error), !error.is_passing()),
            Self::Exited(..) | Self::Signalled(..) => (EXIT, false),
            Self::TooLong | Self::PlanTooLong | Self::NoTime => (TIMEOUT, false),
            Self::Stopped => (CANCELLED, false),
            // The same plan would write as much again; a full disk may have room later.
            Self::Output(error) => (EXIT, matches!(error, SpoolError::TooLong(_))),
        };
        let reason = format!("task {} ({}) {}", task.task_number, task.command, self.what(task));
        let outcome = if is_hopeless { Outcome::hopeless } else { Outcome::passing };
        with_details(outcome(code, reason), so_far)
    }

    /// What the step did, as the end of a sentence.
    fn what(&self, task: &PlanTask) -> String {
        let quoted = |line: &Option<String>| match line {
            Some(line) => format!(": {line}"),
            None => String::new(),
        };
        match self {
            Self::Arguments(error) => format!("cannot be given its arguments: {error}"),
            Self::NotStarted(error) => format!("did not start: {error}"),
            Self::Exited(code, line) => format!("exited with {code}{}", quoted(line)),
            Self::Signalled(signal, line) => {
                format!("was killed by signal {signal}{}", quoted(line))
            }
            Self::TooLong => {
                format!("took longer than {} s and was stopped", task.timeout_seconds())
            }
            Self::PlanTooLong => "was stopped: the whole plan took too long".into(),
            Self::NoTime => "was not begun: the whole plan took too long".into(),
            Self::Stopped => "was stopped".into(),
            Self::Output(error) => format!("gave nothing to go on with: {error}"),
        }
    }
}

/// The failure with what the steps gave.
fn with_details(mut outcome: Outcome, so_far: Box<RawValue>) -> Outcome {
    if let Outcome::Failed { details, .. } = &mut outcome {
        *details = Some(so_far);
    }
    outcome
}
