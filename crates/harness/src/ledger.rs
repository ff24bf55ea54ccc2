//! What the clients of a run were told, and what did not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use client::{Client, Patience};
use model::{LeaseId, TaskId};
use protocol::rest::leases::VerdictWord;
use protocol::rest::tasks::SubmittedTasks;
use serde_json::{Value, json};

/// Longer than any time that a server is away here.
pub(crate) const PATIENCE: Patience = Patience { total: Duration::from_mins(1) };

/// A report that a client sent itself, and what it was told about it.
pub(crate) struct Told {
    pub(crate) report: Value,
    pub(crate) lease: LeaseId,
    pub(crate) verdict: VerdictWord,
}

/// The books.
#[derive(Default)]
pub(crate) struct Books {
    /// Every acknowledged task, by its idempotency key.
    pub(crate) acknowledged: BTreeMap<String, TaskId>,
    /// Tasks that end their worker's process; they die.
    pub(crate) harmful: BTreeSet<TaskId>,
    /// Tasks whose stop was asked for, answered or not.
    pub(crate) stop_asked: BTreeSet<TaskId>,
    /// Tasks whose stop was acknowledged.
    pub(crate) stopped: BTreeSet<TaskId>,
    /// Every acknowledged run of a workflow, by its idempotency key.
    pub(crate) runs: BTreeMap<String, String>,
    /// Reports and their verdicts.
    pub(crate) told: Vec<Told>,
    /// Reports that were sent again.
    pub(crate) resent: usize,
    /// What must never happen, and did.
    pub(crate) violations: Vec<String>,
}

/// The books, shared by everyone who writes into them.
#[derive(Default)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
}

impl Ledger {
    pub(crate) fn open(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn violation(&self, text: String) {
        self.open().violations.push(text);
    }

    /// Submits tasks, each with an idempotency key, until they are acknowledged.
    pub(crate) async fn submit(&self, client: &Client, tasks: &[Value]) -> Result<Vec<TaskId>> {
        let body = json!({ "tasks": tasks });
        let answer: SubmittedTasks =
            client.post_patiently("/api/v1/tasks", &body, PATIENCE).await?;
        let (n_sent, n_named) = (tasks.len(), answer.tasks.len());
        ensure!(n_sent == n_named, "{n_sent} tasks were sent, {n_named} named");
        let mut ids = Vec::new();
        for (sent, answered) in tasks.iter().zip(&answer.tasks) {
            let id = answered.task_id.parse()?;
            self.acknowledge(sent["idempotency_key"].as_str().unwrap_or_default(), id);
            ids.push(id);
        }
        Ok(ids)
    }

    /// A submit was answered; the same key must always name the same task.
    fn acknowledge(&self, key: &str, task: TaskId) {
        let before = self.open().acknowledged.insert(key.to_owned(), task);
        if let Some(before) = before.filter(|before| *before != task) {
            self.violation(format!("key {key} named task {before} first and {task} later"));
        }
    }
}

/// A task with a key, which is tried for as long as it takes.
pub(crate) fn task(task_type: &str, key: &str, parameters: &Value, lease_ttl: Duration) -> Value {
    json!({
        "type": task_type, "idempotency_key": key, "parameters": parameters,
        "lease_ttl_ms": u64::try_from(lease_ttl.as_millis()).unwrap_or(u64::MAX),
        "retry": { "max_attempts": 1_000, "backoff_ms": 10, "backoff_max_ms": 100 },
    })
}
