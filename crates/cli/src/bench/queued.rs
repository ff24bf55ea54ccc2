//! Memory per queued task, and the time to serve again with all of them.

use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::{as_f64, resident_bytes, rounded};
use super::plan::Plan;
use super::report::Report;
use super::throughput::{pass_through, start_workers, submit};
use crate::lab::Lab;

/// Tasks that pass through first, so that caches and pools have their size before the base line.
const WARM_UP: u64 = 20_000;
/// What the allocator gives back, it gives back within this time.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) async fn measure(plan: &Plan, with_restart: bool, report: &mut Report) -> Result<()> {
    let mut lab = plan.lab().await?;
    pass_through(&lab, plan, WARM_UP, start_workers(&lab, plan)?).await?;
    let before = memory(&mut lab).await?;
    submit(&lab, plan, plan.queued).await?;
    let after = memory(&mut lab).await?;
    let per_task = as_f64(after.saturating_sub(before)) / as_f64(plan.queued.max(1));
    report.rss_bytes_per_queued_task = Some(rounded((per_task - as_f64(plan.payload)).max(0.0)));
    if with_restart {
        lab.server().kill().await?;
        report.restart_s = Some(rounded(lab.restart_server(None).await?.as_secs_f64()));
    }
    Ok(())
}

async fn memory(lab: &mut Lab) -> Result<u64> {
    tokio::time::sleep(SETTLE).await;
    resident_bytes(lab.server().id().context("the server has ended")?)
}
