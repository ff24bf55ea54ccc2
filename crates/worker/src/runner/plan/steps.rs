//! What the steps of a plan gave so far, within the bounds of a result.

use std::time::Duration;

use protocol::plan::{PlanResult, PlanTask, TaskResult};
use serde_json::value::{RawValue, to_raw_value};

use crate::runner::failure::last_line;
use crate::runner::output::Capture;
use crate::runner::streams::Captures;
use crate::runner::supervise::Ending;

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
