//! Submit to verdict, one task at a time, on an idle server with one worker that waits.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use protocol::rest::leases::{GrantedLeases, RequestLeases, Verdicts};
use tokio::sync::mpsc;
use worker::client::Client;

use super::figures::Percentiles;
use super::plan::{Door, Plan};
use super::report::Report;

const LIMIT: Duration = Duration::from_mins(10);
const WAIT: Duration = Duration::from_secs(20);
/// Between two samples, so that the worker waits at the server again.
const PAUSE: Duration = Duration::from_millis(2);
/// The first samples warm up what is warm in a server that has been running.
const WARM_UP: u64 = 50;

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let lab = plan.lab().await?;
    let samples = plan.samples.to_string();
    let resp = lab.resp_address().to_string();
    let words: &[&str] = match plan.door {
        Door::Http => &["latency", "--samples", &samples],
        Door::Ws => &["ws-latency", "--samples", &samples],
        Door::Resp => &["resp-latency", "--samples", &samples, "--resp", &resp],
    };
    let mut load = lab.load("latency", words)?;
    report.latency_ms = Some(load.line_within(LIMIT).await?);
    Ok(())
}

/// Runs in a process of its own: a submitter and a worker, on one connection each.
pub(super) async fn sample(client: Client, samples: u64) -> Result<Percentiles> {
    let (tell, verdicts) = mpsc::channel(1);
    let working = tokio::spawn(execute(client.clone(), tell));
    let times = sample_with(client, samples, verdicts).await;
    working.abort();
    times
}

/// Submits one task at a time; `verdicts` tells when the worker heard that it was committed.
pub(super) async fn sample_with(
    client: Client,
    samples: u64,
    mut verdicts: mpsc::Receiver<Instant>,
) -> Result<Percentiles> {
    let task = Bytes::from_static(br#"{"type":"core.noop","parameters":{}}"#);
    let mut times = Vec::new();
    for number in 0..samples + WARM_UP {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        let submit = client.post_raw("/api/v1/tasks", task.clone(), Duration::ZERO);
        let (submitted, verdict) = tokio::join!(submit, verdicts.recv());
        submitted?;
        let heard: Instant = verdict.context("the worker ended")?;
        if number >= WARM_UP {
            times.push(heard.duration_since(start).as_secs_f64() * 1_000.0);
        }
    }
    Percentiles::of(times).context("no samples")
}

async fn execute(client: Client, tell: mpsc::Sender<Instant>) -> Result<()> {
    let request = RequestLeases {
        worker_id: "latency".into(),
        max: Some(1),
        wait_ms: i64::try_from(WAIT.as_millis()).ok(),
        ..RequestLeases::default()
    };
    loop {
        let granted: GrantedLeases = client.post_waiting("/api/v1/leases", &request, WAIT).await?;
        for lease in granted.leases {
            let report = serde_json::json!({ "reports": [{
                "lease_id": lease.lease_id, "worker_id": "latency", "outcome": "complete",
            }]});
            let _: Verdicts = client.post("/api/v1/reports", &report).await?;
            tell.send(Instant::now()).await?;
        }
    }
}
