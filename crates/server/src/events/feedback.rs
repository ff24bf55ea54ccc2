//! What workers say of their tasks becomes events.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{LeaseId, Timestamp};
use protocol::rest::events::{
    ChunkMeta, DeltaOperation, DeltaPayload, EventKind, NodeStateData, NodeStateWords, ResultDelta,
};
use protocol::session::payload::exec::{Chunk, Feedback};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use shard::projection::{Event, News, RunScope};

use super::tenant::NodeIndex;
use crate::logs::Snapshot;

/// The word for a task that says how far it is, but not at what.
const STAGE_DEFAULT: &str = "running";

/// A worker's words about one attempt.
pub(super) struct Words<'a> {
    pub(super) lease: LeaseId,
    pub(super) feedback: &'a Feedback,
    /// All that the attempt said so far, if it said how it fares.
    pub(super) snapshot: Option<&'a Snapshot>,
    pub(super) at: Timestamp,
}

/// The node that the words are about.
struct Teller<'a> {
    index: &'a mut NodeIndex,
    words: &'a Words<'a>,
    run: Arc<RunScope>,
    run_id: String,
    node_id: String,
    events: Vec<Event>,
}

/// The events; none for tasks of no run. `wants` says which types anybody listens for.
pub(super) fn make(
    index: &mut NodeIndex,
    words: &Words<'_>,
    wants: impl Fn(EventKind) -> bool,
) -> Vec<Event> {
    let Some((run, step_id)) = index.node_of(words.lease.task) else { return Vec::new() };
    let (run_id, node_id) = (run.run.to_string(), step_id.to_string());
    let mut teller = Teller { index, words, run, run_id, node_id, events: Vec::new() };
    if wants(EventKind::NodeState) {
        teller.state();
    }
    if wants(EventKind::NodeResultDelta) {
        for chunk in words.feedback.chunks.iter().flatten() {
            teller.chunk(chunk);
        }
        teller.results();
    }
    teller.events
}

impl Teller<'_> {
    fn push(&mut self, kind: EventKind, data: &impl Serialize) {
        // What a worker said is text and numbers; a number that JSON cannot write says nothing.
        let Ok(json) = serde_json::value::to_raw_value(data) else { return };
        let run = Some(Arc::clone(&self.run));
        self.events.push(Event::new(self.words.at, run, News::Told(kind, None, json)));
    }

    fn state(&mut self) {
        let feedback = self.words.feedback;
        let says_something =
            feedback.stage.is_some() || feedback.progress.is_some() || feedback.message.is_some();
        let Some(snapshot) = self.words.snapshot.filter(|_| says_something) else { return };
        let (run_id, node_id) = (self.run_id.clone(), self.node_id.clone());
        let data = NodeStateData {
            kind: EventKind::NodeState.word().into(),
            run_id: run_id.into(),
            node_id: node_id.into(),
            task_id: self.words.lease.task.to_string().into(),
            state: NodeStateWords {
                stage: snapshot.stage.as_deref().unwrap_or(STAGE_DEFAULT).into(),
                progress: snapshot.progress,
                message: snapshot.message.as_deref().map(Cow::from),
                last_updated_at: Some(snapshot.at.to_string().into()),
                error: None,
            },
        };
        self.push(EventKind::NodeState, &data);
    }

    fn chunk(&mut self, chunk: &Chunk) {
        let channel = chunk.channel.word();
        let payload = DeltaPayload {
            text: chunk.text.as_deref().map(Cow::from),
            data: chunk.data_base64.as_deref().map(Cow::from),
            mime_type: chunk.mime_type.as_deref().map(Cow::from),
            value: None,
        };
        let metadata = chunk.metadata.as_ref().map(|own| Cow::Borrowed(own.as_raw()));
        let meta = ChunkMeta { channel: channel.into(), metadata };
        let path = format!("/channels/{channel}");
        self.delta(DeltaOperation::Append, &path, Some(payload), Some(meta));
    }

    /// Parts of the result: `metadata.results`, by name. A part that is `null` is taken back.
    fn results(&mut self) {
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            results: BTreeMap<String, &'a RawValue>,
        }
        let Some(metadata) = &self.words.feedback.metadata else { return };
        // Metadata is the worker's own; `results` that is no object means something else.
        let Ok(said) = serde_json::from_str::<Metadata<'_>>(metadata.get()) else { return };
        for (name, value) in said.results {
            let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            if value.get() == "null" {
                self.delta(DeltaOperation::Remove, &path, None, None);
            } else {
                let value = Some(Cow::Borrowed(value));
                let payload = DeltaPayload { value, ..DeltaPayload::default() };
                self.delta(DeltaOperation::Replace, &path, Some(payload), None);
            }
        }
    }

    fn delta(
        &mut self,
        operation: DeltaOperation,
        path: &str,
        payload: Option<DeltaPayload<'_>>,
        chunk_meta: Option<ChunkMeta<'_>>,
    ) {
        let sequence = self.index.next_delta(self.words.lease);
        let (run_id, node_id) = (self.run_id.clone(), self.node_id.clone());
        let data = ResultDelta {
            kind: EventKind::NodeResultDelta.word().into(),
            run_id: run_id.into(),
            node_id: node_id.into(),
            revision: self.words.lease.epoch,
            sequence,
            operation,
            path: path.into(),
            payload,
            chunk_meta,
            terminal: false,
        };
        self.push(EventKind::NodeResultDelta, &data);
    }
}
