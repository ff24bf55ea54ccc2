//! What schedules have the server do: make a definition ready, and start the runs of a backfill.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Calendar, Overlap, Preparation, ScheduleId, ScheduleRecord, ScheduleSpec};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use model::{IdempotencyMark, ShardId, TenantId, Timestamp};
use protocol::error_code::ErrorCode;
use store::Store;

use crate::app::App;
use crate::clock::wall_now;
use crate::handle::ShardHandle;
use crate::runs::definition::Object;
use crate::runs::programs::Programs;
use crate::runs::start::{
    NewRunRequest, RunError, Source, Started, check, earlier, ready_run, start,
};
use crate::wire_words::problem::ApiError;

/// The input that tells a run the moment that it was due.
const DUE_INPUT: &str = "scheduledFor";

/// What a preparation needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Preparer {
    pub(crate) tenant: TenantId,
    pub(crate) shard: ShardId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) programs: Arc<Programs>,
}

impl Preparer {
    /// Prepares the run of a moment, and says what came of it.
    pub(crate) async fn prepare(
        self,
        schedule: ScheduleId,
        due: Timestamp,
        spec: Arc<ScheduleSpec>,
    ) -> Preparation {
        match self.attempt(request(schedule, &spec, due), &mark(schedule, due)).await {
            Ok(preparation) => preparation,
            Err(error) if is_final(&error) => Preparation::Impossible(error.to_string()),
            Err(error) => {
                let tenant = &self.tenant;
                tracing::warn!(%tenant, %schedule, %error, "scheduled run delayed");
                Preparation::Later
            }
        }
    }

    async fn attempt(
        &self,
        request: NewRunRequest,
        mark: &IdempotencyMark,
    ) -> Result<Preparation, RunError> {
        // A backfill, or a server before this one, may have started it.
        if let Some(record) = earlier(&*self.store, self.shard, mark).await? {
            return Ok(Preparation::Existing(record.id));
        }
        let (run, _) = ready_run(&*self.store, &self.programs, self.shard, request).await?;
        Ok(Preparation::Run(Box::new(run)))
    }
}

/// The run of a moment. The key says which moment: once is enough, whatever crashes.
pub(crate) fn request(id: ScheduleId, spec: &ScheduleSpec, due: Timestamp) -> NewRunRequest {
    let inputs = inputs_for(&spec.inputs, due);
    let request = NewRunRequest::new(source(spec), inputs, format!("schedule {id}"));
    NewRunRequest { mark: Some(mark(id, due)), ..request }
}

/// What a schedule starts.
pub(crate) fn source(spec: &ScheduleSpec) -> Source {
    Source::Kept { workflow_id: spec.workflow_id.clone(), version: spec.version }
}

/// Names a moment. The schedule may have been edited since the moment's run was started; it is the
/// same moment all the same, so nothing but the key is compared.
pub(crate) fn mark(id: ScheduleId, due: Timestamp) -> IdempotencyMark {
    let key = format!("schedule/{id}/{due}").parse().expect("an id and a moment fit a key");
    IdempotencyMark { key, fingerprint: 0 }
}

/// What the run of a moment is given: the inputs, and the moment, unless they name one.
fn inputs_for(authored: &Bytes, due: Timestamp) -> Bytes {
    let with_due =
        std::str::from_utf8(authored).ok().and_then(Object::read).and_then(|mut inputs| {
            if inputs.get(DUE_INPUT).is_none() {
                let text = serde_json::value::to_raw_value(&due.to_string()).ok()?;
                inputs.set(DUE_INPUT, text);
            }
            inputs.text()
        });
    with_due.map_or_else(|| authored.clone(), |raw| Bytes::from(raw.get().to_owned()))
}

/// Whether trying again soon would end in the same way.
fn is_final(error: &RunError) -> bool {
    match error {
        RunError::Compile(_) | RunError::NoWorkflow { .. } | RunError::Conflict(_) => true,
        RunError::Ask(_) | RunError::Store(_) => false,
    }
}

/// Limit: runs that one backfill starts.
pub(crate) const BACKFILL_RUNS_MAX: usize = 1_000;
/// Limit: runs of a backfill that are being started at the same time, where runs may overlap.
const BACKFILL_AT_ONCE_MAX: usize = 32;

/// What came of the moments.
#[derive(Default)]
pub(crate) struct TakenUp {
    /// Runs that there are, oldest moment first.
    pub(crate) started: Vec<Started>,
    /// Moments whose runs start one after another, oldest first.
    pub(crate) waiting: Vec<Timestamp>,
}

/// The moments of a rule between two others, both included.
pub(crate) fn moments(
    calendar: &Calendar,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Timestamp>, ApiError> {
    if to < from {
        return Err(ApiError::invalid("`to`", "is before `from`"));
    }
    if to > wall_now() {
        let rule = "is in the future; only moments that have passed are taken up";
        return Err(ApiError::invalid("`to`", rule));
    }
    let before = Timestamp::from_millis(from.as_millis().saturating_sub(1));
    let mut found = Vec::new();
    let mut next = calendar.after(before);
    while let Some(moment) = next.filter(|moment| *moment <= to) {
        if found.len() == BACKFILL_RUNS_MAX {
            let message =
                format!("more than {BACKFILL_RUNS_MAX} moments are between `from` and `to`");
            return Err(ApiError::new(ErrorCode::LimitBatch, message)
                .with_hint(format!("split it: {BACKFILL_RUNS_MAX} runs at a time")));
        }
        found.push(moment);
        next = calendar.after(moment);
    }
    Ok(found)
}

/// Sees to it that each moment has a run. The same call again goes on where it stopped.
///
/// People asked for each of the moments, so none is skipped, and none ends the run before: where
/// runs may not overlap, they follow each other.
pub(crate) async fn backfill(
    app: &App,
    (tenant, handle): (&TenantId, &ShardHandle),
    schedule: &ScheduleRecord,
    moments: Vec<Timestamp>,
) -> Result<TakenUp, RunError> {
    if schedule.spec.overlap == Overlap::Allow {
        // They start at once and share the commits.
        let starting = moments.into_iter().map(|due| request(schedule.id, &schedule.spec, due));
        let starting = starting.map(|request| start(app, tenant, request));
        let started = stream::iter(starting).buffered(BACKFILL_AT_ONCE_MAX).try_collect().await?;
        return Ok(TakenUp { started, waiting: Vec::new() });
    }
    let mut taken = TakenUp::default();
    for due in moments {
        match earlier(&*app.store, handle.shard(), &mark(schedule.id, due)).await? {
            Some(record) => {
                taken.started.push(Started { record, existed: true, warnings: Arc::default() });
            }
            None => taken.waiting.push(due),
        }
    }
    if taken.waiting.is_empty() {
        return Ok(taken);
    }
    // Whoever asks for runs that can never start hears it now.
    check(app, handle.shard(), source(&schedule.spec)).await?;
    handle.backfill(schedule.id, taken.waiting.clone()).await?;
    Ok(taken)
}

#[cfg(test)]
mod prepare_tests {
    use super::*;

    #[test]
    fn a_run_is_told_its_moment() {
        let check = |authored: &'static [u8], expected: &[u8]| {
            let inputs = inputs_for(&Bytes::from_static(authored), Timestamp::from_millis(0));
            assert_eq!(inputs, expected);
        };
        check(br#"{"a": 1}"#, br#"{"a":1,"scheduledFor":"1970-01-01T00:00:00.000Z"}"#);
        check(br#"{"scheduledFor":7}"#, br#"{"scheduledFor":7}"#);
    }
}

#[cfg(test)]
mod backfill_tests {
    use super::*;

    #[test]
    fn both_ends_are_included_and_there_is_a_limit() {
        let calendar = Calendar::read("0 * * * *", "UTC", wall_now()).expect("a rule");
        let moment = |text: &str| text.parse::<Timestamp>().expect("a moment");
        let count = |from: &str, to: &str| {
            moments(&calendar, moment(from), moment(to)).map(|found| found.len())
        };
        assert_eq!(count("2026-01-31T03:00:00Z", "2026-01-31T05:00:00Z").ok(), Some(3));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T04:59:59Z").ok(), Some(1));
        assert_eq!(count("2026-01-31T03:00:01Z", "2026-01-31T03:00:01Z").ok(), Some(0));
        let wrong = |from: &str, to: &str| count(from, to).expect_err("refused").message;
        assert!(wrong("2026-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("before"));
        assert!(wrong("2026-01-31T05:00:00Z", "9999-01-31T03:00:00Z").contains("future"));
        assert!(wrong("2025-01-31T05:00:00Z", "2026-01-31T03:00:00Z").contains("more than 1000"));
    }
}
