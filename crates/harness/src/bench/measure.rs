//! Tasks per second, latency, memory, restarts, grants and sessions.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use protocol::rest::leases::{GrantedLeases, RequestLeases};
use protocol::rest::tasks::State;
use serde_json::json;

use super::figures::{Histogram, Percentiles, as_f64, rounded};
use super::load::{Submitted, Worked, now_ns, submission};
use super::ws::AllOpen;
use super::{Figures, Part, Plan};
use crate::test_cluster::{Door, Process, TestCluster};

/// The longest that one measurement may take.
const LIMIT: Duration = Duration::from_mins(30);
const COMMITS: &str = "store_commit_ms";
/// Tasks that pass through first, so that caches and pools have their size before the base line.
const WARM_UP: u64 = 20_000;
/// What the allocator gives back, it gives back within this time.
const SETTLE: Duration = Duration::from_secs(2);

/// Submitting and working at the same time.
pub(super) async fn throughput(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let cluster = plan.cluster().await?;
    let before = Histogram::read(&cluster.client.get_text("/metrics").await?, COMMITS);
    let workers = start_workers(&cluster, plan)?;
    let (submitted, worked) = pass_through(&cluster, plan, plan.tasks, workers).await?;
    let after = Histogram::read(&cluster.client.get_text("/metrics").await?, COMMITS);
    let rate = |end_ns: u64| {
        let seconds = as_f64(end_ns.saturating_sub(submitted.started_ns).max(1)) / 1e9;
        rounded(as_f64(submitted.count) / seconds)
    };
    figures.add("tasks_per_s", rate(worked.last_verdict_ns))?;
    figures.add("submit_per_s", rate(submitted.ended_ns))?;
    figures.add("commit_ms", after.since(&before).percentiles())
}

pub(super) fn start_workers(cluster: &TestCluster, plan: &Plan) -> Result<Vec<Process>> {
    let (batch, slots) = (plan.batch.to_string(), plan.slots.to_string());
    let clients = plan.clients.div_ceil(plan.workers.max(1)).to_string();
    let resp = cluster.resp_address().to_string();
    let start = |number: u64| {
        let name = format!("load-{number}");
        let words: &[&str] = match plan.door {
            Door::Http => &["work", "--id", &name, "--batch", &batch, "--clients", &clients],
            Door::Ws => &["ws-work", "--id", &name, "--slots", &slots],
            Door::Resp => &["resp-work", "--batch", &batch, "--clients", &clients, "--resp", &resp],
        };
        cluster.load(&name, words)
    };
    (1..=plan.workers.max(1)).map(start).collect()
}

/// Submits tasks and waits until the workers have reported all of them.
async fn pass_through(
    cluster: &TestCluster,
    plan: &Plan,
    tasks: u64,
    mut workers: Vec<Process>,
) -> Result<(Submitted, Worked)> {
    let submitted = submit(cluster, plan, tasks).await?;
    let mut all = Worked::default();
    for worker in &mut workers {
        worker.close_stdin();
    }
    for worker in &mut workers {
        all.add(worker.line_within(LIMIT).await?);
    }
    ensure!(
        all.committed == submitted.count && all.others == 0,
        "{} tasks were submitted, {} committed, {} judged otherwise",
        submitted.count,
        all.committed,
        all.others
    );
    Ok((submitted, all))
}

/// Submits tasks from a process of its own.
async fn submit(cluster: &TestCluster, plan: &Plan, tasks: u64) -> Result<Submitted> {
    let numbers = [tasks, plan.batch, plan.clients, plan.payload].map(|number| number.to_string());
    let [tasks, batch, clients, payload] = numbers.each_ref().map(String::as_str);
    let resp = cluster.resp_address().to_string();
    let words = ["--tasks", tasks, "--batch", batch, "--clients", clients, "--payload", payload];
    let words = match plan.door {
        Door::Http | Door::Ws => [&["submit"], &words[..]].concat(),
        Door::Resp => [&["resp-submit"], &words[..], &["--resp", &resp]].concat(),
    };
    cluster.load("submitter", &words)?.line_within(LIMIT).await
}

/// One task at a time, on an idle server with one worker that waits.
pub(super) async fn latency(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let cluster = plan.cluster().await?;
    let samples = plan.samples.to_string();
    let resp = cluster.resp_address().to_string();
    let words: &[&str] = match plan.door {
        Door::Http => &["latency", "--samples", &samples],
        Door::Ws => &["ws-latency", "--samples", &samples],
        Door::Resp => &["resp-latency", "--samples", &samples, "--resp", &resp],
    };
    let percentiles: Percentiles = cluster.load("latency", words)?.line_within(LIMIT).await?;
    figures.add("latency_ms", percentiles)
}

/// Memory per queued task, and the time to serve again with all of them.
pub(super) async fn memory(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let mut cluster = plan.cluster().await?;
    pass_through(&cluster, plan, WARM_UP, start_workers(&cluster, plan)?).await?;
    let per_task = grown_by(&mut cluster, plan.queued, async |cluster| {
        submit(cluster, plan, plan.queued).await.map(drop)
    });
    let per_task = per_task.await? - as_f64(plan.payload);
    figures.add("rss_bytes_per_queued_task", rounded(per_task.max(0.0)))?;
    if plan.only.contains(&Part::Restart) {
        cluster.server().kill().await?;
        let took = cluster.restart_server(None).await?;
        figures.add("restart_s", rounded(took.as_secs_f64()))?;
    }
    Ok(())
}

/// The bytes by which the server grows for each of `count` things.
async fn grown_by(
    cluster: &mut TestCluster,
    count: u64,
    grow: impl AsyncFnOnce(&TestCluster) -> Result<()>,
) -> Result<f64> {
    tokio::time::sleep(SETTLE).await;
    let before = cluster.server().resident_bytes()?;
    grow(cluster).await?;
    tokio::time::sleep(SETTLE).await;
    let after = cluster.server().resident_bytes()?;
    Ok(as_f64(after.saturating_sub(before)) / as_f64(count.max(1)))
}

/// The time per grant, with few and with many queued tasks.
pub(super) async fn grants(plan: &Plan, figures: &mut Figures) -> Result<()> {
    const FEW: u64 = 1_000;
    let cluster = plan.cluster().await?;
    submit(&cluster, plan, FEW).await?;
    let few_us = time_per_grant(&cluster, plan).await?;
    submit(&cluster, plan, plan.queued.saturating_sub(FEW)).await?;
    let many_us = time_per_grant(&cluster, plan).await?;
    let many = plan.queued.max(FEW);
    let times = json!({
        "few_queued": FEW, "few_us": few_us, "many_queued": many, "many_us": many_us,
    });
    figures.add("grant_us", times)
}

/// The middle of many requests; what a request takes is put back, so that the depth stays.
async fn time_per_grant(cluster: &TestCluster, plan: &Plan) -> Result<f64> {
    /// Leases per request: the sync of one commit is shared by so many grants.
    const GRANTS: u64 = 100;
    const ROUNDS: u64 = 100;
    const WAIT: Duration = Duration::from_secs(5);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let request = RequestLeases {
            worker_id: "grants".into(),
            max: i64::try_from(GRANTS).ok(),
            ..RequestLeases::default()
        };
        let start = Instant::now();
        let granted: GrantedLeases =
            cluster.client.post_waiting("/api/v1/leases", &request, WAIT).await?;
        let took = start.elapsed();
        ensure!(granted.leases.len() as u64 == GRANTS, "fewer leases than tasks were granted");
        times.push(took.as_secs_f64() * 1e6 / as_f64(GRANTS));
        let refill = submission(GRANTS, plan.payload);
        cluster.client.post_raw("/api/v1/tasks", refill, Duration::ZERO).await?;
    }
    Ok(Percentiles::of(times).map_or(0.0, |percentiles| percentiles.p50))
}

/// Memory per idle session; the time until all are back after SIGKILL; and what became of the
/// tasks that ran meanwhile.
pub(super) async fn sessions(plan: &Plan, figures: &mut Figures) -> Result<()> {
    const OPEN_WITHIN: Duration = Duration::from_mins(3);
    let mut cluster = plan.cluster().await?;
    let count = plan.sessions.to_string();
    let mut holder = None;
    let per_session = grown_by(&mut cluster, plan.sessions, async |cluster| {
        let mut started = cluster.load("sessions", &["ws-sessions", "--count", &count])?;
        let _: AllOpen = started.line_within(OPEN_WITHIN).await?;
        holder = Some(started);
        Ok(())
    });
    figures.add("rss_bytes_per_session", rounded(per_session.await?))?;

    submit_sleepers(&cluster, plan.sessions).await?;
    let count = usize::try_from(plan.sessions)?;
    until("every task was taken", async || {
        Ok((cluster.tasks("state=RUNNING&").await?.len() == count).then_some(()))
    })
    .await?;
    cluster.server().kill().await?;
    let restarted_ns = now_ns();
    cluster.restart_server(None).await?;
    let mut holder = holder.expect("sessions were opened above");
    let back: AllOpen = holder.line_within(OPEN_WITHIN).await?;
    let took = Duration::from_nanos(back.at_ns.saturating_sub(restarted_ns));
    figures.add("sessions_back_s", rounded(took.as_secs_f64()))?;
    let again = until("every task was completed", async || {
        let tasks = cluster.tasks("").await?;
        let done = tasks.values().filter(|task| task.state == State::Completed);
        let are_all_done = done.count() == count;
        Ok(are_all_done.then(|| tasks.values().filter(|task| task.attempt != 1).count()))
    });
    figures.add("tasks_run_again", again.await?)?;
    holder.close_stdin();
    Ok(())
}

/// Submits tasks that take long enough to run while the server is killed.
async fn submit_sleepers(cluster: &TestCluster, count: u64) -> Result<()> {
    const SECONDS: u64 = 25;
    const BATCH: usize = 500;
    let parameters = json!({ "seconds": SECONDS });
    let task = json!({ "type": "core.sleep", "parameters": parameters, "lease_ttl_ms": 30_000 });
    for batch in vec![task; usize::try_from(count)?].chunks(BATCH) {
        let body = serde_json::to_vec(&json!({ "tasks": batch }))?;
        cluster.client.post_raw("/api/v1/tasks", body.into(), Duration::ZERO).await?;
    }
    Ok(())
}

async fn until<T>(what: &str, found: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    const WITHIN: Duration = Duration::from_mins(3);
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let started = Instant::now();
    loop {
        if let Some(found) = found().await? {
            return Ok(found);
        }
        ensure!(started.elapsed() < WITHIN, "not within {WITHIN:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
