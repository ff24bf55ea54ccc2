//! The outside client's submits: an unanswered one is sent again, with the same keys.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use model::TaskId;
use protocol::error_code::ErrorCode;
use protocol::rest::tasks::{Retry, State, SubmitTasks, SubmittedTasks, Task, TaskToSubmit};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use worker::client::{Client, Patience};

use super::dice::Dice;
use super::ledger::Ledger;

/// Short, so that a killed worker's tasks come back within a cycle or two.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(1);
/// Longer than any time that a server is away here.
pub(super) const PATIENCE: Patience = Patience { total: Duration::from_mins(1) };
const BATCH_MAX: u64 = 8;
const WORK_MS_MAX: u64 = 40;

pub(super) struct Submitter {
    pub(super) name: u64,
    pub(super) client: Client,
    pub(super) ledger: Arc<Ledger>,
    pub(super) dice: Dice,
}

impl Submitter {
    /// Submits until told to stop; then everything that it has sent is answered.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        let mut number = 0;
        while !stop.is_cancelled() {
            let batch = self.batch(&mut number);
            let tasks = self.submit(&batch).await?;
            if self.dice.one_in(10) {
                self.submit(&batch).await?;
            }
            if self.dice.one_in(20) {
                let task = tasks[self.dice.index(tasks.len())];
                self.stop(task).await?;
            }
            tokio::time::sleep(self.dice.millis(2, 30)).await;
        }
        Ok(())
    }

    fn batch(&mut self, number: &mut u64) -> SubmitTasks {
        let count = 1 + self.dice.below(BATCH_MAX);
        let tasks = (0..count).map(|_| {
            *number += 1;
            let key = format!("s{}-{number}", self.name);
            stamp(key, self.dice.below(WORK_MS_MAX))
        });
        SubmitTasks { tasks: tasks.collect() }
    }

    async fn submit(&self, batch: &SubmitTasks) -> Result<Vec<TaskId>> {
        let answer: SubmittedTasks =
            self.client.post_patiently("/api/v1/tasks", batch, PATIENCE).await?;
        let mut ids = Vec::new();
        for (sent, answered) in batch.tasks.iter().zip(&answer.tasks) {
            let id = answered.task_id.parse()?;
            let key = sent.idempotency_key.as_deref().unwrap_or_default();
            self.ledger.acknowledge(key, id);
            ids.push(id);
        }
        if ids.len() != batch.tasks.len() {
            self.ledger.violation(format!("{} tasks sent, {} named", batch.tasks.len(), ids.len()));
        }
        Ok(ids)
    }

    async fn stop(&self, task: TaskId) -> Result<()> {
        self.ledger.open().stop_asked.insert(task);
        let path = format!("/api/v1/tasks/{task}/cancel");
        let nothing = serde_json::json!({});
        match self.client.post_patiently::<Task>(&path, &nothing, PATIENCE).await {
            Ok(answer) if answer.state == State::Stopped => {
                self.ledger.open().stopped.insert(task);
                Ok(())
            }
            Ok(_) => Ok(()),
            // It came to its end first.
            Err(error) if error.refusal() == Some(ErrorCode::TaskConflict) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Submits a task that ends its worker's process.
pub(super) async fn submit_crash(client: &Client, ledger: &Ledger, number: u64) -> Result<()> {
    let key = format!("crash-{number}");
    let task = TaskToSubmit { task_type: "core.crash".into(), ..stamp(key.clone(), 0) };
    let batch = SubmitTasks { tasks: vec![task] };
    let answer: SubmittedTasks = client.post_patiently("/api/v1/tasks", &batch, PATIENCE).await?;
    for answered in answer.tasks {
        let id = answered.task_id.parse()?;
        ledger.acknowledge(&key, id);
        ledger.open().crashing.insert(id);
    }
    Ok(())
}

fn stamp(key: String, work_ms: u64) -> TaskToSubmit {
    let parameters = RawValue::from_string(format!(r#"{{"ms":{work_ms}}}"#)).expect("JSON");
    TaskToSubmit {
        task_type: "core.stamp".into(),
        parameters: Some(parameters),
        queue: None,
        priority: None,
        not_before: None,
        after: Vec::new(),
        timeout_ms: None,
        lease_ttl_ms: i64::try_from(LEASE_TTL.as_millis()).ok(),
        retry: Some(Retry {
            max_attempts: Some(1_000),
            backoff_ms: Some(10),
            backoff_max_ms: Some(100),
        }),
        concurrency_key: None,
        run: None,
        requires: None,
        idempotency_key: Some(key),
    }
}
