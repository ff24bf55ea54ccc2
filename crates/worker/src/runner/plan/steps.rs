//! The steps of a plan: what they gave so far, within the bounds of a result, and why one of them ended
//! the plan, in a sentence that names it.

use std::time::Duration;

use protocol::plan::fill::FillError;
use protocol::plan::{PlanResult, PlanTask, TaskResult};
use serde_json::value::{RawValue, to_raw_value};

use crate::core::executor::{CANCELLED, Outcome, PARAMETERS_INVALID, TIMEOUT};
use crate::runner::output::{Capture, SpoolError};
use crate::runner::streams::Captures;
use crate::runner::supervise::{EXIT, Ending, SpawnError, code_of, last_line};

/// What stands for the code of a program that has none.
const NO_CODE: i32 = -1;

/// Every step that was begun, in order.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    task_number: u32,
    command: String,
    exit_code: i32,
    duration: Duration,
    /// `None` if it never started.
    captures: Option<Captures>,
}

impl Steps {
    /// Adds a step that ended. Of all outputs together no more is held than a result of
    /// `bytes_max` could tell.
    pub(super) fn push(
        &mut self,
        task: &PlanTask,
        ending: Ending,
        (duration, captures): (Duration, Captures),
        bytes_max: usize,
    ) {
        let exit_code = if let Ending::Exited(code) = ending { code } else { NO_CODE };
        let (task_number, command) = (task.task_number, task.command.clone());
        let captures = Some(captures);
        self.steps.push(Step { task_number, command, exit_code, duration, captures });
        let mut kept_max = self.n_kept_largest();
        while self.n_kept() > bytes_max {
            kept_max /= 2;
            self.steps.iter_mut().for_each(|step| step.narrow(kept_max));
        }
    }

    /// Adds a step that never started.
    pub(super) fn push_unstarted(&mut self, task: &PlanTask) {
        let (task_number, command) = (task.task_number, task.command.clone());
        let duration = Duration::ZERO;
        let step = Step { task_number, command, exit_code: NO_CODE, duration, captures: None };
        self.steps.push(step);
    }

    /// What the last step complained about last.
    pub(super) fn last_line(&self) -> Option<String> {
        let captures = self.steps.last()?.captures.as_ref()?;
        last_line(&captures.stderr.text().text)
    }

    /// The result as JSON of at most `bytes_max`. Long outputs are halved until it fits, and short
    /// ones stay whole.
    pub(super) fn result(&mut self, bytes_max: usize) -> Box<RawValue> {
        let mut kept_max = self.n_kept_largest();
        loop {
            let json = to_raw_value(&self.told()).expect("plain values become JSON");
            if json.get().len() <= bytes_max || kept_max == 0 {
                return json;
            }
            kept_max /= 2;
            self.steps.iter_mut().for_each(|step| step.narrow(kept_max));
        }
    }

    fn told(&self) -> PlanResult {
        PlanResult { task_results: self.steps.iter().map(Step::told).collect() }
    }

    fn n_kept(&self) -> usize {
        self.outputs().sum()
    }

    fn n_kept_largest(&self) -> usize {
        self.outputs().max().unwrap_or_default()
    }

    fn outputs(&self) -> impl Iterator<Item = usize> {
        let captures = self.steps.iter().filter_map(|step| step.captures.as_ref());
        captures.flat_map(|captures| [captures.stdout.n_kept(), captures.stderr.n_kept()])
    }
}

impl Step {
    fn narrow(&mut self, kept_max: usize) {
        let Some(Captures { stdout, stderr }) = &mut self.captures else { return };
        for capture in [stdout, stderr] {
            if capture.n_kept() > kept_max {
                *capture = capture.narrowed(kept_max);
            }
        }
    }

    fn told(&self) -> TaskResult {
        let (stdout, stderr) = match &self.captures {
            Some(captures) => (captures.stdout.text(), captures.stderr.text()),
            None => (Capture::new(0).text(), Capture::new(0).text()),
        };
        TaskResult {
            task_number: self.task_number,
            command: self.command.clone(),
            exit_code: self.exit_code,
            truncated: stdout.dropped_bytes + stderr.dropped_bytes > 0,
            stdout: stdout.text,
            stderr: stderr.text,
            duration_ms: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

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
