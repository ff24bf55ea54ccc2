//! What happens when a moment of a schedule has come.

use std::sync::Arc;

use coordinator::{Answer, Command, Refusal};
use model::{IdempotencyMark, RunId, TenantId, Timestamp};
use protocol::rest::schedules::Overlap;

use super::registry::{KeepError, ScheduleKey};
use super::schedule::{KeptOutcome, KeptSchedule};
use crate::app::App;
use crate::runs::find;
use crate::runs::start::{NewRunRequest, RunError, Source, Started, earlier, start};

/// Moments that may wait for the run before; later ones pass without a run.
pub(crate) const WAITING_MOMENTS_MAX: usize = 100;

/// Why a moment could not be dealt with: it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FireError {
    /// No run could be started for now.
    #[error(transparent)]
    Run(RunError),
    /// What came of it could not be kept.
    #[error(transparent)]
    Keep(KeepError),
}

impl From<KeepError> for FireError {
    fn from(error: KeepError) -> Self {
        Self::Keep(error)
    }
}

/// Deals with a moment of a schedule. A second time for the same moment makes no second run.
pub(crate) async fn fire(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    due: Timestamp,
) -> Result<(), FireError> {
    let before = open_run(app, schedule).await?;
    let goes_on = |run: RunId| format!("run {} still went on", run.number());
    match (before, schedule.overlap) {
        (Some(run), Overlap::Skip) => pass(app, key, due, goes_on(run)).await,
        (Some(run), Overlap::Cancel) => {
            cancel(app, &key.0, run, &key.1).await.map_err(FireError::Run)?;
            begin(app, key, schedule, due).await
        }
        // Whoever waits already goes first.
        (before, Overlap::Queue) if before.is_some() || !schedule.waiting_ms.is_empty() => {
            queue(app, key, schedule, due).await
        }
        (_, Overlap::Queue) | (Some(_), Overlap::Allow) | (None, _) => {
            begin(app, key, schedule, due).await
        }
    }
}

/// The moment waits for the run before to end.
async fn queue(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    due: Timestamp,
) -> Result<(), FireError> {
    if schedule.waiting_ms.len() >= WAITING_MOMENTS_MAX {
        let problem = format!("{WAITING_MOMENTS_MAX} other times wait for their runs already");
        return pass(app, key, due, problem).await;
    }
    let wait = |kept: &mut KeptSchedule| {
        kept.handled_ms = kept.handled_ms.max(due.as_millis());
        kept.waiting_ms.push(due.as_millis());
    };
    app.schedules.change(key, wait).await?;
    Ok(())
}

/// Starts the run of a moment that waited, if the run before has ended; says whether it did.
pub(crate) async fn fire_waiting(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
) -> Result<bool, FireError> {
    let Some(due) = schedule.next_waiting() else { return Ok(false) };
    if open_run(app, schedule).await?.is_some() {
        return Ok(false);
    }
    begin(app, key, schedule, due).await?;
    Ok(true)
}

/// The newest run of the schedule, if it has not ended.
async fn open_run(app: &App, schedule: &KeptSchedule) -> Result<Option<RunId>, FireError> {
    let Some(run) = schedule.newest_run() else { return Ok(None) };
    let row = find::row(app, run).await.map_err(|error| FireError::Run(error.into()))?;
    Ok(row.filter(|record| record.end.is_none()).map(|record| record.id))
}

async fn cancel(app: &App, tenant: &TenantId, run: RunId, id: &str) -> Result<(), RunError> {
    let handle = app.shards.of(tenant).await?;
    let by = format!("schedule {id}");
    match handle.ask(|ticket| Command::CancelRun { ticket, run, by }).await? {
        Answer::Refused(refusal) => Err(RunError::Refused(refusal)),
        // Stopped, or ended by itself in the meantime.
        _ => Ok(()),
    }
}

/// Starts the run of a moment, and keeps what came of it.
async fn begin(
    app: &App,
    key: &ScheduleKey,
    schedule: &KeptSchedule,
    due: Timestamp,
) -> Result<(), FireError> {
    let starting = Some(due.as_millis());
    if schedule.starting_ms != starting {
        app.schedules.change(key, |kept| kept.starting_ms = starting).await?;
    }
    let (run, problem) = match start_due(app, key, schedule, due).await {
        Ok(started) => (Some(started.record.id.to_integer()), None),
        Err(error) if is_final(&error) => (None, Some(error.to_string())),
        Err(error) => return Err(FireError::Run(error)),
    };
    let outcome = KeptOutcome { due_ms: due.as_millis(), run, problem };
    app.schedules.change(key, |kept| kept.record(outcome)).await?;
    Ok(())
}

/// Starts the run of a moment. The key says which moment: once is enough, whatever crashes.
pub(crate) async fn start_due(
    app: &App,
    (tenant, id): &ScheduleKey,
    schedule: &KeptSchedule,
    due: Timestamp,
) -> Result<Started, RunError> {
    let request = NewRunRequest {
        source: source(schedule),
        inputs: schedule.inputs_for(due),
        client_id: None,
        mark: Some(mark(id, due)),
        started_by: format!("schedule {id}"),
        retry: None,
    };
    start(app, tenant, request).await
}

/// The run of a moment, if it was started before.
pub(crate) async fn started_before(
    app: &App,
    (tenant, id): &ScheduleKey,
    due: Timestamp,
) -> Result<Option<Started>, RunError> {
    let handle = app.shards.of(tenant).await?;
    let record = earlier(app, handle.shard(), &mark(id, due)).await?;
    let started = |record| Started { record, existed: true, warnings: Arc::default() };
    Ok(record.map(started))
}

/// Names a moment. The schedule may have been edited since the moment's run was started; it is the
/// same moment all the same, so nothing but the key is compared.
fn mark(id: &str, due: Timestamp) -> IdempotencyMark {
    let key = format!("schedule/{id}/{due}").parse().expect("an id and a moment fit a key");
    IdempotencyMark { key, fingerprint: 0 }
}

/// What a schedule starts.
pub(crate) fn source(schedule: &KeptSchedule) -> Source {
    let (workflow_id, version) = (schedule.workflow_id.clone(), schedule.version);
    Source::Kept { workflow_id, version }
}

/// Whether trying again soon would end in the same way.
fn is_final(error: &RunError) -> bool {
    match error {
        RunError::Compile(_)
        | RunError::NoWorkflow { .. }
        | RunError::Refused(Refusal::RunConflict { .. }) => true,
        RunError::Refused(_) | RunError::Ask(_) | RunError::Store(_) => false,
    }
}

async fn pass(
    app: &App,
    key: &ScheduleKey,
    due: Timestamp,
    problem: String,
) -> Result<(), FireError> {
    let outcome = KeptOutcome { due_ms: due.as_millis(), run: None, problem: Some(problem) };
    app.schedules.change(key, |kept| kept.record(outcome)).await?;
    Ok(())
}
