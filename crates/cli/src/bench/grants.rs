//! The time per grant, with few and with many queued tasks.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use protocol::rest::leases::{GrantedLeases, RequestLeases};

use super::figures::{Percentiles, as_f64};
use super::plan::Plan;
use super::report::{GrantTimes, Report};
use super::throughput::submit;
use crate::lab::Lab;

const FEW: u64 = 1_000;
/// Leases per request: the sync of one commit is shared by so many grants.
const GRANTS: u64 = 100;
const ROUNDS: u64 = 100;
const WAIT: Duration = Duration::from_secs(5);

pub(super) async fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let lab = plan.lab().await?;
    submit(&lab, plan, FEW).await?;
    let few_us = time_per_grant(&lab, plan).await?;
    submit(&lab, plan, plan.queued.saturating_sub(FEW)).await?;
    let many_us = time_per_grant(&lab, plan).await?;
    let many_queued = plan.queued.max(FEW);
    report.grant_us = Some(GrantTimes { few_queued: FEW, few_us, many_queued, many_us });
    Ok(())
}

/// The middle of many requests; what a request takes is put back, so that the depth stays.
async fn time_per_grant(lab: &Lab, plan: &Plan) -> Result<f64> {
    let mut times = Vec::new();
    let refill = Plan { batch: GRANTS, clients: 1, ..plan.clone() };
    for _ in 0..ROUNDS {
        let request = RequestLeases {
            worker_id: "grants".into(),
            max: i64::try_from(GRANTS).ok(),
            ..RequestLeases::default()
        };
        let start = Instant::now();
        let granted: GrantedLeases =
            lab.client.post_waiting("/api/v1/leases", &request, WAIT).await?;
        let took = start.elapsed();
        ensure!(granted.leases.len() as u64 == GRANTS, "fewer leases than tasks were granted");
        times.push(took.as_secs_f64() * 1e6 / as_f64(GRANTS));
        submit_here(lab, &refill).await?;
    }
    Ok(Percentiles::of(times).map_or(0.0, |percentiles| percentiles.p50))
}

async fn submit_here(lab: &Lab, plan: &Plan) -> Result<()> {
    let body = super::load::submission(plan.batch, plan.payload);
    lab.client.post_raw("/api/v1/tasks", body, Duration::ZERO).await?;
    Ok(())
}
