//! Tasks per second, end to end: submitting and working at the same time.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::figures::{Histogram, as_f64, rounded};
use super::load::{Submitted, Worked};
use super::plan::{Door, Plan};
use super::report::Report;
use crate::lab::Lab;
use crate::process::Process;

/// The longest that one measurement may take.
const LIMIT: Duration = Duration::from_mins(30);
const COMMITS: &str = "store_commit_ms";

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let lab = plan.lab().await?;
    let before = Histogram::read(&lab.client.get_text("/metrics").await?, COMMITS);
    let workers = start_workers(&lab, plan)?;
    let (submitted, worked) = pass_through(&lab, plan, plan.tasks, workers).await?;
    let after = Histogram::read(&lab.client.get_text("/metrics").await?, COMMITS);
    report.commit_ms = after.since(&before).percentiles();
    report.tasks_per_s = Some(rate(submitted.count, worked.last_verdict_ns, submitted.started_ns));
    report.submit_per_s = Some(rate(submitted.count, submitted.ended_ns, submitted.started_ns));
    Ok(())
}

fn rate(count: u64, end_ns: u64, start_ns: u64) -> f64 {
    let seconds = as_f64(end_ns.saturating_sub(start_ns).max(1)) / 1e9;
    rounded(as_f64(count) / seconds)
}

pub(super) fn start_workers(lab: &Lab, plan: &Plan) -> Result<Vec<Process>> {
    if plan.door == Door::Ws {
        let slots = plan.slots.to_string();
        let start = |number: u64| {
            let name = format!("load-{number}");
            lab.load(&name, &["ws-work", "--id", &name, "--slots", &slots])
        };
        return (1..=plan.workers.max(1)).map(start).collect();
    }
    let batch = plan.batch.to_string();
    let clients = plan.clients.div_ceil(plan.workers.max(1)).to_string();
    let resp = lab.resp_address().to_string();
    let start = |number: u64| {
        let name = format!("load-{number}");
        let mut words = vec!["work", "--id", &name, "--batch", &batch, "--clients", &clients];
        if plan.door == Door::Resp {
            words = vec!["resp-work", "--batch", &batch, "--clients", &clients, "--resp", &resp];
        }
        lab.load(&name, &words)
    };
    (1..=plan.workers.max(1)).map(start).collect()
}

/// Submits tasks and waits until the workers have reported all of them.
pub(super) async fn pass_through(
    lab: &Lab,
    plan: &Plan,
    tasks: u64,
    mut workers: Vec<Process>,
) -> Result<(Submitted, Worked)> {
    let submitted = submit(lab, plan, tasks).await?;
    let mut all = Worked { committed: 0, others: 0, last_verdict_ns: 0 };
    for worker in &mut workers {
        worker.close_stdin();
    }
    for worker in &mut workers {
        let one: Worked = worker.line_within(LIMIT).await?;
        all.committed += one.committed;
        all.others += one.others;
        all.last_verdict_ns = all.last_verdict_ns.max(one.last_verdict_ns);
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
pub(super) async fn submit(lab: &Lab, plan: &Plan, tasks: u64) -> Result<Submitted> {
    let numbers = [tasks, plan.batch, plan.clients, plan.payload].map(|number| number.to_string());
    let [tasks, batch, clients, payload] = numbers.each_ref().map(String::as_str);
    let resp = lab.resp_address().to_string();
    let words = ["--tasks", tasks, "--batch", batch, "--clients", clients, "--payload", payload];
    let words = match plan.door {
        Door::Http | Door::Ws => [&["submit"], &words[..]].concat(),
        Door::Resp => [&["resp-submit"], &words[..], &["--resp", &resp]].concat(),
    };
    lab.load("submitter", &words)?.line_within(LIMIT).await
}
