//! Snapshots of runs: made once for all who ask at the same time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use coordinator::Underway;
use foldhash::fast::RandomState;
use model::{RunId, Timestamp};
use parking_lot::Mutex;
use protocol::rest::events::{EventKind, RunSnapshotData};
use protocol::rest::runs::Run;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::super::runs::on_board;
use crate::app::App;
use crate::events::{RESULT_BYTES_MAX, TenantEvents, opening_data};
use crate::runs::view;
use crate::wire_words::problem::ApiError;

/// Snapshots that are made at the same time: each reads a whole run.
const SNAPSHOTS_AT_ONCE_MAX: usize = 2;

/// A run as a whole, as JSON.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// Everything up to this event is in it.
    covers: u64,
    pub(super) at: Timestamp,
    pub(super) client: Option<String>,
    pub(super) data: Bytes,
}

/// The one that is being made, or was made for those who still wait.
type Slot = tokio::sync::Mutex<Option<Made>>;

/// Makes snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    slots: Mutex<HashMap<RunId, Weak<Slot>, RandomState>>,
    room: Semaphore,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self { slots: Mutex::default(), room: Semaphore::new(SNAPSHOTS_AT_ONCE_MAX) }
    }
}

impl Snapshots {
    /// A snapshot that has everything up to the event `covers`.
    pub(super) async fn of(
        &self,
        app: &App,
        events: &TenantEvents,
        run: RunId,
        covers: u64,
    ) -> Result<Made, ApiError> {
        let slot = self.slot(run);
        let mut made = slot.lock().await;
        if let Some(made) = made.as_ref().filter(|made| made.covers >= covers) {
            return Ok(made.clone());
        }
        let _room = self.room.acquire().await.expect("the semaphore is never closed");
        // What is told up to here is durable, so that what is read from here on has it.
        let covers = events.last_id();
        let (data, client) = read(app, run).await?;
        let fresh = Made { covers, at: app.clock.now(), client, data };
        *made = Some(fresh.clone());
        Ok(fresh)
    }

    fn slot(&self, run: RunId) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&run).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(run, Arc::downgrade(&slot));
        slot
    }
}

async fn read(app: &App, run: RunId) -> Result<(Bytes, Option<String>), ApiError> {
    let feedback = Arc::clone(&app.feedback);
    let made = on_board(app, run, move |board| {
        let shown = view::whole(board, &feedback, true, &Underway::default());
        let client = shown.client_id.clone();
        snapshot(shown).map(|data| (data, client))
    });
    let failed = || ApiError::internal("the run could not be written as JSON");
    made.await?.ok_or_else(failed)
}

fn snapshot(mut run: Run) -> Option<Bytes> {
    let mut nodes = run.nodes.take().unwrap_or_default();
    for node in &mut nodes {
        // Large results are read from their tasks, as with `node.result.snapshot`.
        node.result.take_if(|result| result.get().len() > RESULT_BYTES_MAX);
    }
    let raw = |json: serde_json::Result<Box<RawValue>>| json.ok().map(Cow::Owned);
    let data = RunSnapshotData {
        kind: EventKind::RunSnapshot.name().into(),
        run: raw(serde_json::value::to_raw_value(&run))?,
        nodes: raw(serde_json::value::to_raw_value(&nodes))?,
    };
    Some(opening_data(&data).into())
}
