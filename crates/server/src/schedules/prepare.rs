//! Gets the run of a schedule's moment ready: finds its workflow and compiles it.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Preparation, ScheduleId, ScheduleSpec};
use model::{IdempotencyMark, ShardId, TenantId, Timestamp};
use store::Store;

use crate::runs::definition::Object;
use crate::runs::programs::Programs;
use crate::runs::start::{NewRunRequest, RunError, Source, earlier, ready_run};

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
    NewRunRequest {
        source: source(spec),
        inputs: inputs_for(&spec.inputs, due),
        client_id: None,
        mark: Some(mark(id, due)),
        started_by: format!("schedule {id}"),
        retry: None,
    }
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

#[cfg(test)]
mod tests {
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
