//! Which runs the world has, and how they must end.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Change, LOSSES_MAX, NewRun, RunAbout, RunChange, TaskRecord, TaskState};
use flow::Program;
use model::{IdempotencyMark, RunId};
use serde_json::{Value, json};
use shard::Turn;

use super::checks::Checks;
use super::generate::Generator;
use super::interpret::interpret;
use crate::consequence::Consequence;
use crate::oracle::Notes;
use crate::tables::Tables;
use crate::workload::key_text;

/// A workflow that people run.
#[derive(Clone, Debug)]
pub(crate) struct SavedWorkflow {
    pub(crate) program: Arc<Program>,
}

impl SavedWorkflow {
    /// The workflow with this number.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let definition = Generator::new(seed, number).workflow(0);
        let source = Bytes::from(serde_json::to_vec(&definition).expect("JSON"));
        let compiled = flow::compile(source).expect("the generator makes workflows that compile");
        Self { program: Arc::new(compiled.program) }
    }

    /// A run of it. The key makes a start that is repeated find the first run.
    pub(crate) fn new_run(&self, key: &str) -> NewRun {
        NewRun {
            program: Arc::clone(&self.program),
            inputs: Bytes::from_static(b"{}"),
            idempotency: Some(IdempotencyMark { key: key_text(key), fingerprint: 1 }),
            about: Arc::new(RunAbout::default()),
            reused: Vec::new(),
        }
    }
}

/// A run that is durable.
#[derive(Debug)]
struct Run {
    program: Arc<Program>,
    checks: Checks,
}

/// The runs of all tenants.
#[derive(Debug, Default)]
pub(crate) struct RunBook {
    /// What each key starts.
    wanted: BTreeMap<String, SavedWorkflow>,
    runs: BTreeMap<RunId, Run>,
    made_of: BTreeMap<String, RunId>,
}

impl RunBook {
    /// A run of this workflow is to be started under this key.
    pub(crate) fn want(&mut self, key: &str, workflow: SavedWorkflow) {
        self.wanted.insert(key.to_owned(), workflow);
    }

    pub(crate) fn workflow(&self, key: &str) -> Option<&SavedWorkflow> {
        self.wanted.get(key)
    }

    /// The run of a key, if it is durable.
    pub(crate) fn run_of(&self, key: &str) -> Option<RunId> {
        self.made_of.get(key).copied()
    }

    pub(crate) fn is_live(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.checks.end.is_none())
    }

    /// The runs that have not ended.
    pub(crate) fn live(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().filter(|(_, run)| run.checks.end.is_none()).map(|(id, _)| *id)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// A turn became durable.
    pub(crate) fn take(&mut self, turn: &Turn, notes: &mut Notes) {
        for change in &turn.runs {
            if let RunChange::RunStarted(record) = change {
                let key = record.idempotency.as_ref().map(|mark| mark.key.to_string());
                self.started(&key.unwrap_or_default(), record.id, notes);
            }
        }
        for change in &turn.runs {
            if let Some(run) = self.runs.get_mut(&change.run()) {
                notes.wrong("P2", run.checks.take_run(change));
            }
        }
        let made = |change: &Change| match change {
            Change::TaskSubmitted(record) => record.link.clone().map(|link| (record.id, link)),
            _ => None,
        };
        let links: Vec<_> = turn.changes.iter().filter_map(made).collect();
        for (task, link) in &links {
            if let Some(run) = self.runs.get_mut(&link.run) {
                run.checks.take_link(*task, link);
            }
        }
        for change in turn.changes.iter().filter(|change| is_settled(change)) {
            for run in self.runs.values_mut() {
                let Run { program, checks } = run;
                checks.take_end(program, change);
            }
        }
        for (_, link) in &links {
            if let Some(Run { program, checks }) = self.runs.get_mut(&link.run) {
                notes.wrong("P2", checks.check_start(program, link));
            }
        }
    }

    fn started(&mut self, key: &str, id: RunId, notes: &mut Notes) {
        let Some(workflow) = self.wanted.get(key) else {
            return notes.broken("P2", || format!("nobody wanted run {id}, of key {key}"));
        };
        let program = Arc::clone(&workflow.program);
        self.runs.insert(id, Run { program, checks: Checks::default() });
        let before = self.made_of.insert(key.to_owned(), id);
        notes.demand(before.is_none(), "P2", || format!("{key} started two runs"));
    }

    /// Every run ended as the interpreter says.
    pub(crate) fn check_ends(&self, tables: &Tables, notes: &mut Notes) {
        for (id, run) in &self.runs {
            let Some(end) = &run.checks.end else { continue };
            let given_up = has_given_up(tables, *id);
            notes.wrong("P2", given_up.as_ref().map(|_| ()).map_err(Clone::clone));
            if given_up != Ok(false) || end.word == coordinator::RunWord::Cancelled {
                notes.happened(Consequence::RunNotCompared);
                continue;
            }
            notes.happened(Consequence::RunAsInterpreted);
            let expected = interpret(&run.program, &id.to_string(), &json!({}));
            let outputs: Option<Value> =
                end.outputs.as_ref().map(|json| serde_json::from_slice(json).expect("JSON"));
            let (found, wanted) =
                (outputs.map(without_errors), expected.outputs.map(without_errors));
            notes.demand(end.word == expected.word && found == wanted, "P2", || {
                let (word, failure) = (end.word, &end.failure);
                let should = expected.word;
                format!("run {id} ended {word:?} ({failure:?}) with {found:?}; it should be {should:?} with {wanted:?}")
            });
        }
    }
}

fn is_settled(change: &Change) -> bool {
    matches!(change, Change::TaskSettled { .. })
}

/// Losses and crashes together may cost one task all the workers that it may lose; how its run
/// ends then, no interpreter foresees.
fn has_given_up(tables: &Tables, run: RunId) -> Result<bool, String> {
    let is_lost = |task: &&TaskRecord| match &task.progress.state {
        TaskState::Settled(end) => end.failure.as_ref().is_some_and(|failure| {
            ["E.WORKER.LOST", "E.DISPATCH.UNAVAILABLE"].contains(&failure.code.as_str())
        }),
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => false,
    };
    let parts = tables.run_parts(run.shard(), run);
    let lost: Vec<&TaskRecord> = parts.tasks.iter().filter(is_lost).collect();
    match lost.iter().find(|task| task.progress.losses < LOSSES_MAX) {
        Some(task) => Err(format!("task {} of {run} was given up too soon", task.id)),
        None => Ok(!lost.is_empty()),
    }
}

/// The words of failures are not compared, only who failed.
fn without_errors(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("errors");
            let inner = std::mem::take(fields).into_iter();
            Value::Object(inner.map(|(key, value)| (key, without_errors(value))).collect())
        }
        Value::Array(items) => {
            Value::Array(std::mem::take(items).into_iter().map(without_errors).collect())
        }
        _ => value,
    }
}
