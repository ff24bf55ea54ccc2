//! One lease, from its grant to its verdict.

use std::sync::Arc;
use std::time::Duration;

use model::WorkerId;
use protocol::rest::leases::{
    GrantedLease, Heartbeat, HeartbeatAnswer, HeartbeatWord, Report, ReportOutcome, Reports,
    VerdictAnswer, VerdictWord, Verdicts,
};
use tokio::task::{JoinError, JoinHandle};
use uuid::Uuid;

use crate::client::{Client, ClientError, Patience};
use crate::executor::{Assignment, Context, Executor, Outcome};

/// A lease that shows no sign of life for so long after its grant is taken back: the answer that
/// carried it may be lost.
pub(crate) const CONFIRM: Duration = Duration::from_secs(5);
/// How long a report is sent again while nobody answers. Longer than a restart of the server.
const REPORT_PATIENCE: Patience = Patience { total: Duration::from_mins(1) };
/// A server that asks for more beats than this asks for a flood.
const BEAT_MIN: Duration = Duration::from_millis(20);
/// The work ended in a panic.
pub(crate) const PANICKED: &str = "E.RUNNER.PANIC";

/// What the coordinator said about an attempt.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The lease that it is about.
    pub lease_id: String,
    /// The verdict; final.
    pub verdict: VerdictWord,
    /// Why, unless it was committed.
    pub reason: Option<String>,
}

/// Is told every judgement, once.
pub type Listener = Arc<dyn Fn(&Judgement) + Send + Sync>;

/// What an attempt needs around it; shared by all attempts of a worker.
pub(crate) struct Surroundings {
    pub(crate) client: Client,
    pub(crate) worker_id: WorkerId,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) listener: Listener,
}

/// Stops the work when the attempt ends before it.
struct Running(JoinHandle<Outcome>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Executes a lease, keeps it alive meanwhile and reports. `None` when no verdict ever came.
pub(crate) async fn run(around: Arc<Surroundings>, lease: GrantedLease) -> Option<Judgement> {
    let lease_id = lease.lease_id.clone();
    let every = Duration::from_millis(lease.heartbeat_ms).max(BEAT_MIN);
    let mut work =
        Running(tokio::spawn(around.executor.execute(assignment(lease), Context::detached())));
    let judgement = tokio::select! {
        outcome = &mut work.0 => {
            let outcome = outcome.unwrap_or_else(|error| panicked(&error));
            report(&around, &lease_id, outcome).await?
        }
        lost = until_lost(&around, &lease_id, every) => {
            // Seed 002 section 4: after a lost lease the work stops before anything else happens.
            work.0.abort();
            let _ = (&mut work.0).await;
            lost
        }
    };
    log(&judgement);
    (around.listener)(&judgement);
    Some(judgement)
}

fn panicked(error: &JoinError) -> Outcome {
    Outcome::passing(PANICKED, format!("the work ended in a panic: {error}"))
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

/// Beats until the coordinator says that the lease is gone.
async fn until_lost(around: &Surroundings, lease_id: &str, every: Duration) -> Judgement {
    let path = format!("/api/v1/leases/{lease_id}/heartbeat");
    let beat = Heartbeat { worker_id: around.worker_id.to_string() };
    let mut pause = every.min(CONFIRM / 2);
    loop {
        tokio::time::sleep(pause).await;
        pause = every;
        let answer: Result<HeartbeatAnswer, ClientError> = around.client.post(&path, &beat).await;
        let (verdict, reason) = match answer {
            Ok(HeartbeatAnswer { verdict: HeartbeatWord::Extended, .. }) => continue,
            Ok(HeartbeatAnswer { verdict: HeartbeatWord::Cancelled, reason, .. }) => {
                (VerdictWord::Cancelled, reason)
            }
            Ok(HeartbeatAnswer { verdict: HeartbeatWord::Rejected, reason, .. }) => {
                (VerdictWord::Rejected, reason)
            }
            // Seed 002 section 5: a beat that fails is the coordinator's concern, not ours.
            Err(error) => {
                tracing::warn!(lease_id, %error, "heartbeat did not arrive");
                continue;
            }
        };
        return Judgement { lease_id: lease_id.into(), verdict, reason };
    }
}

/// Says how it ended. The same report, with the same name, however often it has to be sent.
async fn report(around: &Surroundings, lease_id: &str, outcome: Outcome) -> Option<Judgement> {
    let report = wire_report(around, lease_id, outcome);
    let reports = Reports { reports: vec![report] };
    let client = &around.client;
    match client.post_patiently::<Verdicts>("/api/v1/reports", &reports, REPORT_PATIENCE).await {
        Ok(verdicts) => {
            let answer = verdicts.verdicts.into_iter().next()?;
            let VerdictAnswer { verdict, reason, .. } = answer;
            Some(Judgement { lease_id: lease_id.into(), verdict, reason })
        }
        Err(error) => {
            tracing::error!(lease_id, %error, "no verdict came; the lease ends by its own time");
            None
        }
    }
}

fn wire_report(around: &Surroundings, lease_id: &str, outcome: Outcome) -> Report {
    let blank = Report {
        lease_id: lease_id.into(),
        worker_id: around.worker_id.to_string(),
        outcome: ReportOutcome::Complete,
        result: None,
        reason: None,
        code: None,
        retryable: None,
        details: None,
        artifacts: None,
        skipped: None,
        report_id: Some(Uuid::new_v4().to_string()),
    };
    match outcome {
        Outcome::Completed { result, .. } => Report { result: Some(result), ..blank },
        Outcome::Failed { code, reason, retryable, details } => Report {
            outcome: ReportOutcome::Fail,
            reason: Some(reason),
            code: Some(code),
            retryable: Some(retryable),
            details,
            ..blank
        },
    }
}

pub(crate) fn log(judgement: &Judgement) {
    let Judgement { lease_id, verdict, reason } = judgement;
    match verdict {
        VerdictWord::Committed => tracing::debug!(lease_id, "committed"),
        VerdictWord::Cancelled => tracing::info!(lease_id, reason, "superseded; result discarded"),
        // Seed 002 section 3.3: a bug; it is shown and never retried.
        VerdictWord::Rejected => tracing::error!(lease_id, reason, "the report was refused"),
    }
}
