//! Who is here, who was, and who takes over from whom.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{LeaseId, TaskId, TenantId, Timestamp, WorkerId};
use parking_lot::{Mutex, RwLock};
use protocol::rest::workers::KeptResources;
use protocol::session::server_session::Session;
use protocol::session::token::{Bearer, KeyRing};
use store::{Note, NoteKind, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::keys;
use super::names;
use super::notice::{Carried, MAILBOX_MAX, Notice, Revoked};
use super::record::SessionRecord;

/// Takeovers of one worker within [`TAKEOVERS_WITHIN`]; one more is held off, because two
/// processes seem to fight over one identity.
pub(crate) const TAKEOVERS_MAX: usize = 3;
/// See [`TAKEOVERS_MAX`].
pub(crate) const TAKEOVERS_WITHIN: Duration = Duration::from_mins(1);
/// How long the windows of a session without a connection are kept. A worker that comes later
/// resumes as after a restart of the server.
pub(crate) const PARKED_FOR: Duration = Duration::from_mins(5);
/// A name stays its worker's for so long after it left.
const NAME_KEPT_FOR: Duration = Duration::from_mins(1);
/// How long a connection may take to hand its session on.
const HANDOVER_WITHIN: Duration = Duration::from_secs(2);

/// One worker's identity: a tenant and an instance id.
type Identity = (TenantId, String);

/// All sessions of this server.
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    keys: RwLock<KeyRing>,
    connections: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<Identity, Entry>,
    names: BTreeMap<(TenantId, WorkerId), String>,
    /// Parked sessions, oldest first, so that old ones are found without a search.
    parked: VecDeque<(Timestamp, Identity)>,
}

struct Entry {
    record: Option<SessionRecord>,
    worker: WorkerId,
    presence: Presence,
    takeovers: VecDeque<Timestamp>,
    heartbeat: Option<HeartbeatFacts>,
}

enum Presence {
    /// No connection.
    Away { since: Timestamp, parked: Option<Box<Carried>> },
    /// This connection carries the session, or is about to.
    Here { connection: u64, mailbox: mpsc::Sender<Notice> },
}

/// A connection's claim to be a worker.
pub(crate) struct Claim<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) instance_id: &'a str,
    pub(crate) given_name: &'a str,
    /// The only name that its credential allows: it gets this one or none.
    pub(crate) bound: Option<&'a WorkerId>,
    /// The claim that the same connection made before, for an earlier session of its own.
    pub(crate) own: Option<u64>,
    /// Whether it proved that the session is its own. No second process can, so it may take over
    /// as often as its network fails.
    pub(crate) is_resume: bool,
}

/// The claim is granted: no other connection speaks for this worker any more.
pub(crate) struct Claimed {
    /// Names the connection in later calls.
    pub(crate) connection: u64,
    /// The name under which the coordinator knows the worker.
    pub(crate) worker: WorkerId,
    /// What the connection is told from elsewhere.
    pub(crate) mailbox: mpsc::Receiver<Notice>,
    /// What the former connection left.
    pub(crate) carried: Carried,
    /// The session before.
    pub(crate) record: Option<SessionRecord>,
    /// Whether the name was another instance's before: what that one held is not this one's.
    pub(crate) is_successor: bool,
}

/// A connection that no longer speaks for its worker.
pub(crate) struct Parting<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) instance_id: &'a str,
    pub(crate) connection: u64,
    /// What the next connection goes on with.
    pub(crate) carried: Carried,
}

/// The claim is refused.
#[derive(Clone, Debug)]
pub(crate) enum ClaimError {
    /// The identity changes hands too often.
    TooManyTakeovers,
    /// Another instance is here under the only name that the credential allows.
    NameTaken(WorkerId),
    /// The instance is known under another name than the one that the credential allows.
    OtherWorker(WorkerId),
}

/// What a worker said of itself last.
#[derive(Clone, Debug)]
pub(crate) struct HeartbeatFacts {
    pub(crate) at: Timestamp,
    pub(crate) healthy: bool,
    pub(crate) cpu_pct: Option<f64>,
    pub(crate) mem_pct: Option<f64>,
    pub(crate) disk_pct: Option<f64>,
    pub(crate) inflight: u64,
    pub(crate) resources: Option<KeptResources>,
}

/// One session, for people.
#[derive(Clone, Debug)]
pub(crate) struct SessionView {
    pub(crate) record: Option<SessionRecord>,
    pub(crate) is_connected: bool,
    pub(crate) heartbeat: Option<HeartbeatFacts>,
}

impl Sessions {
    /// Reads what the store knows.
    pub(crate) async fn load(store: Arc<dyn Store>, now: Timestamp) -> Result<Self, StoreError> {
        let keys = keys::load(&store, now).await?;
        let mut table = Table::default();
        for note in store.notes(NoteKind::Session).await? {
            let record = SessionRecord::from_note(&note).filter(|record| !record.is_over(now));
            let tenant = note.tenant.parse::<TenantId>().ok();
            let known = record.and_then(|record| Some((tenant?, record.worker_id()?, record)));
            match known {
                Some((tenant, worker, record)) => table.restore(tenant, worker, record, now),
                None => store.put_note(Note { json: None, ..note }).await?,
            }
        }
        Ok(Self {
            store,
            keys: RwLock::new(keys),
            connections: AtomicU64::new(1),
            table: Mutex::new(table),
        })
    }

    // ----- tokens

    pub(crate) fn issue(&self, bearer: Bearer<'_>, now: Timestamp, until: Timestamp) -> String {
        self.keys.read().issue(bearer, now, until)
    }

    pub(crate) fn verify(&self, token: &str, bearer: Bearer<'_>, now: Timestamp) -> bool {
        self.keys.read().verify(token, bearer, now).is_ok()
    }

    /// Signs with a new key from here on; tokens of the former ones stay good until they end.
    pub(crate) async fn rotate_key(&self, now: Timestamp) -> Result<String, StoreError> {
        let (_, id, secret) = keys::make(&self.store, now).await?;
        self.keys.write().rotate(&id, &secret).map_err(|error| {
            StoreError::Unavailable(format!("the new key is not usable: {error}"))
        })?;
        Ok(id)
    }

    // ----- connections

    /// Makes a connection the one that speaks for a worker. Whoever spoke for it before is closed
    /// first.
    pub(crate) async fn claim(
        &self,
        claim: Claim<'_>,
        now: Timestamp,
    ) -> Result<Claimed, ClaimError> {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let (sender, mailbox) = mpsc::channel(MAILBOX_MAX);
        let here = Presence::Here { connection, mailbox: sender };
        let (predecessor, (former, worker, record)) = {
            let mut table = self.table.lock();
            let predecessor = table.make_room(&claim)?;
            (predecessor, table.claim(&claim, here, now)?)
        };
        let is_successor = predecessor.is_some();
        if let Some(instance_id) = predecessor {
            self.forget(claim.tenant, instance_id).await;
        }
        let carried = match former {
            Presence::Away { parked, .. } => parked.map(|parked| *parked).unwrap_or_default(),
            Presence::Here { mailbox, .. } => hand_over(&mailbox).await,
        };
        Ok(Claimed { connection, worker, mailbox, carried, record, is_successor })
    }

    /// The session of a claimed worker is open: keeps what is durable of it.
    pub(crate) async fn open(
        &self,
        tenant: &TenantId,
        record: SessionRecord,
    ) -> Result<(), StoreError> {
        self.store.put_note(record.to_note(tenant.as_str())).await?;
        let mut table = self.table.lock();
        if let Some(entry) = table.entries.get_mut(&(tenant.clone(), record.instance_id.clone())) {
            entry.record = Some(record);
        }
        Ok(())
    }

    /// The connection is gone; what it carried waits for the next one. Another connection may have
    /// claimed the worker meanwhile: then it is given back, and is about to be asked for.
    pub(crate) fn park(&self, parting: Parting<'_>, now: Timestamp) -> Result<(), Box<Carried>> {
        let mut table = self.table.lock();
        table.drop_old(now);
        let identity = (parting.tenant.clone(), parting.instance_id.to_owned());
        let Some(entry) = table.entries.get_mut(&identity) else { return Ok(()) };
        match entry.presence {
            Presence::Here { connection, .. } if connection == parting.connection => {}
            Presence::Here { .. } => return Err(Box::new(parting.carried)),
            Presence::Away { .. } => return Ok(()),
        }
        entry.presence = Presence::Away { since: now, parked: Some(Box::new(parting.carried)) };
        table.parked.push_back((now, identity));
        Ok(())
    }

    /// The credential of a worker that is here, if it came with one.
    pub(crate) fn credential_of(&self, tenant: &TenantId, instance_id: &str) -> Option<String> {
        let table = self.table.lock();
        let entry = table.entries.get(&(tenant.clone(), instance_id.to_owned()))?;
        let is_here = matches!(entry.presence, Presence::Here { .. });
        entry.record.as_ref().filter(|_| is_here)?.token_id.clone()
    }

    /// A session is over: nobody can go on with it.
    pub(crate) async fn end(&self, tenant: &TenantId, instance_id: &str, session_id: &str) {
        {
            let mut table = self.table.lock();
            let entry = table.entries.get_mut(&(tenant.clone(), instance_id.to_owned()));
            let Some(entry) = entry else { return };
            if entry.record.as_ref().is_none_or(|record| record.session_id != session_id) {
                return;
            }
            entry.record = None;
        }
        self.forget(tenant, instance_id.to_owned()).await;
    }

    async fn forget(&self, tenant: &TenantId, key: String) {
        let (kind, tenant) = (NoteKind::Session, tenant.to_string());
        // If it cannot be forgotten now, a restart brings back a session that its worker, which was
        // told of its end, does not ask for.
        let _ = self.store.put_note(Note { kind, tenant, key, json: None }).await;
    }

    /// The session a worker can go on with, if this is one.
    pub(crate) fn record(
        &self,
        tenant: &TenantId,
        instance_id: &str,
        session_id: &str,
    ) -> Option<SessionRecord> {
        let table = self.table.lock();
        let entry = table.entries.get(&(tenant.clone(), instance_id.to_owned()))?;
        entry.record.as_ref().filter(|record| record.session_id == session_id).cloned()
    }

    pub(crate) fn note_heartbeat(
        &self,
        tenant: &TenantId,
        instance_id: &str,
        facts: HeartbeatFacts,
    ) {
        let mut table = self.table.lock();
        if let Some(entry) = table.entries.get_mut(&(tenant.clone(), instance_id.to_owned())) {
            entry.heartbeat = Some(facts);
        }
    }

    // ----- words to workers

    /// Tells a worker's connection something, if there is one.
    pub(crate) fn tell(&self, tenant: &TenantId, worker: &WorkerId, notice: Notice) -> bool {
        let mailbox = self.table.lock().mailbox(tenant, worker);
        mailbox.is_some_and(|mailbox| mailbox.try_send(notice).is_ok())
    }

    /// Leases that ended without a word of their holders.
    pub(crate) fn tell_revoked(&self, tenant: &TenantId, ended: Vec<(WorkerId, Revoked)>) {
        let mut by_worker: BTreeMap<WorkerId, Vec<Revoked>> = BTreeMap::new();
        for (worker, revoked) in ended {
            by_worker.entry(worker).or_default().push(revoked);
        }
        for (worker, revoked) in by_worker {
            self.tell(tenant, &worker, Notice::Revoked(revoked));
        }
    }

    /// The sessions that a credential opened end.
    pub(crate) fn credential_gone(&self, tenant: &TenantId, token_id: &str) {
        let table = self.table.lock();
        let of_tenant = table.entries.iter().filter(|((owner, _), _)| owner == tenant);
        for (_, entry) in of_tenant {
            let is_its = entry
                .record
                .as_ref()
                .is_some_and(|record| record.token_id.as_deref() == Some(token_id));
            if let (true, Presence::Here { mailbox, .. }) = (is_its, &entry.presence) {
                let _ = mailbox.try_send(Notice::CredentialGone);
            }
        }
    }

    // ----- for people

    /// The session behind a worker's name.
    pub(crate) fn view(&self, tenant: &TenantId, worker: &WorkerId) -> Option<SessionView> {
        let table = self.table.lock();
        let instance_id = table.names.get(&(tenant.clone(), worker.clone()))?;
        let entry = table.entries.get(&(tenant.clone(), instance_id.clone()))?;
        Some(SessionView {
            record: entry.record.clone(),
            is_connected: matches!(entry.presence, Presence::Here { .. }),
            heartbeat: entry.heartbeat.clone(),
        })
    }
}

async fn hand_over(mailbox: &mpsc::Sender<Notice>) -> Carried {
    let (reply, carried) = oneshot::channel();
    let ask = async {
        mailbox.send(Notice::HandOver(reply)).await.ok()?;
        carried.await.ok()
    };
    // A connection that does not answer is stuck or gone; its windows are lost with it.
    tokio::time::timeout(HANDOVER_WITHIN, ask).await.ok().flatten().unwrap_or_default()
}

impl Table {
    fn restore(
        &mut self,
        tenant: TenantId,
        worker: WorkerId,
        record: SessionRecord,
        now: Timestamp,
    ) {
        let instance_id = record.instance_id.clone();
        self.names.insert((tenant.clone(), worker.clone()), instance_id.clone());
        let entry = Entry {
            record: Some(record),
            worker,
            presence: Presence::Away { since: now, parked: None },
            takeovers: VecDeque::new(),
            heartbeat: None,
        };
        self.entries.insert((tenant, instance_id), entry);
    }

    /// Frees the only name that a claim may have, or refuses it. Gives the instance that had it: it
    /// is not here, and cannot come back under this name.
    fn make_room(&mut self, claim: &Claim<'_>) -> Result<Option<String>, ClaimError> {
        let Some(bound) = claim.bound else { return Ok(None) };
        let entry = self.entries.get(&(claim.tenant.clone(), claim.instance_id.to_owned()));
        if let Some(entry) = entry.filter(|entry| entry.worker != *bound) {
            return Err(ClaimError::OtherWorker(entry.worker.clone()));
        }
        let name = (claim.tenant.clone(), bound.clone());
        let holder = self.names.get(&name).filter(|holder| *holder != claim.instance_id);
        let Some(holder) = holder.cloned() else { return Ok(None) };
        let identity = (claim.tenant.clone(), holder);
        if let Some(Entry { presence: Presence::Here { .. }, .. }) = self.entries.get(&identity) {
            return Err(ClaimError::NameTaken(bound.clone()));
        }
        self.entries.remove(&identity);
        self.names.insert(name, claim.instance_id.to_owned());
        Ok(Some(identity.1))
    }

    fn claim(
        &mut self,
        claim: &Claim<'_>,
        new: Presence,
        now: Timestamp,
    ) -> Result<(Presence, WorkerId, Option<SessionRecord>), ClaimError> {
        let identity = (claim.tenant.clone(), claim.instance_id.to_owned());
        if let Some(entry) = self.entries.get_mut(&identity) {
            let holder = match entry.presence {
                Presence::Here { connection, .. } => Some(connection),
                Presence::Away { .. } => None,
            };
            let is_own = holder.is_some() && holder == claim.own;
            if holder.is_some() && !is_own && !claim.is_resume {
                entry.count_takeover(now)?;
            }
            let mut former = std::mem::replace(&mut entry.presence, new);
            if is_own {
                // Nobody takes over from itself.
                former = Presence::Away { since: now, parked: None };
            }
            return Ok((former, entry.worker.clone(), entry.record.clone()));
        }
        let is_free = |name: &WorkerId| self.is_free(claim.tenant, name, now);
        let worker = match claim.bound {
            Some(bound) => bound.clone(),
            None => names::unique(claim.given_name, claim.instance_id, is_free),
        };
        self.names.insert((claim.tenant.clone(), worker.clone()), claim.instance_id.to_owned());
        let entry = Entry {
            record: None,
            worker: worker.clone(),
            presence: new,
            takeovers: VecDeque::new(),
            heartbeat: None,
        };
        self.entries.insert(identity, entry);
        Ok((Presence::Away { since: now, parked: None }, worker, None))
    }

    fn is_free(&self, tenant: &TenantId, name: &WorkerId, now: Timestamp) -> bool {
        let Some(instance_id) = self.names.get(&(tenant.clone(), name.clone())) else {
            return true;
        };
        let entry = self.entries.get(&(tenant.clone(), instance_id.clone()));
        entry.is_none_or(|entry| match entry.presence {
            Presence::Away { since, .. } => now.since(since) >= NAME_KEPT_FOR,
            Presence::Here { .. } => false,
        })
    }

    fn mailbox(&self, tenant: &TenantId, worker: &WorkerId) -> Option<mpsc::Sender<Notice>> {
        let instance_id = self.names.get(&(tenant.clone(), worker.clone()))?;
        let entry = self.entries.get(&(tenant.clone(), instance_id.clone()))?;
        match &entry.presence {
            Presence::Here { mailbox, .. } => Some(mailbox.clone()),
            Presence::Away { .. } => None,
        }
    }

    /// Drops the windows of sessions that nobody came back for; the sessions stay known.
    fn drop_old(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.parked.front()
            && now.since(*at) >= PARKED_FOR
        {
            let Some((at, identity)) = self.parked.pop_front() else { return };
            if let Some(entry) = self.entries.get_mut(&identity)
                && let Presence::Away { since, parked } = &mut entry.presence
                && *since == at
            {
                *parked = None;
            }
        }
    }
}

impl Entry {
    fn count_takeover(&mut self, now: Timestamp) -> Result<(), ClaimError> {
        self.takeovers.retain(|at| now.since(*at) < TAKEOVERS_WITHIN);
        if self.takeovers.len() >= TAKEOVERS_MAX {
            return Err(ClaimError::TooManyTakeovers);
        }
        self.takeovers.push_back(now);
        Ok(())
    }
}

impl Carried {
    /// A session that is known, but whose windows were lost with the process that held them.
    pub(crate) fn session_or_restored(&mut self, session_id: &str, window: u64) -> Session {
        let known = self.session.take().filter(|session| session.id() == session_id);
        known.unwrap_or_else(|| Session::restored(session_id, window))
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = (TaskId, LeaseId)> {
        self.held.iter().map(|(task, lease)| (*task, *lease))
    }
}
