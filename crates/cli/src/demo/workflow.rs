//! The workflow at the end: two ways side by side, one of them a fan-out.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use protocol::rest::runs::{Run, RunRef, StartRun};
use serde_json::value::RawValue;
use worker::client::Client;

use crate::workflow_run;

const WORKFLOW: &str = include_str!("workflow.json");
/// What is not over by then does not end.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs it to its end.
pub(super) async fn play(client: &Client) -> Result<Run> {
    let workflow = Some(RawValue::from_string(WORKFLOW.into())?);
    let start = StartRun { workflow, ..StartRun::default() };
    let started: RunRef = client.post("/api/v1/runs", &start).await?;
    let (path, begun) = (workflow_run::path(&started.run_id), Instant::now());
    loop {
        let run: Run = client.get(&path).await?;
        if run.status.is_terminal() {
            return Ok(run);
        }
        if begun.elapsed() > PATIENCE {
            bail!("the workflow at the end did not come to its own");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_can_run() {
        let compiled = flow::compile(WORKFLOW.into()).expect("no problems");
        assert_eq!(compiled.warnings, []);
        assert_eq!(compiled.program.graphs[0].nodes.len(), 4);
    }
}
