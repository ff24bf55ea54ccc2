//! Two faults that are stories of their own, each on a cluster of its own: nobody else is to take
//! the task.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use protocol::rest::leases::VerdictWord;
use protocol::rest::tasks::{State, Task};

use super::injection::ProxiedWorker;
use super::program::{self, Program, executions_path};
use crate::audit;
use crate::ledger::Ledger;
use crate::test_cluster::TestCluster;
use crate::verdict_log;

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
pub(super) async fn frozen(cluster: &TestCluster, ledger: &Ledger) -> Result<()> {
    let executions = executions_path(cluster);
    let first = ProxiedWorker::start(cluster, "frozen", 1).await?;
    let program = Program { key: "frozen".into(), n_lines: 3, pause: WORK, lease_ttl: LEASE_TTL };
    let tasks = ledger.submit(&cluster.client, &[program.task(&executions)]).await?;
    let id = *tasks.first().context("no task was made")?;
    // Only when its program runs: then the worker has the dispatch.
    until("the task runs", async || Ok(executions.exists())).await?;
    first.process.freeze()?;
    let second = ProxiedWorker::start(cluster, "second", 1).await?;
    let path = format!("/api/v1/tasks/{id}");
    let is_done = async || {
        let task: Task = cluster.client.get(&path).await?;
        Ok(task.state == State::Completed)
    };
    until("another worker completes the task", is_done).await?;
    first.process.thaw()?;
    let told = |worker: &ProxiedWorker| -> Result<_> {
        let verdicts = worker.verdicts()?;
        Ok([VerdictWord::Committed, VerdictWord::Cancelled, VerdictWord::Rejected]
            .map(|word| verdict_log::count(&verdicts, word)))
    };
    let is_told = async || Ok(told(&first)? == [0, 1, 0]);
    until("the thawed worker hears CANCELLED", is_told).await?;

    let (_, tasks) = audit::audit(cluster, ledger).await?;
    program::check(cluster, ledger, &tasks, (&[program], true)).await?;
    let (late, other) = (told(&first)?, told(&second)?);
    if (late, other) != ([0, 1, 0], [1, 0, 0]) {
        ledger.violation(format!("verdicts of the frozen worker {late:?}, of the other {other:?}"));
    }
    let task = &tasks[&id];
    if task.worker_id.as_deref() != Some("second") || task.attempt != 2 {
        let what = format!("attempt {} by {:?} was committed", task.attempt, task.worker_id);
        ledger.violation(what);
    }
    Ok(())
}

/// A server that takes connections and closes them at once. Gives the number of connections.
pub(super) async fn hung_up_on(cluster: &TestCluster, ledger: &Ledger) -> Result<u64> {
    let worker = ProxiedWorker::start(cluster, "hung-up-on", 1).await?;
    worker.proxy.close_at_once();
    tokio::time::sleep(HANG_UPS_COUNTED_FOR).await;
    let n = worker.proxy.n_connections();
    if !(HANG_UPS_MIN..HANG_UPS_MAX).contains(&n) {
        let seconds = HANG_UPS_COUNTED_FOR.as_secs();
        ledger.violation(format!("{n} connections to a closing server in {seconds} s"));
    }
    Ok(n)
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_so().await? {
        ensure!(started.elapsed() < STEP_WITHIN, "not within {STEP_WITHIN:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
