//! Which workers are connected, and how their connections are reached.
//!
//! One table per tenant, each behind a short lock of its own. What a table decides is carried out
//! under that lock, so rows reach the store in the order in which they were decided.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{TenantId, Timestamp, WorkerId};
use parking_lot::{Mutex, RwLock};
use protocol::session::token::{Bearer, KeyRing};
use shard::sessions::{
    Carried, ClaimError, Claimed, HeartbeatFacts, LinkId, Notice, Revoked, SessionClaim,
    SessionCounts, SessionEffect, SessionRecord, SessionTable, SessionView,
};
use store::{Note, NoteKind, Store, StoreError, StoreFuture};
use tokio::sync::{mpsc, oneshot};

use super::keys;
use crate::resources::Wanted;

/// Notices that wait for one connection; further ones are dropped, and the next heartbeat says
/// the same.
const MAILBOX_MAX: usize = 4_096;

/// What a connection is told from elsewhere. A newer connection that speaks for its worker closes
/// the channel.
#[derive(Debug)]
pub(crate) enum ToLink {
    /// For its link.
    Notice(Notice),
    /// Someone wants a part of a resource that the worker keeps.
    Read(Box<Wanted>),
}

/// All sessions of this server.
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    keys: RwLock<KeyRing>,
    links: AtomicU64,
    tenants: RwLock<HashMap<TenantId, Arc<Tenant>>>,
}

/// The sessions of one tenant.
struct Tenant {
    name: String,
    store: Arc<dyn Store>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    table: SessionTable,
    mailboxes: BTreeMap<LinkId, mpsc::Sender<ToLink>>,
    claims: BTreeMap<LinkId, oneshot::Sender<Claimed>>,
}

/// A claim that was made: the worker, as soon as it is granted, and what its connection is told.
pub(crate) type PendingClaim = (oneshot::Receiver<Claimed>, mpsc::Receiver<ToLink>);

/// A write that is under way; it takes place whether it is waited for or not.
type Write = StoreFuture<Result<(), StoreError>>;

impl Tenant {
    /// Uses the table, then carries out what it decided. Gives the writes that this began.
    fn with<T>(&self, now: Timestamp, call: impl FnOnce(&mut Inner) -> T) -> (T, Vec<Write>) {
        let mut inner = self.inner.lock();
        let answer = call(&mut inner);
        let mut writes = Vec::new();
        while let Some(effect) = inner.table.poll_effect() {
            match effect {
                SessionEffect::Claimed { link, claimed } => inner.grant(now, link, *claimed),
                // The connection hears of it when all that it was told before is read.
                SessionEffect::HandOver { link } => drop(inner.mailboxes.remove(&link)),
                SessionEffect::Keep(record) => {
                    writes.push(self.store.put_note(to_note(&self.name, &record)));
                }
                SessionEffect::Forget { instance_id } => {
                    writes.push(self.store.put_note(no_note(&self.name, instance_id)));
                }
            }
        }
        (answer, writes)
    }
}

impl Inner {
    fn grant(&mut self, now: Timestamp, link: LinkId, claimed: Claimed) {
        let Some(claimant) = self.claims.remove(&link) else { return };
        if let Err(claimed) = claimant.send(claimed) {
            // The connection has gone: what it was given waits for the next one.
            self.mailboxes.remove(&link);
            self.table.park(now, link, claimed.carried);
        }
    }

    fn mailbox(&self, worker: &WorkerId) -> Option<&mpsc::Sender<ToLink>> {
        self.mailboxes.get(&self.table.link_of(worker)?)
    }
}

impl Sessions {
    /// Reads what the store knows.
    pub(crate) async fn load(store: Arc<dyn Store>, now: Timestamp) -> Result<Self, StoreError> {
        let keys = keys::load(&store, now).await?;
        let sessions = Self {
            keys: RwLock::new(keys),
            links: AtomicU64::new(1),
            tenants: RwLock::default(),
            store: Arc::clone(&store),
        };
        for note in store.notes(NoteKind::Session).await? {
            let record = note.json.as_deref().and_then(|json| serde_json::from_str(json).ok());
            let known = note.tenant.parse::<TenantId>().ok().zip(record);
            match known {
                Some((tenant, record)) => {
                    let tenant = sessions.tenant(&tenant);
                    let ((), writes) = tenant.with(now, |all| all.table.restore(now, record));
                    settle(writes).await?;
                }
                None => store.put_note(Note { json: None, ..note }).await?,
            }
        }
        Ok(sessions)
    }

    fn tenant(&self, tenant: &TenantId) -> Arc<Tenant> {
        if let Some(found) = self.tenants.read().get(tenant) {
            return Arc::clone(found);
        }
        let mut tenants = self.tenants.write();
        let made = tenants.entry(tenant.clone()).or_insert_with(|| {
            let (store, inner) = (Arc::clone(&self.store), Mutex::default());
            Arc::new(Tenant { name: tenant.to_string(), store, inner })
        });
        Arc::clone(made)
    }

    /// A tenant that had a worker at some time.
    fn known(&self, tenant: &TenantId) -> Option<Arc<Tenant>> {
        self.tenants.read().get(tenant).cloned()
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

    /// Names a new connection.
    pub(crate) fn new_link(&self) -> LinkId {
        LinkId(self.links.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a connection the one that speaks for a worker, as soon as whoever spoke for it before
    /// has handed its session over.
    pub(crate) fn claim(
        &self,
        now: Timestamp,
        tenant: &TenantId,
        link: LinkId,
        claim: &SessionClaim,
    ) -> Result<PendingClaim, ClaimError> {
        let (reply, claimed) = oneshot::channel();
        let (sender, mailbox) = mpsc::channel(MAILBOX_MAX);
        let (granted, _) = self.tenant(tenant).with(now, |all| {
            all.table.claim(now, link, claim)?;
            all.claims.insert(link, reply);
            all.mailboxes.insert(link, sender);
            Ok(())
        });
        granted.map(|()| (claimed, mailbox))
    }

    /// Grants claims whose hand-over takes too long.
    pub(crate) fn tick(&self, now: Timestamp, tenant: &TenantId) {
        // Forgotten workers are deleted in the background.
        let _ = self.tenant(tenant).with(now, |all| all.table.tick(now));
    }

    /// Makes the session of a claimed worker durable. `false` if the connection no longer speaks
    /// for the worker.
    pub(crate) async fn open(
        &self,
        now: Timestamp,
        tenant: &TenantId,
        link: LinkId,
        record: SessionRecord,
    ) -> Result<bool, StoreError> {
        let tenant = self.tenant(tenant);
        let (_, writes) = tenant.with(now, |all| all.table.open(link, record.clone()));
        settle(writes).await?;
        Ok(tenant.with(now, |all| all.table.opened(link, record)).0)
    }

    /// A resumed session gets a new token. `false` if the connection no longer speaks for the
    /// worker.
    pub(crate) async fn renew(
        &self,
        now: Timestamp,
        tenant: &TenantId,
        link: LinkId,
    ) -> Result<bool, StoreError> {
        let (is_held, writes) = self.tenant(tenant).with(now, |all| all.table.renew(now, link));
        settle(writes).await?;
        Ok(is_held)
    }

    /// A session is over: nobody can go on with it.
    ///
    /// If that cannot be written now, a restart brings back a session that its worker, which was
    /// told of its end, does not ask for.
    pub(crate) fn end(&self, now: Timestamp, tenant: &TenantId, link: LinkId, session_id: &str) {
        let _ = self.tenant(tenant).with(now, |all| all.table.end(link, session_id));
    }

    /// The connection no longer speaks for its worker; what it carried waits for the next one.
    pub(crate) fn park(&self, now: Timestamp, tenant: &TenantId, link: LinkId, carried: Carried) {
        let _ = self.tenant(tenant).with(now, |all| {
            all.claims.remove(&link);
            all.mailboxes.remove(&link);
            all.table.park(now, link, carried);
        });
    }

    /// The credential of a worker that is connected, if it came with one.
    pub(crate) fn credential_of(&self, tenant: &TenantId, instance_id: &str) -> Option<String> {
        let tenant = self.known(tenant)?;
        let inner = tenant.inner.lock();
        inner.table.credential_of(instance_id).map(str::to_owned)
    }

    /// The session a worker can go on with, if this is one.
    pub(crate) fn record(
        &self,
        tenant: &TenantId,
        instance_id: &str,
        session_id: &str,
    ) -> Option<SessionRecord> {
        let tenant = self.known(tenant)?;
        let inner = tenant.inner.lock();
        inner.table.record(instance_id, session_id).cloned()
    }

    pub(crate) fn note_heartbeat(&self, tenant: &TenantId, link: LinkId, facts: HeartbeatFacts) {
        if let Some(tenant) = self.known(tenant) {
            tenant.inner.lock().table.note_heartbeat(link, facts);
        }
    }

    // ----- words to workers

    fn send(&self, tenant: &TenantId, worker: &WorkerId, message: ToLink) -> bool {
        let Some(tenant) = self.known(tenant) else { return false };
        let inner = tenant.inner.lock();
        inner.mailbox(worker).is_some_and(|mailbox| mailbox.try_send(message).is_ok())
    }

    /// Tells a worker's connection something, if there is one.
    pub(crate) fn tell(&self, tenant: &TenantId, worker: &WorkerId, notice: Notice) -> bool {
        self.send(tenant, worker, ToLink::Notice(notice))
    }

    /// Asks a worker's connection for a part of a resource.
    pub(crate) fn read(&self, tenant: &TenantId, worker: &WorkerId, wanted: Wanted) -> bool {
        self.send(tenant, worker, ToLink::Read(Box::new(wanted)))
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
        let Some(tenant) = self.known(tenant) else { return };
        let inner = tenant.inner.lock();
        for link in inner.table.links_of_credential(token_id) {
            if let Some(mailbox) = inner.mailboxes.get(&link) {
                let _ = mailbox.try_send(ToLink::Notice(Notice::CredentialGone));
            }
        }
    }

    // ----- for people

    /// The session behind a worker's name.
    pub(crate) fn view(&self, tenant: &TenantId, worker: &WorkerId) -> Option<SessionView> {
        self.known(tenant)?.inner.lock().table.view(worker)
    }

    /// How many workers of a tenant are remembered, and how many were forgotten.
    pub(crate) fn counts(&self, tenant: &TenantId) -> SessionCounts {
        self.known(tenant).map(|known| known.inner.lock().table.counts()).unwrap_or_default()
    }
}

async fn settle(writes: Vec<Write>) -> Result<(), StoreError> {
    for write in writes {
        write.await?;
    }
    Ok(())
}

fn to_note(tenant: &str, record: &SessionRecord) -> Note {
    let json = serde_json::to_string(record).expect("texts and numbers always become JSON");
    let (tenant, key) = (tenant.to_owned(), record.instance_id.clone());
    Note { kind: NoteKind::Session, tenant, key, json: Some(json) }
}

fn no_note(tenant: &str, key: String) -> Note {
    Note { kind: NoteKind::Session, tenant: tenant.to_owned(), key, json: None }
}
