//! The workers that speak the Redis protocol, of all tenants.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{Offer, TaskId, TenantId, Timestamp, WorkerId};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use shard::sessions::{MemberTable, SessionCounts};
use store::{Note, NoteKind, Store, StoreError};

use super::convert::abilities;
use super::crew_member::{Abilities, CrewMember, HeldJob, Registration};
use crate::clock::Clock;

/// Who registered a worker's name first has it, while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameTaken;

/// Everyone.
pub(crate) struct Crew {
    store: Arc<dyn Store>,
    clock: Clock,
    members: Mutex<BTreeMap<TenantId, MemberTable<CrewMember>>>,
}

impl Crew {
    /// Reads who was registered before. They are taken for dead until they are heard of.
    pub(crate) async fn load(store: Arc<dyn Store>, clock: Clock) -> Result<Self, StoreError> {
        let mut members: BTreeMap<TenantId, MemberTable<CrewMember>> = BTreeMap::new();
        for note in store.notes(NoteKind::Member).await? {
            let damaged = || StoreError::Damaged(format!("worker {}", note.key));
            let tenant = note.tenant.parse::<TenantId>().map_err(|_| damaged())?;
            let worker = note.key.parse::<WorkerId>().map_err(|_| damaged())?;
            let json = note.json.as_deref().unwrap_or_default();
            let registration: Registration = serde_json::from_str(json).map_err(|_| damaged())?;
            let known = abilities(&worker, registration.metadata.get()).map_err(|_| damaged())?;
            let of_tenant = members.entry(tenant).or_default();
            *of_tenant.see(clock.now(), &worker) = CrewMember::registered(registration, known);
        }
        Ok(Self { store, clock, members: Mutex::new(members) })
    }

    /// Looks at a worker that is heard of. Others that nobody has heard of for long are forgotten.
    pub(super) fn with<T>(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        look: impl FnOnce(&mut CrewMember) -> T,
    ) -> T {
        let mut members = self.members.lock();
        let of_tenant = members.entry(tenant.clone()).or_default();
        let seen = look(of_tenant.see(self.clock.now(), worker));
        for forgotten in of_tenant.take_forgotten() {
            // Written in the background: a registration that comes back with a restart is
            // forgotten again.
            let (kind, tenant, key) = (NoteKind::Member, tenant.to_string(), forgotten.to_string());
            drop(self.store.put_note(Note { kind, tenant, key, json: None }));
        }
        seen
    }

    /// Looks at a worker that is known.
    pub(super) fn known<T>(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        look: impl FnOnce(&CrewMember) -> T,
    ) -> Option<T> {
        self.members.lock().get(tenant)?.get(worker).map(look)
    }

    /// Walks over a tenant's workers, by name.
    pub(super) fn each(&self, tenant: &TenantId, mut look: impl FnMut(&WorkerId, &CrewMember)) {
        let members = self.members.lock();
        let own = members.get(tenant).into_iter().flat_map(MemberTable::iter);
        own.for_each(|(worker, member)| look(worker, member));
    }

    /// Whether a credential may register a name: its own, a free one, or one whose worker is dead.
    pub(super) fn check_name(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        credential: &str,
        now: Timestamp,
    ) -> Result<(), NameTaken> {
        let is_taken = self.known(tenant, worker, |member| {
            member.registration.as_ref().is_some_and(|own| own.credential != credential)
                && member.is_alive(now)
        });
        if is_taken == Some(true) { Err(NameTaken) } else { Ok(()) }
    }

    /// Keeps a registration: first in the store, then here.
    pub(super) async fn register(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        registration: Registration,
        abilities: Abilities,
    ) -> Result<Arc<Offer>, StoreError> {
        let now = Timestamp::from_millis(registration.registered_ms);
        let json = serde_json::to_string(&registration).expect("a registration is JSON");
        self.keep(tenant, worker, Some(json)).await?;
        Ok(self.with(tenant, worker, |member| {
            member.registration = Some(registration);
            member.abilities = abilities;
            member.last_seen = now;
            member.offer()
        }))
    }

    /// Forgets a worker.
    pub(super) async fn unregister(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
    ) -> Result<(), StoreError> {
        self.keep(tenant, worker, None).await?;
        if let Some(of_tenant) = self.members.lock().get_mut(tenant) {
            of_tenant.remove(worker);
        }
        Ok(())
    }

    async fn keep(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        json: Option<String>,
    ) -> Result<(), StoreError> {
        let (kind, tenant, key) = (NoteKind::Member, tenant.to_string(), worker.to_string());
        self.store.put_note(Note { kind, tenant, key, json }).await
    }

    /// A worker was heard of.
    pub(super) fn touch(&self, tenant: &TenantId, worker: &WorkerId, now: Timestamp) {
        self.with(tenant, worker, |member| member.last_seen = now);
    }

    /// The lease that a job of this worker is held by, as far as it is remembered.
    pub(super) fn held(&self, tenant: &TenantId, worker: &WorkerId, job: &str) -> Option<HeldJob> {
        self.known(tenant, worker, |member| member.held(job).cloned()).flatten()
    }

    pub(super) fn let_go(&self, tenant: &TenantId, worker: &WorkerId, task: TaskId) {
        let mut members = self.members.lock();
        if let Some(member) = members.get_mut(tenant).and_then(|all| all.get_mut(worker)) {
            member.let_go(task);
        }
    }

    /// One connection more or less speaks for a worker. Gives how many do now.
    pub(super) fn count_connection(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        is_new: bool,
    ) -> usize {
        let (mut members, now) = (self.members.lock(), self.clock.now());
        let of_tenant = members.entry(tenant.clone()).or_default();
        if is_new { of_tenant.connect(now, worker) } else { of_tenant.disconnect(now, worker) }
    }

    /// How many workers of a tenant are remembered, and how many were forgotten.
    pub(crate) fn counts(&self, tenant: &TenantId) -> SessionCounts {
        self.members.lock().get(tenant).map(MemberTable::counts).unwrap_or_default()
    }

    /// What a worker said of itself.
    pub(super) fn metadata(&self, tenant: &TenantId, worker: &WorkerId) -> Option<Bytes> {
        let text = |metadata: &RawValue| Bytes::copy_from_slice(metadata.get().as_bytes());
        self.known(tenant, worker, |member| {
            member.registration.as_ref().map(|registration| text(&registration.metadata))
        })
        .flatten()
    }
}
