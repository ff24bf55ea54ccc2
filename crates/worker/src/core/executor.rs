//! What a worker can do, behind one small trait; and several executors as one.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use protocol::session::payload::resource::Artifact;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::builtin::Builtin;
use crate::core::feedback::FeedbackSink;
use crate::core::next::Next;
use crate::resources::Registry;
use crate::runner::command::CommandRunner;
use crate::runner::plan::PlanRunner;

/// The task was cancelled while running.
pub(crate) const CANCELLED: &str = "E.RUNNER.CANCELLED";
/// Parameters that the type does not understand.
pub(crate) const PARAMETERS_INVALID: &str = "E.PARAMETERS.INVALID";
/// A resource that is not here.
pub(crate) const RESOURCE_MISSING: &str = "E.RESOURCE.MISSING";
/// Work that took longer than it may.
pub(crate) const TIMEOUT: &str = "E.TIMEOUT";
/// A type that is not offered.
pub(crate) const TYPE_UNKNOWN: &str = "E.TYPE.UNKNOWN";

/// One attempt to execute.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The right to decide the attempt.
    pub lease_id: String,
    /// The task.
    pub task_id: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What kind of work.
    pub task_type: String,
    /// What the submitter gave.
    pub parameters: Box<RawValue>,
}

/// How the work ended, by this worker's word.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done.
    Completed {
        result: Box<RawValue>,
        /// Optional parts of a result.
        extra: Option<Box<Extra>>,
    },
    /// It failed. Whether it is tried again is not ours to decide (seed 002 section 6.3).
    Failed {
        code: String,
        reason: String,
        /// Whether another attempt could help.
        retryable: bool,
        /// Details of the failure, such as the results of the steps before it.
        details: Option<Box<RawValue>>,
    },
}

/// Optional parts of a result.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// There was nothing to do.
    pub is_skipped: bool,
    /// What the work left on this worker.
    pub artifacts: Vec<Artifact>,
}

impl Outcome {
    /// The work is done.
    pub fn done(result: Box<RawValue>) -> Self {
        Self::Completed { result, extra: None }
    }

    /// There was nothing to do.
    pub fn skipped(result: Box<RawValue>) -> Self {
        let extra = Extra { is_skipped: true, ..Extra::default() };
        Self::Completed { result, extra: Some(Box::new(extra)) }
    }

    /// The work is done, and left something behind.
    pub fn leaving(result: Box<RawValue>, artifacts: Vec<Artifact>) -> Self {
        let extra = Extra { artifacts, ..Extra::default() };
        Self::Completed { result, extra: Some(Box::new(extra)) }
    }

    /// A failure that another attempt would only repeat.
    pub fn hopeless(code: &str, reason: impl Into<String>) -> Self {
        Self::Failed { code: code.into(), reason: reason.into(), retryable: false, details: None }
    }

    /// A failure that another attempt may be spared.
    pub fn passing(code: &str, reason: impl Into<String>) -> Self {
        Self::Failed { code: code.into(), reason: reason.into(), retryable: true, details: None }
    }

    /// The work was stopped. Nobody reports it, unless the worker itself leaves.
    pub(crate) fn stopped() -> Self {
        Self::passing(CANCELLED, "the work was stopped")
    }
}

/// What surrounds an attempt while it runs.
#[derive(Clone, Debug)]
pub struct Context {
    /// Takes what the attempt has to say before its end.
    pub feedback: FeedbackSink,
    /// Asks the attempt to stop, as soon as it can do so in order.
    pub stop: CancellationToken,
    /// When the attempt has to be over; who does not look at it is stopped a little later.
    pub deadline: Option<Instant>,
    /// Calls the next in line, where the task is a middleware.
    pub next: Next,
    /// The run that it belongs to, where it belongs to one.
    pub run_id: Option<String>,
    /// What lives on this worker, where it keeps anything.
    pub resources: Option<Arc<Registry>>,
}

impl Context {
    /// Surroundings in which nobody listens and nothing presses.
    pub fn detached() -> Self {
        let (feedback, stop) = (FeedbackSink::deaf(), CancellationToken::new());
        let next = Next::nowhere();
        Self { feedback, stop, deadline: None, next, run_id: None, resources: None }
    }
}

/// The work itself.
pub type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Executes the types that it offers.
pub trait Executor: Send + Sync + 'static {
    /// The types that it executes.
    fn types(&self) -> Vec<String>;

    /// Starts an attempt. Dropping the work stops it: after a lost lease nothing more may happen
    /// (seed 002 section 4).
    fn execute(&self, assignment: Assignment, context: Context) -> Work;

    /// Does an attempt on the spot that takes no time and says nothing; any other is given back.
    /// It saves small work the cost of a task of its own.
    fn execute_at_once(&self, assignment: Assignment) -> Result<Outcome, Assignment> {
        Err(assignment)
    }
}

/// Finds the executor of a type. Where two offer the same type, the later one has it.
#[derive(Clone, Default)]
pub struct Toolbox {
    by_type: BTreeMap<String, Arc<dyn Executor>>,
}

impl Toolbox {
    /// A toolbox of these executors.
    pub fn new(executors: impl IntoIterator<Item = Arc<dyn Executor>>) -> Self {
        let mut by_type = BTreeMap::new();
        for executor in executors {
            for name in executor.types() {
                by_type.insert(name, Arc::clone(&executor));
            }
        }
        Self { by_type }
    }

    /// What every worker with programs offers: the builtin types, commands, and plans of them.
    pub fn usual(commands: CommandRunner) -> Self {
        let plans = PlanRunner::new(commands.clone());
        let executors: [Arc<dyn Executor>; 3] =
            [Arc::new(Builtin), Arc::new(commands), Arc::new(plans)];
        Self::new(executors)
    }
}

impl Executor for Toolbox {
    fn types(&self) -> Vec<String> {
        self.by_type.keys().cloned().collect()
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        match self.by_type.get(&assignment.task_type) {
            Some(executor) => executor.execute(assignment, context),
            None => Box::pin(async move { unknown(&assignment.task_type) }),
        }
    }

    fn execute_at_once(&self, assignment: Assignment) -> Result<Outcome, Assignment> {
        match self.by_type.get(&assignment.task_type) {
            Some(executor) => executor.execute_at_once(assignment),
            None => Ok(unknown(&assignment.task_type)),
        }
    }
}

fn unknown(name: &str) -> Outcome {
    Outcome::hopeless(TYPE_UNKNOWN, format!("{name} is not offered here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_all_executors_are_offered_and_found() {
        let commands = CommandRunner::new(crate::runner::command::Options::default());
        let toolbox = Toolbox::usual(commands);
        let types = toolbox.types();
        for name in ["core.noop", "command", "plan", "plan.step"] {
            assert!(types.contains(&name.into()), "{types:?}");
        }
        assert!(matches!(at_once(&toolbox, "core.noop"), Ok(Outcome::Completed { .. })));
        assert!(matches!(at_once(&toolbox, "core.unheard_of"), Ok(Outcome::Failed { .. })));
        assert!(at_once(&toolbox, "command").is_err(), "a program takes its time");
        assert!(at_once(&toolbox, "plan").is_err(), "and so do several");
    }

    fn at_once(toolbox: &Toolbox, name: &str) -> Result<Outcome, Assignment> {
        let parameters = serde_json::value::to_raw_value(&()).expect("JSON");
        toolbox.execute_at_once(Assignment {
            lease_id: "l-1".into(),
            task_id: "l".into(),
            attempt: 1,
            task_type: name.into(),
            parameters,
        })
    }
}
