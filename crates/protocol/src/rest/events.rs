//! Live events: what `GET /events` sends, one JSON object per event.
//!
//! Reading order: `kind` (the types), `envelope` (what all have in common), `node`, `run`,
//! `worker` (what each of them tells).

mod envelope;
mod kind;
mod node;
mod run;
mod worker;

pub use envelope::{ENVELOPE_VERSION, Envelope, EventScope};
pub use kind::EventKind;
pub use node::{
    ArtifactReady, ChunkMeta, DeltaOperation, DeltaPayload, EventError, NodeErrorData,
    NodeStateData, NodeStateWords, NodeStatusData, NodeStatusWord, ResultDelta, ResultSnapshot,
};
pub use run::{EventTicket, RunSnapshotData, RunStatusData};
pub use worker::{
    CommandAnswer, HeartbeatMetrics, HeartbeatPackages, HeartbeatWords, WorkerHeartbeatData,
    WorkerPackageData,
};
