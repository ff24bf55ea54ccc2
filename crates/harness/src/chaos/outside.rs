//! Clients and a worker that are never killed: they keep books of everything that they are told.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use client::Client;
use model::{LeaseId, TaskId};
use protocol::error_code::ErrorCode;
use protocol::rest::leases::{
    GrantedLease, GrantedLeases, RequestLeases, VerdictAnswer, VerdictWord, Verdicts,
};
use protocol::rest::tasks::{State, Task};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::ledger::{Ledger, PATIENCE, Told, task};
use crate::rng::Rng;
use crate::worker::{CRASH, STAMP};

/// Short, so that a killed worker's tasks come back within a cycle or two.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(1);
const BATCH_MAX: u64 = 8;
const WORK_MS_MAX: u64 = 40;
const WORKER_ID: &str = "outside";
const LEASES_MAX: i64 = 8;
const LEASE_WAIT: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);
/// Elements of the list in the middle of the workflow.
const ITEMS: usize = 5;
/// A run of the workflow has so many tasks: one, the list, one, and one.
pub(super) const TASKS_OF_RUN: usize = ITEMS + 3;

/// One of those who talk to the server.
pub(super) struct Outside {
    pub(super) client: Client,
    pub(super) ledger: Arc<Ledger>,
    pub(super) rng: Rng,
}

impl Outside {
    /// Submits tasks until told to stop; then everything that it has sent is answered.
    pub(super) async fn submit(mut self, name: u64, stop: CancellationToken) -> Result<()> {
        let mut number = 0;
        while !stop.is_cancelled() {
            let count = 1 + self.rng.below(BATCH_MAX);
            let batch = (0..count).map(|_| {
                number += 1;
                let parameters = json!({ "ms": self.rng.below(WORK_MS_MAX) });
                task(STAMP, &format!("s{name}-{number}"), &parameters, LEASE_TTL)
            });
            let batch: Vec<_> = batch.collect();
            let tasks = self.ledger.submit(&self.client, &batch).await?;
            if self.rng.one_in(10) {
                self.ledger.submit(&self.client, &batch).await?;
            }
            if self.rng.one_in(20) {
                let task = tasks[self.rng.index(tasks.len())];
                self.stop(task).await?;
            }
            tokio::time::sleep(self.rng.millis(2, 30)).await;
        }
        Ok(())
    }

    async fn stop(&self, task: TaskId) -> Result<()> {
        self.ledger.open().stop_asked.insert(task);
        let path = format!("/api/v1/tasks/{task}/cancel");
        match self.client.post_patiently::<Task>(&path, &json!({}), PATIENCE).await {
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

    /// Starts runs of a workflow until told to stop; then everything that it has sent is answered.
    pub(super) async fn start_runs(mut self, stop: CancellationToken) -> Result<()> {
        let mut number = 0;
        while !stop.is_cancelled() {
            number += 1;
            let key = format!("flow-{number}");
            self.start_run(&key).await?;
            if self.rng.one_in(5) {
                self.start_run(&key).await?;
            }
            tokio::time::sleep(self.rng.millis(100, 400)).await;
        }
        Ok(())
    }

    async fn start_run(&self, key: &str) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Started {
            run_id: String,
        }
        let body = json!({ "workflow": workflow() });
        let sent = self.client.post_with_key("/api/v1/runs", &body, key, PATIENCE);
        let Started { run_id } = sent.await?;
        let before = self.ledger.open().runs.insert(key.to_owned(), run_id.clone());
        if let Some(before) = before.filter(|before| *before != run_id) {
            self.ledger.violation(format!("key {key} named run {before} first and {run_id} later"));
        }
        Ok(())
    }

    /// Leases, reports and asks again until told to stop.
    pub(super) async fn work(mut self, stop: CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            for lease in self.lease().await? {
                self.report(lease).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Leases that are lost on the way come back by themselves.
    async fn lease(&self) -> Result<Vec<GrantedLease>> {
        let request = RequestLeases {
            worker_id: WORKER_ID.into(),
            types: Some(vec![STAMP.into()]),
            max: Some(LEASES_MAX),
            wait_ms: i64::try_from(LEASE_WAIT.as_millis()).ok(),
            ..RequestLeases::default()
        };
        let asked = self.client.post_waiting("/api/v1/leases", &request, LEASE_WAIT).await;
        match asked {
            Ok(GrantedLeases { leases }) => Ok(leases),
            Err(error) if error.is_passing() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn report(&mut self, lease: GrantedLease) -> Result<()> {
        if self.rng.one_in(15) {
            // Too late on purpose: the lease may be over.
            tokio::time::sleep(LEASE_TTL + PAUSE).await;
        }
        let report = report(&lease.lease_id);
        let verdict = send(&self.client, &report).await?;
        if self.rng.one_in(4) {
            let again = send(&self.client, &report).await?;
            compare(&self.ledger, &report, verdict, again);
        }
        if verdict == VerdictWord::Committed && self.rng.one_in(4) {
            self.contradict(&lease.lease_id).await?;
        }
        let lease: LeaseId = lease.lease_id.parse()?;
        self.ledger.open().told.push(Told { report, lease, verdict });
        Ok(())
    }

    /// Another report about a lease that was committed must be refused.
    async fn contradict(&self, lease_id: &str) -> Result<()> {
        let verdict = send(&self.client, &report(lease_id)).await?;
        if verdict != VerdictWord::Rejected {
            let text = format!("a second report about {lease_id} was {verdict:?}, not REJECTED");
            self.ledger.violation(text);
        }
        Ok(())
    }
}

/// Submits a task that ends its worker's process.
pub(super) async fn submit_crash(client: &Client, ledger: &Ledger, number: u64) -> Result<()> {
    let task = task(CRASH, &format!("crash-{number}"), &json!({}), LEASE_TTL);
    let ids = ledger.submit(client, &[task]).await?;
    ledger.open().harmful.extend(ids);
    Ok(())
}

/// How many runs have not come to their end.
pub(super) async fn live_runs(client: &Client, ledger: &Ledger) -> Result<usize> {
    let runs: Vec<String> = ledger.open().runs.values().cloned().collect();
    let mut live = 0;
    for run in runs {
        let seen: Value = client.get(&format!("/api/v1/runs/{run}?nodes=false")).await?;
        live += usize::from(seen["finishedAt"].is_null());
    }
    Ok(live)
}

/// Sends reports of old again, after whatever happened since: the verdict is the same.
pub(super) async fn send_again(client: &Client, ledger: &Ledger, chosen: Vec<usize>) -> Result<()> {
    for index in chosen {
        let found = ledger.open().told.get(index).map(|told| (told.report.clone(), told.verdict));
        let Some((report, first)) = found else { continue };
        let again = send(client, &report).await?;
        compare(ledger, &report, first, again);
    }
    Ok(())
}

fn compare(ledger: &Ledger, report: &Value, first: VerdictWord, again: VerdictWord) {
    ledger.open().resent += 1;
    if first != again {
        let lease_id = &report["lease_id"];
        ledger.violation(format!("the report about {lease_id} was {first:?}, then {again:?}"));
    }
}

/// A report under a name of its own, whose result tells the lease.
fn report(lease_id: &str) -> Value {
    json!({
        "lease_id": lease_id, "worker_id": WORKER_ID, "report_id": Uuid::new_v4(),
        "outcome": "complete", "result": { "lease_id": lease_id },
    })
}

async fn send(client: &Client, report: &Value) -> Result<VerdictWord> {
    let reports = json!({ "reports": [report] });
    let verdicts: Verdicts = client.post_patiently("/api/v1/reports", &reports, PATIENCE).await?;
    let VerdictAnswer { verdict, .. } =
        verdicts.verdicts.into_iter().next().context("a report without a verdict")?;
    Ok(verdict)
}

/// One, a list, one after it, and one beside it.
fn workflow() -> Value {
    let id = |place: u128| Uuid::from_u128(0x0c4a_0500_0000_4000_8000_0000_0000_0000 + place);
    let ttl = u64::try_from(LEASE_TTL.as_millis()).unwrap_or(1_000);
    let node = |place: u128, alias: &str, extra: Value| {
        let mut node = json!({
            "id": id(place), "type": STAMP, "alias": alias, "label": alias,
            "parameters": { "ms": 5 }, "leaseTtlMs": ttl,
            "retry": { "maxAttempts": 1000, "backoffMs": 10, "backoffMaxMs": 100 }
        });
        if let (Some(node), Value::Object(extra)) = (node.as_object_mut(), extra) {
            node.extend(extra);
        }
        node
    };
    let items: Vec<usize> = (0..ITEMS).collect();
    json!({
        "id": id(0), "schemaVersion": "2025-10", "metadata": { "name": "chaos" },
        "nodes": [
            node(1, "first", json!({})),
            node(2, "each", json!({ "map": { "over": items, "maxParallel": 3 } })),
            node(3, "last", json!({ "when": "nodes.first.status == 'succeeded'" })),
            node(4, "beside", json!({})),
        ],
        "edges": [
            { "source": { "node": id(1) }, "target": { "node": id(2) } },
            { "source": { "node": id(2) }, "target": { "node": id(3) } },
        ]
    })
}
