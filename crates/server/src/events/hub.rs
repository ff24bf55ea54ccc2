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
    store: Arc<dyn Store>,
    clock: Clock,
    open: RwLock<HashMap<ShardId, Arc<TenantEvents>, RandomState>>,
    /// How far ids may have gone before this process began.
    floors: BTreeMap<String, u64>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Reads how far ids have gone.
    pub(crate) async fn load(store: Arc<dyn Store>, clock: Clock) -> Result<Self, StoreError> {
        let floors = floors(&*store).await?;
        Ok(Self { store, clock, open: RwLock::default(), floors })
    }

    /// A tenant's coordinator begins, with what its store holds. It may have begun before.
    pub(crate) async fn begin(
        &self,
        tenant: &TenantId,
        shard: ClaimedShard,
        (tasks, runs): (&[TaskRecord], &[RestoredRun]),
    ) -> Result<Arc<TenantEvents>, StoreError> {
        let events = self.of(tenant, shard.shard);
        if events.begins() {
            let floors = floors(&*self.store).await?;
            events.start_over(floors.get(tenant.as_str()).copied());
        }
        events.restored(tasks, runs);
        Ok(events)
    }

    /// The events of a tenant, whether its coordinator has begun or not.
    pub(crate) fn of(&self, tenant: &TenantId, shard: ShardId) -> Arc<TenantEvents> {
        if let Some(events) = self.open.read().get(&shard) {
            return Arc::clone(events);
        }
        let mut open = self.open.write();
        let events = open.entry(shard).or_insert_with(|| {
            let floor = self.floors.get(tenant.as_str()).copied();
            let (store, clock) = (Arc::clone(&self.store), self.clock);
            Arc::new(TenantEvents::new(tenant.clone(), store, clock, floor))
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

async fn floors(store: &dyn Store) -> Result<BTreeMap<String, u64>, StoreError> {
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
