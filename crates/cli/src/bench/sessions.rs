//! Memory per idle session; the time until all are back after SIGKILL; and what became of the
//! tasks that ran meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use protocol::rest::tasks::{State, TaskPage};

use super::figures::{as_f64, resident_bytes, rounded};
use super::load::now_ns;
use super::plan::Plan;
use super::report::Report;
use super::ws::AllOpen;
use crate::lab::Lab;

const LIMIT: Duration = Duration::from_mins(3);
/// What the allocator gives back, it gives back within this time.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long each of the tasks takes that run while the server is killed.
const TASK_SECONDS: u64 = 25;
/// Tasks on one page.
const PAGE: usize = 500;

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let mut lab = plan.lab().await?;
    let before = memory(&mut lab).await?;
    let count = plan.sessions.to_string();
    let mut holder = lab.load("sessions", &["ws-sessions", "--count", &count])?;
    let _: AllOpen = holder.line_within(LIMIT).await?;
    let after = memory(&mut lab).await?;
    let per_session = as_f64(after.saturating_sub(before)) / as_f64(plan.sessions.max(1));
    report.rss_bytes_per_session = Some(rounded(per_session));

    submit_sleepers(&lab, plan.sessions).await?;
    until_running(&lab, plan.sessions).await?;
    lab.server().kill().await?;
    let restarted_ns = now_ns();
    lab.restart_server(None).await?;
    let back: AllOpen = holder.line_within(LIMIT).await?;
    let took = Duration::from_nanos(back.at_ns.saturating_sub(restarted_ns));
    report.sessions_back_s = Some(rounded(took.as_secs_f64()));
    report.tasks_run_again = Some(count_run_again(&lab, plan.sessions).await?);
    holder.close_stdin();
    Ok(())
}

async fn memory(lab: &mut Lab) -> Result<u64> {
    tokio::time::sleep(SETTLE).await;
    resident_bytes(lab.server().id().context("the server has ended")?)
}

async fn submit_sleepers(lab: &Lab, count: u64) -> Result<()> {
    let task = format!(
        r#"{{"type":"core.sleep","parameters":{{"seconds":{TASK_SECONDS}}},"lease_ttl_ms":30000}}"#
    );
    let mut left = usize::try_from(count)?;
    while left > 0 {
        let batch = left.min(PAGE);
        let tasks = vec![task.as_str(); batch].join(",");
        let body = format!(r#"{{"tasks":[{tasks}]}}"#);
        lab.client.post_raw("/api/v1/tasks", body.into(), Duration::ZERO).await?;
        left -= batch;
    }
    Ok(())
}

async fn until_running(lab: &Lab, count: u64) -> Result<()> {
    let started = std::time::Instant::now();
    while in_state(lab, "RUNNING").await? < usize::try_from(count)? {
        ensure!(started.elapsed() < LIMIT, "not every task was taken");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn in_state(lab: &Lab, state: &str) -> Result<usize> {
    Ok(pages(lab, &format!("state={state}&")).await?.iter().map(|page| page.tasks.len()).sum())
}

async fn pages(lab: &Lab, filter: &str) -> Result<Vec<TaskPage>> {
    let mut pages: Vec<TaskPage> = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/tasks?{filter}limit={PAGE}{cursor}");
        let page: TaskPage = lab.client.get(&path).await?;
        let next = page.next_cursor.clone();
        pages.push(page);
        match next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(pages),
        }
    }
}

/// Waits until all tasks are done; counts those that took more than one attempt.
async fn count_run_again(lab: &Lab, count: u64) -> Result<u64> {
    let started = std::time::Instant::now();
    loop {
        let pages = pages(lab, "").await?;
        let tasks = || pages.iter().flat_map(|page| &page.tasks);
        let done = tasks().filter(|task| task.state == State::Completed).count();
        if done == usize::try_from(count)? {
            let again = tasks().filter(|task| task.attempt != 1).count();
            return Ok(u64::try_from(again)?);
        }
        ensure!(started.elapsed() < LIMIT, "only {done} of {count} tasks were completed");
        tokio::time::sleep(LOOK_EVERY * 5).await;
    }
}
