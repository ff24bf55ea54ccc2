//! People who say the words that runs wait for.

use bytes::Bytes;
use coordinator::{Signal, TaskState, WaitReason};
use model::RunId;
use serde_json::{Value, json};

use crate::world::{World, shard_of};

impl World {
    /// The answer to a question that a run of a tenant waits with.
    pub(crate) fn some_word(&mut self, tenant: usize) -> Option<Box<Signal>> {
        let live = self.runs.live().filter(|run| run.shard() == shard_of(tenant));
        let live: Vec<RunId> = live.collect();
        let run = *self.fault_dice.pick(&live)?;
        let parts = self.store.tables().run_parts(run.shard(), run);
        let waits =
            |state: &TaskState| matches!(state, TaskState::Waiting { why: WaitReason::Signal, .. });
        let open: Vec<_> = parts.tasks.iter().filter(|task| waits(&task.progress.state)).collect();
        let task = self.fault_dice.pick(&open)?;
        let link = task.link.as_ref()?;
        let given: Value = serde_json::from_slice(&task.parameters).ok()?;
        // Elements of a list wait for the same word, and give the same answer.
        Some(Box::new(Signal {
            run,
            node: link.step_id,
            frame: Some(link.frame),
            event: None,
            approved: Some(given["say"] == json!(true)),
            payload: Bytes::from_static(b"{}"),
            by: "sim".into(),
        }))
    }
}
