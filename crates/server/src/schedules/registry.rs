//! The schedules of every tenant: in memory, and as notes in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::TenantId;
use parking_lot::RwLock;
use store::{Note, NoteKind, Store, StoreError};
use tokio::sync::Notify;

use super::schedule::KeptSchedule;

/// Schedules that one tenant may keep.
pub(crate) const SCHEDULES_MAX: usize = 1_000;

/// Whose schedule, and which.
pub(crate) type ScheduleKey = (TenantId, String);

/// Why a schedule is not kept, or not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// There are too many.
    #[error("{SCHEDULES_MAX} schedules are kept already")]
    Full,
    /// There is no such schedule.
    #[error("no schedule with this id")]
    Unknown,
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All schedules.
pub(crate) struct Schedules {
    store: Arc<dyn Store>,
    kept: RwLock<BTreeMap<ScheduleKey, Arc<KeptSchedule>>>,
    /// Held by whoever changes something: what is kept and what is in memory change together.
    changing: tokio::sync::Mutex<()>,
    /// Something changed that the clockwork should know.
    pub(crate) changed: Notify,
}

impl Schedules {
    /// Reads what was kept before. A note that cannot be read starts nothing, and stays.
    pub(crate) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut kept = BTreeMap::new();
        for note in store.notes(NoteKind::Schedule).await? {
            let Some((key, schedule)) = read(&note) else {
                tracing::error!(key = %note.key, "a schedule cannot be read");
                continue;
            };
            kept.insert(key, Arc::new(schedule));
        }
        let kept = RwLock::new(kept);
        let (changing, changed) = (tokio::sync::Mutex::default(), Notify::new());
        Ok(Self { store, kept, changing, changed })
    }

    /// Keeps a new one.
    pub(crate) async fn add(
        &self,
        key: ScheduleKey,
        schedule: KeptSchedule,
    ) -> Result<Arc<KeptSchedule>, KeepError> {
        let _changing = self.changing.lock().await;
        if self.of_tenant(&key.0).len() >= SCHEDULES_MAX {
            return Err(KeepError::Full);
        }
        self.put(key, schedule).await
    }

    /// Changes one, durably. `change` sees it as it is.
    pub(crate) async fn change(
        &self,
        key: &ScheduleKey,
        change: impl FnOnce(&mut KeptSchedule),
    ) -> Result<Arc<KeptSchedule>, KeepError> {
        let _changing = self.changing.lock().await;
        let mut schedule = self.get(key).ok_or(KeepError::Unknown)?.as_ref().clone();
        change(&mut schedule);
        self.put(key.clone(), schedule).await
    }

    /// Durable first, then believed.
    async fn put(
        &self,
        key: ScheduleKey,
        schedule: KeptSchedule,
    ) -> Result<Arc<KeptSchedule>, KeepError> {
        let json = serde_json::to_string(&schedule).expect("our own shapes are JSON");
        self.store.put_note(note(&key, Some(json))).await?;
        let schedule = Arc::new(schedule);
        self.kept.write().insert(key, Arc::clone(&schedule));
        self.changed.notify_one();
        Ok(schedule)
    }

    /// Forgets one; its runs stay.
    pub(crate) async fn remove(&self, key: &ScheduleKey) -> Result<(), KeepError> {
        let _changing = self.changing.lock().await;
        self.get(key).ok_or(KeepError::Unknown)?;
        self.store.put_note(note(key, None)).await?;
        self.kept.write().remove(key);
        Ok(())
    }

    /// One of them.
    pub(crate) fn get(&self, key: &ScheduleKey) -> Option<Arc<KeptSchedule>> {
        self.kept.read().get(key).cloned()
    }

    /// A tenant's, oldest first.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<(String, Arc<KeptSchedule>)> {
        let kept = self.kept.read();
        let own = kept.iter().filter(|((owner, _), _)| owner == tenant);
        let mut own: Vec<_> =
            own.map(|((_, id), schedule)| (id.clone(), Arc::clone(schedule))).collect();
        own.sort_by(|(a_id, a), (b_id, b)| (a.created_ms, a_id).cmp(&(b.created_ms, b_id)));
        own
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(ScheduleKey, Arc<KeptSchedule>)> {
        let kept = self.kept.read();
        kept.iter().map(|(key, schedule)| (key.clone(), Arc::clone(schedule))).collect()
    }
}

fn read(note: &Note) -> Option<(ScheduleKey, KeptSchedule)> {
    let schedule = serde_json::from_str(note.json.as_deref()?).ok()?;
    Some(((note.tenant.parse().ok()?, note.key.clone()), schedule))
}

fn note((tenant, id): &ScheduleKey, json: Option<String>) -> Note {
    Note { kind: NoteKind::Schedule, tenant: tenant.to_string(), key: id.clone(), json }
}
