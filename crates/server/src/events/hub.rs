//! The events of all tenants.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use coordinator::{RestoredRun, TaskRecord};
use foldhash::fast::RandomState;
use model::{LeaseId, ShardId, TenantId};
use parking_lot::RwLock;
use protocol::session::payload::feedback::Feedback;
use shard::ClaimedShard;
use store::{NoteKind, Store, StoreError};

use super::tenant::TenantEvents;
use crate::clock::Clock;
use crate::feedback::Snapshot;

/// The events of all tenants.
pub(crate) struct Events {
    clock: Clock,
    open: RwLock<HashMap<ShardId, Arc<TenantEvents>, RandomState>>,
    /// How far ids had gone when they were not numbered by epochs; 0 in younger folders.
    bases: BTreeMap<String, u64>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Reads what an earlier version said of ids.
    pub(crate) async fn load(store: &dyn Store, clock: Clock) -> Result<Self, StoreError> {
        Ok(Self { clock, open: RwLock::default(), bases: bases(store).await? })
    }

    /// A tenant's coordinator begins, with what its store holds. It may have begun before.
    pub(crate) fn begin(
        &self,
        tenant: &TenantId,
        shard: ClaimedShard,
        (tasks, runs): (&[TaskRecord], &[RestoredRun]),
    ) -> Arc<TenantEvents> {
        let events = self.of(tenant, shard.shard);
        events.restored(tasks, runs);
        events.begin_epoch(shard.epoch);
        events
    }

    /// The events of a tenant, whether its coordinator has begun or not.
    pub(crate) fn of(&self, tenant: &TenantId, shard: ShardId) -> Arc<TenantEvents> {
        if let Some(events) = self.open.read().get(&shard) {
            return Arc::clone(events);
        }
        let mut open = self.open.write();
        let events = open.entry(shard).or_insert_with(|| {
            let base = self.bases.get(tenant.as_str()).copied().unwrap_or(0);
            Arc::new(TenantEvents::new(tenant.clone(), self.clock, base))
        });
        Arc::clone(events)
    }

    /// What a worker says of an attempt, and all that the attempt said so far.
    pub(crate) fn overhear(
        &self,
        lease: LeaseId,
        feedback: &Feedback,
        snapshot: impl FnOnce() -> Option<Snapshot>,
    ) {
        let events = self.open.read().get(&lease.task.shard()).map(Arc::clone);
        if let Some(events) = events {
            events.overhear(lease, feedback, snapshot);
        }
    }
}

async fn bases(store: &dyn Store) -> Result<BTreeMap<String, u64>, StoreError> {
    let notes = store.notes(NoteKind::EventFloor).await?;
    let read = |json: Option<String>| json.and_then(|json| json.parse().ok());
    notes
        .into_iter()
        .map(|note| match read(note.json) {
            Some(floor) => Ok((note.tenant, floor)),
            None => {
                Err(StoreError::Damaged(format!("event_floor of {} is no number", note.tenant)))
            }
        })
        .collect()
}
