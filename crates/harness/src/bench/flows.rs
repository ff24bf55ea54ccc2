//! Runs of workflows: how soon a large one is accepted, how many nodes a second are executed, what
//! a step of a chain costs, and how long a fan-out takes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::figures::{as_f64, rounded};
use super::measure::start_workers;
use super::{Figures, Plan};
use crate::test_cluster::{Door, TestCluster};

/// The longest that one run may take.
const LIMIT: Duration = Duration::from_mins(5);
/// Nodes of the large run.
const LARGE: usize = 100_000;
/// Nodes of the chain.
const CHAIN: usize = 200;
/// Each small measurement is taken so often; the one in the middle is told.
const TURNS: usize = 5;

/// What was measured.
#[derive(Clone, Copy, Debug, Serialize)]
struct FlowTimes {
    accept_100k_s: f64,
    nodes_per_s: f64,
    chain_step_ms: f64,
    fan_2000_s: f64,
    fan_10000_s: f64,
    /// What a node costs in a run of 10,000, as a multiple of what it costs in one of 1,000.
    cost_ratio_10k_to_1k: f64,
}

/// A run as far as this measurement looks at it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    status: String,
    created_at: String,
    finished_at: Option<String>,
}

pub(super) async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let cluster = plan.cluster().await?;
    let plan = Plan { door: Door::Ws, ..plan.clone() };
    let _workers = start_workers(&cluster, &plan)?;
    run(&cluster, &layers(1_000, 100)).await?;
    let chain = middle(&cluster, &layers(CHAIN, 1)).await?;
    let fan_2000 = middle(&cluster, &fan(2_000)).await?;
    let fan_10000 = middle(&cluster, &fan(10_000)).await?;
    let small = middle(&cluster, &layers(1_000, 100)).await?;
    let big = middle(&cluster, &layers(10_000, 1_000)).await?;
    let (accepted, large) = run(&cluster, &layers(LARGE, 1_000)).await?;
    let times = FlowTimes {
        accept_100k_s: rounded(accepted.as_secs_f64()),
        nodes_per_s: rounded(as_f64(LARGE as u64) / large.as_secs_f64()),
        chain_step_ms: rounded(chain.as_secs_f64() * 1e3 / as_f64(CHAIN as u64)),
        fan_2000_s: rounded(fan_2000.as_secs_f64()),
        fan_10000_s: rounded(fan_10000.as_secs_f64()),
        cost_ratio_10k_to_1k: rounded(big.as_secs_f64() / 10.0 / small.as_secs_f64()),
    };
    figures.add("flows", times)
}

async fn middle(cluster: &TestCluster, workflow: &Value) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..TURNS {
        times.push(run(cluster, workflow).await?.1);
    }
    times.sort_unstable();
    Ok(times[TURNS / 2])
}

/// How long it took to be accepted, and from its start to its end by the server's own clock.
async fn run(cluster: &TestCluster, workflow: &Value) -> Result<(Duration, Duration)> {
    let body = json!({ "workflow": workflow });
    let began = Instant::now();
    let started: Value = cluster.client.post("/api/v1/runs", &body).await?;
    let accepted = began.elapsed();
    let id = started["runId"].as_str().context("a run has an id")?;
    while began.elapsed() < LIMIT {
        // The answer waits: whoever asks again and again slows down what is measured.
        let path = format!("/api/v1/runs/{id}?nodes=false&wait=20");
        let ended: Ended = cluster.client.get(&path).await?;
        if let Some(finished_at) = &ended.finished_at {
            ensure!(ended.status == "succeeded", "run {id} {}", ended.status);
            return Ok((accepted, between(&ended.created_at, finished_at)?));
        }
    }
    anyhow::bail!("run {id} did not end")
}

fn between(start: &str, end: &str) -> Result<Duration> {
    let moment = |text: &str| text.parse::<model::Timestamp>().context("a moment");
    Ok(moment(end)?.since(moment(start)?).max(Duration::from_millis(1)))
}

/// So many nodes, so many in a layer; each node of a layer waits for one of the layer before.
fn layers(nodes: usize, width: usize) -> Value {
    let edges = (width..nodes).map(|node| edge(node - width, node));
    workflow(nodes, &edges.collect::<Vec<_>>())
}

/// One, then so many at once, then one.
fn fan(width: usize) -> Value {
    let out = (1..=width).map(|node| edge(0, node));
    let back = (1..=width).map(|node| edge(node, width + 1));
    workflow(width + 2, &out.chain(back).collect::<Vec<_>>())
}

fn workflow(nodes: usize, edges: &[Value]) -> Value {
    let nodes: Vec<Value> =
        (0..nodes).map(|node| json!({ "id": id(node), "type": "core.noop" })).collect();
    json!({
        "id": id(usize::MAX), "schemaVersion": "2025-10", "metadata": { "name": "bench" },
        "nodes": nodes, "edges": edges
    })
}

fn edge(from: usize, to: usize) -> Value {
    json!({ "source": { "node": id(from) }, "target": { "node": id(to) } })
}

fn id(node: usize) -> Uuid {
    Uuid::from_u128(0x4000_0000_0000_8000_0000_0000_0000 + node as u128)
}
