//! What is measured, and in which order.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use super::report::Report;
use super::{flows, grants, latency, queued, sessions, throughput};
use crate::lab::Lab;
use crate::output::Output;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Tasks per second, end to end.
    Throughput,
    /// Submit to verdict, one at a time.
    Latency,
    /// Memory per queued task.
    Memory,
    /// Time to serve again after SIGKILL, with all queued tasks.
    Restart,
    /// Time per grant, with few and with many queued tasks.
    Grants,
    /// Memory per idle session, and the time until all are back after SIGKILL of the server.
    Sessions,
    /// Runs of workflows.
    Flows,
}

/// How workers reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Door {
    /// They pull leases in batches.
    Http,
    /// They hold a session; work is pushed.
    Ws,
    /// They pop jobs, as Redis clients.
    Resp,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    pub(crate) tasks: u64,
    pub(crate) workers: u64,
    pub(crate) batch: u64,
    pub(crate) clients: u64,
    pub(crate) payload: u64,
    pub(crate) queued: u64,
    pub(crate) samples: u64,
    pub(crate) door: Door,
    pub(crate) slots: u64,
    pub(crate) sessions: u64,
    /// Where the data folders are made; a real disk.
    pub(crate) place: PathBuf,
}

impl Plan {
    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    pub(super) async fn lab(&self) -> Result<Lab> {
        Lab::start(None, Some(&self.place)).await
    }
}

/// Measures part after part, each with a server of its own.
pub(crate) async fn run(plan: &Plan, output: Output) -> Result<Report> {
    let mut report = Report::new(plan);
    if plan.has(Part::Throughput) {
        output.note(format!("throughput: {} tasks in batches of {}", plan.tasks, plan.batch));
        throughput::measure(plan, &mut report).await?;
    }
    if plan.has(Part::Latency) {
        output.note(format!("latency: {} tasks, one at a time", plan.samples));
        latency::measure(plan, &mut report).await?;
    }
    if plan.has(Part::Memory) || plan.has(Part::Restart) {
        output.note(format!("memory: {} queued tasks", plan.queued));
        queued::measure(plan, plan.has(Part::Restart), &mut report).await?;
    }
    if plan.has(Part::Grants) {
        output.note(format!("grants: with 1000 and with {} queued tasks", plan.queued));
        grants::measure(plan, &mut report).await?;
    }
    if plan.has(Part::Sessions) {
        output.note(format!("sessions: {} from one process", plan.sessions));
        sessions::measure(plan, &mut report).await?;
    }
    if plan.has(Part::Flows) {
        output.note("flows: runs of 200 to 100,000 nodes");
        flows::measure(plan, &mut report).await?;
    }
    Ok(report)
}
