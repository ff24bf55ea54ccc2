//! A worker that pulls leases over HTTP, for faults at that door. It works until it is killed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Patience};
use model::WorkerId;
use protocol::rest::leases::{
    GrantedLease, GrantedLeases, Heartbeat, HeartbeatAnswer, HeartbeatWord, RequestLeases,
    VerdictAnswer, VerdictWord, Verdicts,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;
use worker::core::executor::{Assignment, Context, Executor, Outcome};
use worker::core::verdict::{self, Judgement};

/// How long one request for work waits at the server.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// A lease that shows no sign of life for so long after its grant is taken back.
const CONFIRM: Duration = Duration::from_secs(5);
/// How long a report is sent again while nobody answers. Longer than a restart of the server.
const REPORT_PATIENCE: Patience = Patience { total: Duration::from_mins(1) };
/// The first pause when the server does not answer; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const HEARTBEAT_MIN: Duration = Duration::from_millis(20);

pub(crate) struct PullWorker {
    pub(crate) client: Client,
    pub(crate) worker_id: WorkerId,
    pub(crate) slots: usize,
    pub(crate) executor: Arc<dyn Executor>,
}

impl PullWorker {
    /// Asks, executes and reports, until the server refuses it.
    pub(crate) async fn run(self, types: Vec<String>) -> Result<()> {
        let free = Arc::new(Semaphore::new(self.slots));
        let this = Arc::new(self);
        let mut pause = PAUSE;
        loop {
            drop(free.acquire().await?);
            match this.ask(types.clone(), free.available_permits()).await {
                Ok(leases) => {
                    pause = PAUSE;
                    for lease in leases {
                        let slot = Arc::clone(&free).acquire_owned().await?;
                        let this = Arc::clone(&this);
                        tokio::spawn(async move {
                            this.attempt(lease).await;
                            drop(slot);
                        });
                    }
                }
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "asking for work again in {pause:?}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn ask(
        &self,
        types: Vec<String>,
        n_free: usize,
    ) -> Result<Vec<GrantedLease>, client::ClientError> {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).ok();
        let request = RequestLeases {
            worker_id: self.worker_id.to_string(),
            types: Some(types),
            max: i64::try_from(n_free).ok(),
            wait_ms: millis(LEASE_WAIT),
            confirm_ms: millis(CONFIRM),
            ..RequestLeases::default()
        };
        let asked = self.client.post_waiting("/api/v1/leases", &request, LEASE_WAIT).await;
        asked.map(|GrantedLeases { leases }| leases)
    }

    /// Executes a lease, keeps it alive meanwhile and reports.
    async fn attempt(&self, lease: GrantedLease) {
        let lease_id = lease.lease_id.clone();
        let every = Duration::from_millis(lease.heartbeat_ms).max(HEARTBEAT_MIN);
        let work = self.executor.execute(assignment(lease), Context::detached());
        // Dropping the work stops it.
        let mut work = AbortOnDropHandle::new(tokio::spawn(work));
        let judgement = tokio::select! {
            outcome = &mut work => match outcome {
                Ok(outcome) => self.report(&lease_id, outcome).await,
                Err(error) => {
                    let outcome = Outcome::passing("E.RUNNER.PANIC", error.to_string());
                    self.report(&lease_id, outcome).await
                }
            },
            lost = self.until_lost(&lease_id, every) => Some(lost),
        };
        if let Some(judgement) = judgement {
            verdict::log(&judgement);
        } else {
            tracing::error!(lease_id, "no verdict came; the lease ends by its own time");
        }
    }

    /// Renews the lease until the coordinator says that it is gone.
    async fn until_lost(&self, lease_id: &str, every: Duration) -> Judgement {
        let path = format!("/api/v1/leases/{lease_id}/heartbeat");
        let heartbeat = Heartbeat { worker_id: self.worker_id.to_string() };
        let mut pause = every.min(CONFIRM / 2);
        loop {
            tokio::time::sleep(pause).await;
            pause = every;
            let (verdict, reason) = match self.client.post(&path, &heartbeat).await {
                Ok(HeartbeatAnswer { verdict: HeartbeatWord::Extended, .. }) => continue,
                Ok(HeartbeatAnswer { verdict: HeartbeatWord::Cancelled, reason, .. }) => {
                    (VerdictWord::Cancelled, reason)
                }
                Ok(HeartbeatAnswer { verdict: HeartbeatWord::Rejected, reason, .. }) => {
                    (VerdictWord::Rejected, reason)
                }
                // Seed 002 section 5: a heartbeat that fails is the coordinator's concern.
                Err(error) => {
                    tracing::warn!(lease_id, %error, "heartbeat did not arrive");
                    continue;
                }
            };
            return Judgement { lease_id: lease_id.into(), verdict, reason };
        }
    }

    /// The same report, with the same name, however often it has to be sent.
    async fn report(&self, lease_id: &str, outcome: Outcome) -> Option<Judgement> {
        let reports = json!({ "reports": [self.report_json(lease_id, outcome)] });
        let sent = self.client.post_patiently("/api/v1/reports", &reports, REPORT_PATIENCE).await;
        let Verdicts { verdicts } =
            sent.inspect_err(|error| tracing::warn!(lease_id, %error, "no answer")).ok()?;
        let VerdictAnswer { verdict, reason, .. } = verdicts.into_iter().next()?;
        Some(Judgement { lease_id: lease_id.into(), verdict, reason })
    }

    fn report_json(&self, lease_id: &str, outcome: Outcome) -> Value {
        let mut report = json!({
            "lease_id": lease_id, "worker_id": self.worker_id.as_str(),
            "report_id": Uuid::new_v4(),
        });
        match outcome {
            Outcome::Completed { result, .. } => {
                report["outcome"] = json!("complete");
                report["result"] = json!(result);
            }
            Outcome::Failed { code, reason, retryable, details } => {
                report["outcome"] = json!("fail");
                report["code"] = json!(code);
                report["reason"] = json!(reason);
                report["retryable"] = json!(retryable);
                report["details"] = json!(details);
            }
        }
        report
    }
}

fn assignment(lease: GrantedLease) -> Assignment {
    Assignment {
        lease_id: lease.lease_id,
        task_id: lease.task_id,
        attempt: lease.attempt,
        task_type: lease.task_type,
        parameters: lease.parameters,
    }
}
