//! What a worker can do, behind one small trait.

use std::future::Future;
use std::pin::Pin;

use serde_json::value::RawValue;

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
        /// Any JSON.
        result: Box<RawValue>,
    },
    /// It failed. Whether it is tried again is not ours to decide (seed 002 section 6.3).
    Failed {
        /// A short code.
        code: String,
        /// A sentence.
        reason: String,
        /// Whether another attempt could help.
        retryable: bool,
    },
}

impl Outcome {
    /// A failure that another attempt would only repeat.
    pub fn hopeless(code: &str, reason: impl Into<String>) -> Self {
        Self::Failed { code: code.into(), reason: reason.into(), retryable: false }
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
    fn execute(&self, assignment: Assignment) -> Work;
}
