//! The node types `plan` and `plan.step`: programs one after the other, the output of one fed to
//! another (seed 004 section 4).
//!
//! The first program that fails ends the plan, and what the others gave so far is told with the
//! failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::plan::check::Rules;
use protocol::plan::fill::substitute;
use protocol::plan::needs::text_of;
use protocol::plan::{PLAN, PLAN_STEP, PlanJob, PlanTask};
use serde_json::Value;
use tokio::time::Instant;

use crate::core::executor::{
    Assignment, CANCELLED, Context, Executor, Outcome, PARAMETERS_INVALID, Work,
};
use crate::core::feedback::Status;
use crate::runner::command::{CommandRunner, leave};
use crate::runner::output::{SPOOL_BYTES_MAX, Spool, Spooled};
use crate::runner::plan::steps::{StepFailure, Steps};
use crate::runner::supervise::{Ended, Invocation, not_started};
use crate::sandbox::cell::Cell;

mod steps;

/// The largest JSON that tells beside a failure what the steps gave; its sentence must fit into
/// the same frame.
const DETAILS_BYTES_MAX: usize = 900 * 1024;
/// How much is kept of each output of a step.
pub const STEP_OUTPUT_BYTES: usize = 256 * 1024;

/// Runs plans, with the means of commands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlanRunner {
    commands: CommandRunner,
    output_bytes_max: usize,
    spool_bytes_max: u64,
}

/// A plan while it is executed.
struct Run<'a> {
    runner: &'a PlanRunner,
    assignment: &'a Assignment,
    context: &'a Context,
    job: PlanJob,
    input: Value,
    /// Holds all steps, so that one finds the files of another.
    cell: Option<Arc<Cell>>,
    /// Whole outputs that a later step reads, by the number of the step.
    outputs: BTreeMap<u32, Spooled>,
    steps: Steps,
}

impl PlanRunner {
    /// A runner that starts programs as `commands` does.
    pub fn new(commands: CommandRunner) -> Self {
        let (output_bytes_max, spool_bytes_max) = (STEP_OUTPUT_BYTES, SPOOL_BYTES_MAX);
        Self { commands, output_bytes_max, spool_bytes_max }
    }

    async fn run(&self, assignment: &Assignment, context: &Context) -> Outcome {
        let (job, input) = match read(assignment.parameters.get()) {
            Ok(read) => read,
            Err(why) => return Outcome::hopeless(PARAMETERS_INVALID, why),
        };
        let cell = match self.commands.enter() {
            Ok(cell) => cell,
            Err(error) => return not_started(&error),
        };
        let (outputs, steps) = Default::default();
        let is_last_try = assignment.attempt > job.max_retries;
        let run = Run {
            runner: self,
            assignment,
            context,
            job,
            input,
            cell: cell.clone(),
            outputs,
            steps,
        };
        let outcome = run.execute().await;
        leave(cell).await;
        if is_last_try { final_failure(outcome) } else { outcome }
    }
}

/// A program that failed does so again, unless the job says how often it is worth a try. A worker
/// that stops its work, or lost it, says nothing about the job.
fn final_failure(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failed { code, retryable, .. } = &mut outcome
        && code != CANCELLED
    {
        *retryable = false;
    }
    outcome
}

/// A worker may have got the job from anywhere, so it looks for itself.
fn read(json: &str) -> Result<(PlanJob, Value), String> {
    let wanted =
        r#"a plan wants {"plan_id": "p", "tasks": [{"task_number": 1, "command": "sort"}]}"#;
    let job: PlanJob = serde_json::from_str(json).map_err(|why| format!("{wanted}: {why}"))?;
    job.check_by(Rules::Direct).map_err(|why| why.to_string())?;
    let input = job.input_value().map_err(|why| format!("input: {why}"))?;
    Ok((job, input))
}

impl Executor for PlanRunner {
    fn types(&self) -> Vec<String> {
        vec![PLAN.into(), PLAN_STEP.into()]
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        let runner = self.clone();
        Box::pin(async move { runner.run(&assignment, &context).await })
    }
}

impl Run<'_> {
    async fn execute(mut self) -> Outcome {
        let tasks = std::mem::take(&mut self.job.tasks);
        let bytes_max = self.runner.commands.options.result_bytes_max;
        for (idx, task) in tasks.iter().enumerate() {
            self.announce(idx, tasks.len(), task);
            if let Err(failure) = self.step(task, &tasks[idx + 1..]).await {
                return failure.outcome(task, self.steps.result(bytes_max.min(DETAILS_BYTES_MAX)));
            }
        }
        Outcome::done(self.steps.result(bytes_max))
    }

    fn announce(&self, idx: usize, n_tasks: usize, task: &PlanTask) {
        #[expect(clippy::cast_precision_loss, reason = "a plan has at most 100 steps")]
        let progress = idx as f64 / n_tasks as f64;
        let message = format!("{}/{n_tasks} {}", idx + 1, task.command);
        self.context.feedback.say(Status {
            stage: Some(task.command.clone()),
            progress: Some(progress),
            message: Some(message),
            ..Status::default()
        });
    }

    async fn step(&mut self, task: &PlanTask, later: &[PlanTask]) -> Result<(), StepFailure> {
        if self.context.stop.is_cancelled() {
            return Err(StepFailure::Stopped);
        }
        let is_read = reads(later, task.task_number);
        let invocation = self.invocation(task, is_read)?;
        let time = invocation.timeout.unwrap_or(Duration::MAX);
        let commands = &self.runner.commands;
        let started = commands.invoke(invocation, self.context).await;
        let ended = match started {
            Ok(ended) => ended,
            Err(error) => {
                self.steps.push_unstarted(task);
                return Err(StepFailure::NotStarted(error));
            }
        };
        let Ended { ending, duration, captures, spooled } = ended;
        self.steps.push(task, ending, (duration, captures), commands.options.result_bytes_max);
        let last_line = self.steps.last_line();
        StepFailure::check(ending, last_line, time >= whole_time(task))?;
        // Output that is not whole must not be fed to anyone.
        if let Some(spooled) = spooled.transpose().map_err(StepFailure::Output)? {
            self.outputs.insert(task.task_number, spooled);
        }
        self.outputs.retain(|number, _| reads(later, *number));
        Ok(())
    }

    fn invocation(&self, task: &PlanTask, is_read: bool) -> Result<Invocation, StepFailure> {
        let arguments = substitute(&task.args, &self.input).map_err(StepFailure::Arguments)?;
        let argv = std::iter::once(task.command.clone()).chain(arguments).collect();
        let commands = &self.runner.commands;
        let told = commands.environment(self.assignment, false);
        Ok(Invocation {
            stdin: self.stdin(task)?,
            timeout: Some(self.time(task)?),
            output_bytes_max: self.runner.output_bytes_max,
            spool: is_read.then(|| Spool::new(self.runner.spool_bytes_max)),
            ..commands.plain(argv, told, self.job.env.clone(), self.cell.clone())
        })
    }

    /// The output of the step that it names, else the text of the input, else nothing.
    fn stdin(&self, task: &PlanTask) -> Result<Option<Spooled>, StepFailure> {
        let Some(earlier) = task.input_from_task else {
            let text = text_of(&self.input).map(|text| text.to_owned().into());
            return Ok(text.map(Spooled::Bytes));
        };
        let output = self.outputs.get(&earlier).expect("what is read later was kept");
        let reader = output.reader().map_err(|error| StepFailure::Output(error.into()))?;
        Ok(Some(reader))
    }

    /// How long it may take: no longer than the attempt has left.
    fn time(&self, task: &PlanTask) -> Result<Duration, StepFailure> {
        let whole = whole_time(task);
        let left = self.context.deadline.map_or(whole, |at| at.duration_since(Instant::now()));
        if left.is_zero() { Err(StepFailure::NoTime) } else { Ok(whole.min(left)) }
    }
}

fn whole_time(task: &PlanTask) -> Duration {
    Duration::from_secs(task.timeout_seconds().into())
}

/// Whether one of these steps reads what the step of that number wrote.
fn reads(later: &[PlanTask], number: u32) -> bool {
    later.iter().any(|task| task.input_from_task == Some(number))
}

#[cfg(test)]
mod tests;
