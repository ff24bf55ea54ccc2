//! An outside worker that is never killed: it knows every verdict that it was told, and asks again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use model::LeaseId;
use protocol::rest::leases::{
    GrantedLease, GrantedLeases, Report, ReportOutcome, Reports, RequestLeases, VerdictAnswer,
    VerdictWord, Verdicts,
};
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::client::Client;

use super::dice::Dice;
use super::ledger::{Ledger, Told};
use super::submitter::{LEASE_TTL, PATIENCE};

const WORKER_ID: &str = "outside";
const LEASES_MAX: i64 = 8;
const LEASE_WAIT: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Reporter {
    pub(super) client: Client,
    pub(super) ledger: Arc<Ledger>,
    pub(super) dice: Dice,
}

impl Reporter {
    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            for lease in self.lease().await? {
                self.report(lease).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Leases that are lost on the way come back by themselves.
    async fn lease(&self) -> Result<Vec<GrantedLease>> {
        let request = RequestLeases {
            worker_id: WORKER_ID.into(),
            types: Some(vec!["core.stamp".into()]),
            max: Some(LEASES_MAX),
            wait_ms: i64::try_from(LEASE_WAIT.as_millis()).ok(),
            ..RequestLeases::default()
        };
        let asked = self.client.post_waiting("/api/v1/leases", &request, LEASE_WAIT).await;
        match asked {
            Ok(GrantedLeases { leases }) => Ok(leases),
            Err(error) if error.is_passing() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn report(&mut self, lease: GrantedLease) -> Result<()> {
        if self.dice.one_in(15) {
            // Too late on purpose: the lease may be over.
            tokio::time::sleep(LEASE_TTL + PAUSE).await;
        }
        let report = report(&lease.lease_id, Uuid::new_v4().to_string());
        let verdict = send(&self.client, &report).await?.verdict;
        if self.dice.one_in(4) {
            let again = send(&self.client, &report).await?.verdict;
            self.compare(&report, verdict, again);
        }
        if verdict == VerdictWord::Committed && self.dice.one_in(4) {
            self.contradict(&lease.lease_id).await?;
        }
        let lease: LeaseId = lease.lease_id.parse()?;
        self.ledger.open().told.push(Told { report, lease, verdict });
        Ok(())
    }

    /// Another report about a lease that was committed must be refused.
    async fn contradict(&self, lease_id: &str) -> Result<()> {
        let other = report(lease_id, Uuid::new_v4().to_string());
        let answer = send(&self.client, &other).await?;
        if answer.verdict != VerdictWord::Rejected {
            self.ledger.violation(format!(
                "a second report about {lease_id} was {:?}, not REJECTED",
                answer.verdict
            ));
        }
        Ok(())
    }

    fn compare(&self, report: &Report, first: VerdictWord, again: VerdictWord) {
        compare(&self.ledger, report, first, again);
    }
}

fn compare(ledger: &Ledger, report: &Report, first: VerdictWord, again: VerdictWord) {
    ledger.open().resent += 1;
    if first != again {
        let lease_id = &report.lease_id;
        ledger.violation(format!("the report about {lease_id} was {first:?}, then {again:?}"));
    }
}

fn report(lease_id: &str, report_id: String) -> Report {
    let result = to_raw_value(&serde_json::json!({ "lease_id": lease_id }));
    Report {
        lease_id: lease_id.into(),
        worker_id: WORKER_ID.into(),
        outcome: ReportOutcome::Complete,
        result: result.ok(),
        reason: None,
        code: None,
        retryable: None,
        details: None,
        artifacts: None,
        skipped: None,
        report_id: Some(report_id),
    }
}

async fn send(client: &Client, report: &Report) -> Result<VerdictAnswer> {
    let reports = Reports { reports: vec![copy(report)] };
    let verdicts: Verdicts = client.post_patiently("/api/v1/reports", &reports, PATIENCE).await?;
    verdicts.verdicts.into_iter().next().context("a report without a verdict")
}

/// Sends reports of old again, after whatever happened since: the verdict is the same.
pub(super) async fn send_again(client: &Client, ledger: &Ledger, chosen: Vec<usize>) -> Result<()> {
    for index in chosen {
        let found = ledger.open().told.get(index).map(|told| (copy(&told.report), told.verdict));
        let Some((report, first)) = found else { continue };
        let again = send(client, &report).await?.verdict;
        compare(ledger, &report, first, again);
    }
    Ok(())
}

fn copy(report: &Report) -> Report {
    Report {
        lease_id: report.lease_id.clone(),
        worker_id: report.worker_id.clone(),
        outcome: report.outcome,
        result: report.result.clone(),
        reason: report.reason.clone(),
        code: report.code.clone(),
        retryable: report.retryable,
        details: report.details.clone(),
        artifacts: report.artifacts.clone(),
        skipped: report.skipped,
        report_id: report.report_id.clone(),
    }
}
