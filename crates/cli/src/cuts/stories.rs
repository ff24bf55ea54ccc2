//! Two faults that are stories of their own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::rest::tasks::{State, SubmitTasks, SubmittedTasks, Task};
use worker::client::Client;

use super::audit::{self, Expected, Findings};
use super::crew::Member;
use super::job::Job;
use crate::lab::Lab;

const LEASE_TTL: Duration = Duration::from_secs(2);
/// The frozen worker's program is at work for so long.
const WORK: Duration = Duration::from_secs(1);
/// From one step of a story to the next.
const STEP_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long connections to a server that hangs up are counted.
const HANG_UPS_COUNTED_FOR: Duration = Duration::from_secs(20);
/// A worker that does not slow down connects thousands of times meanwhile.
const HANG_UPS_MAX: u64 = 40;
/// One that gives up connects no more at all.
const HANG_UPS_MIN: u64 = 2;

/// A worker is frozen past its lease, and the task goes to another one. Thawed, it must be told
/// that its result does not count.
pub(super) async fn frozen(lab: &Lab) -> Result<Findings> {
    let executions = lab.folder().join("executions");
    let first = Member::start(lab, "frozen", 1).await?;
    let job = Job { key: "frozen-job".into(), n_lines: 3, pause: WORK, lease_ttl: LEASE_TTL };
    let batch = SubmitTasks { tasks: vec![job.task(&executions)?] };
    let answer: SubmittedTasks = lab.client.post("/api/v1/tasks", &batch).await?;
    let task = &answer.tasks.first().context("no task was made")?.task_id;
    // Only when its program runs: then the worker has the dispatch.
    until("the task runs", async || Ok(executions.exists())).await?;
    first.process.freeze()?;
    let second = Member::start(lab, "second", 1).await?;
    let is_done = async || Ok(show(&lab.client, task).await?.state == State::Completed);
    until("another worker completes the task", is_done).await?;
    first.process.thaw()?;
    let is_told = async || Ok(first.verdicts().await?.cancelled == 1);
    until("the thawed worker hears CANCELLED", is_told).await?;

    let jobs = [job];
    let expected = Expected { jobs: &jobs, executions: &executions, leases_may_end: true };
    let mut findings = audit::audit(&lab.client, &expected).await?;
    let (late, other) = (first.verdicts().await?, second.verdicts().await?);
    let has_one_commit = (late.committed, other.committed, other.cancelled) == (0, 1, 0);
    if !has_one_commit || late.rejected + other.rejected > 0 {
        let what = format!("verdicts of the frozen worker {late:?}, of the other one {other:?}");
        findings.violations.push(what);
    }
    let task = show(&lab.client, task).await?;
    if task.worker_id.as_deref() != Some("second") || task.attempt != 2 {
        let what = format!("attempt {} by {:?} was committed", task.attempt, task.worker_id);
        findings.violations.push(what);
    }
    Ok(findings)
}

/// A server that takes connections and closes them at once. Gives the number of connections.
pub(super) async fn hung_up_on(lab: &Lab, findings: &mut Findings) -> Result<u64> {
    let member = Member::start(lab, "hung-up-on", 1).await?;
    member.proxy.close_at_once();
    let started = Instant::now();
    while started.elapsed() < HANG_UPS_COUNTED_FOR {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let n = member.proxy.n_connections();
    if !(HANG_UPS_MIN..HANG_UPS_MAX).contains(&n) {
        let seconds = HANG_UPS_COUNTED_FOR.as_secs();
        findings.violations.push(format!("{n} connections to a closing server in {seconds} s"));
    }
    Ok(n)
}

async fn show(client: &Client, task: &str) -> Result<Task> {
    Ok(client.get(&format!("/api/v1/tasks/{task}")).await?)
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_so().await? {
        ensure!(started.elapsed() < STEP_WITHIN, "not within {STEP_WITHIN:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
