//! Runs in short: those of commands are put together from their tasks.

use std::collections::BTreeMap;

use protocol::rest::runs::{Run, RunStatus};
use protocol::rest::tasks::{State, Task};
use serde::Serialize;

use super::plan::Parameters;
use crate::words;

/// A command line longer than this is cut for people.
const COMMAND_CHARS_MAX: usize = 48;

/// A run of a workflow in short.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkflowRunSummary {
    /// Its number.
    pub(super) run: String,
    pub(super) run_id: String,
    /// The workflow's name.
    pub(super) name: String,
    pub(super) workflow_id: String,
    pub(super) status: RunStatus,
    pub(super) created_at: String,
    /// When it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settled_at: Option<String>,
}

impl WorkflowRunSummary {
    pub(super) fn of(run: Run) -> Self {
        Self {
            run: run.number.to_string(),
            run_id: run.run_id,
            name: run.name,
            workflow_id: run.workflow_id,
            status: run.status,
            created_at: run.created_at,
            settled_at: run.finished_at,
        }
    }

    pub(super) fn took(&self) -> String {
        let end = self.settled_at.as_deref();
        end.and_then(|end| words::between(&self.created_at, end)).unwrap_or_else(|| "-".into())
    }
}

/// A run of commands in short.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunSummary {
    pub(super) run: String,
    /// The command of its first task.
    pub(super) argv: Vec<String>,
    pub(super) tasks: usize,
    /// How many tasks are in which state.
    pub(super) states: BTreeMap<State, usize>,
    pub(super) created_at: String,
    /// When its last task ended, if all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) settled_at: Option<String>,
}

impl RunSummary {
    /// Of the tasks of one run, newest first; `None` without any.
    pub(super) fn of(run: &str, tasks: &[Task]) -> Option<Self> {
        let first = tasks.last()?;
        let mut states = BTreeMap::new();
        for task in tasks {
            *states.entry(task.state).or_insert(0) += 1;
        }
        let is_over = tasks.iter().all(|task| task.state.is_terminal());
        let last = tasks.iter().filter_map(|task| task.settled_at.clone()).max();
        Some(Self {
            run: run.into(),
            argv: Parameters::of(&first.parameters).argv,
            tasks: tasks.len(),
            states,
            created_at: first.created_at.clone(),
            settled_at: last.filter(|_| is_over),
        })
    }

    /// The state of the whole: what is worst of what is over, else what is furthest of the rest.
    pub(super) fn state(&self) -> State {
        let has = |state: &State| self.states.contains_key(state);
        let order = if self.settled_at.is_some() {
            [State::Dead, State::Failed, State::Stopped, State::Completed]
        } else {
            [State::Running, State::Retrying, State::Queued, State::Waiting]
        };
        let state = order.into_iter().find(has).unwrap_or(State::Waiting);
        // Out of attempts or not, to a person it failed.
        if state == State::Dead { State::Failed } else { state }
    }

    pub(super) fn command(&self) -> String {
        let line = self.argv.join(" ");
        if line.chars().count() <= COMMAND_CHARS_MAX {
            return line;
        }
        line.chars().take(COMMAND_CHARS_MAX - 1).chain(['…']).collect()
    }

    pub(super) fn took(&self) -> String {
        let end = self.settled_at.as_deref();
        end.and_then(|end| words::between(&self.created_at, end)).unwrap_or_else(|| "-".into())
    }
}
