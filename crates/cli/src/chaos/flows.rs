//! The outside client's runs of workflows: each is started until it is answered, with the same
//! key, and comes to one end with each of its steps done once.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::client::Client;

use super::dice::Dice;
use super::ledger::Ledger;
use super::submitter::{LEASE_TTL, PATIENCE};

/// Elements of the list in the middle.
const ITEMS: usize = 5;
/// A run of the workflow has so many tasks: one, the list, one, and one.
const TASKS: usize = ITEMS + 3;
/// The end of a run that lost three workers in a row at one task.
const UNLUCKY: &str = "E.WORKER.LOST";

pub(super) struct Flows {
    pub(super) client: Client,
    pub(super) ledger: Arc<Ledger>,
    pub(super) dice: Dice,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    run_id: String,
}

#[derive(Deserialize)]
struct Seen {
    status: String,
    error: Option<SeenError>,
    nodes: Vec<SeenNode>,
}

#[derive(Deserialize)]
struct SeenError {
    code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenNode {
    node_id: String,
    status: String,
}

impl Flows {
    /// Starts runs until told to stop; then everything that it has sent is answered.
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        let mut number = 0;
        while !stop.is_cancelled() {
            number += 1;
            let key = format!("flow-{number}");
            self.start(&key).await?;
            if self.dice.one_in(5) {
                self.start(&key).await?;
            }
            tokio::time::sleep(self.dice.millis(100, 400)).await;
        }
        Ok(())
    }

    async fn start(&self, key: &str) -> Result<()> {
        let body = json!({ "workflow": workflow() });
        let sent = self.client.post_with_key("/api/v1/runs", &body, key, PATIENCE);
        let started: Started = sent.await?;
        let mut books = self.ledger.open();
        let before = books.runs.insert(key.to_owned(), started.run_id.clone());
        if let Some(before) = before.filter(|before| *before != started.run_id) {
            let text = format!("key {key} named run {before} first and {} later", started.run_id);
            books.violations.push(text);
        }
        Ok(())
    }
}

/// How many runs have not come to their end.
pub(super) async fn live(client: &Client, ledger: &Ledger) -> Result<usize> {
    let runs: Vec<String> = ledger.open().runs.values().cloned().collect();
    let mut live = 0;
    for run in runs {
        let seen: Value = client.get(&format!("/api/v1/runs/{run}?nodes=false")).await?;
        live += usize::from(seen["finishedAt"].is_null());
    }
    Ok(live)
}

/// Every acknowledged run is there, succeeded, and did each step once. Gives how many.
pub(super) async fn audit(client: &Client, ledger: &Ledger) -> Result<usize> {
    let runs: BTreeMap<String, String> = ledger.open().runs.clone();
    for (key, run) in &runs {
        let seen: Seen = client
            .get(&format!("/api/v1/runs/{run}"))
            .await
            .with_context(|| format!("run {run} ({key}) was acknowledged and is missing"))?;
        let is_unlucky = seen.error.as_ref().is_some_and(|error| error.code == UNLUCKY);
        if seen.status == "failed" && is_unlucky {
            continue;
        }
        if seen.status != "succeeded" {
            ledger.violation(format!("run {run} ({key}) ended up {}", seen.status));
        }
        for node in seen.nodes.iter().filter(|node| node.status != "succeeded") {
            ledger.violation(format!("run {run}: node {} is {}", node.node_id, node.status));
        }
        let tasks: Value = client.get(&format!("/api/v1/tasks?run={run}&limit=100")).await?;
        let count = tasks["tasks"].as_array().map_or(0, Vec::len);
        if count != TASKS {
            ledger.violation(format!("run {run} ({key}) made {count} tasks instead of {TASKS}"));
        }
    }
    Ok(runs.len())
}

/// One, a list, one after it, and one beside it.
fn workflow() -> Value {
    let id = |place: u128| Uuid::from_u128(0x0c4a_0500_0000_4000_8000_0000_0000_0000 + place);
    let ttl = u64::try_from(LEASE_TTL.as_millis()).unwrap_or(1_000);
    let node = |place: u128, alias: &str, extra: Value| {
        let mut node = json!({
            "id": id(place), "type": "core.stamp", "alias": alias, "label": alias,
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
