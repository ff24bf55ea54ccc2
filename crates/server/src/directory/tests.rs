//! Who owns a tenant: what a lost shard drops, and who claims it again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use coordinator::Drain;
use model::{TenantId, Timestamp};
use shard::sessions::{LinkId, SessionClaim};
use shard::{ClaimedShard, Turn};
use sim::MemoryStore;
use store::{CommitError, Store};
use tempfile::TempDir;

use super::Tenant;
use crate::app::{Options, Server};
use crate::events::{Filter, Reader, Said};
use crate::handle::{AskError, ShardHandle};
use crate::keyspace::TenantKeyspace;
use crate::links::{Heard, Told};

/// Longer than any pause after which a server could try something by itself.
const LONG: Duration = Duration::from_mins(10);

#[tokio::test(start_paused = true)]
async fn a_fenced_server_drops_the_tenant_and_claims_it_again_only_when_it_is_asked() {
    let place = Place::new().await;
    let (mut acme, mut bolt) = (place.user("acme").await, place.user("bolt").await);
    let theirs = place.store.claim(tenant("acme")).await.expect("another server claims it");

    assert_eq!(ask(&acme.handle).await, Err(AskError::Unavailable));
    acme.is_dropped().await;
    assert!(place.server.app().directory.find(&tenant("acme")).is_none());
    tokio::time::sleep(LONG).await;
    // A worker's connection looks for its place, and a scrape asks for numbers.
    assert!(place.server.app().directory.find(&tenant("acme")).is_none());
    assert_eq!(place.commit(theirs).await, Ok(()), "nobody claimed it back");
    assert!(place.server.app().directory.all_ready(), "the other tenants are served");
    bolt.is_served().await;

    let handle = place.handle("acme").await;
    ask(&handle).await.expect("whoever asks is served");
    let claim = handle.tenant().expect("served").claim();
    assert_eq!((claim.shard, claim.epoch), (theirs.shard, theirs.epoch + 1));
    assert_eq!(place.commit(theirs).await, Err(CommitError::Fenced));
    assert_eq!(ask(&acme.handle).await, Err(AskError::Unavailable), "the old way leads nowhere");
}

#[tokio::test(start_paused = true)]
async fn two_servers_on_one_store_do_not_take_a_tenant_from_each_other_in_a_loop() {
    let first = Place::new().await;
    let second = Place::on(Arc::clone(&first.store)).await;
    let mut epoch = 0;
    for _ in 0..3 {
        for (asked, other) in [(&first, &second), (&second, &first)] {
            other.lose_if_owned("acme").await;
            let handle = asked.handle("acme").await;
            ask(&handle).await.expect("served");
            other.lose_if_owned("acme").await;
            let claim = handle.tenant().expect("served").claim();
            assert!(claim.epoch > epoch);
            epoch = claim.epoch;
            tokio::time::sleep(LONG).await;
            ask(&handle).await.expect("still served");
            assert_eq!(handle.tenant().expect("served").claim(), claim, "it keeps its claim");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_the_tenant_and_the_directory_recovers_it() {
    let place = Place::new().await;
    let mut acme = place.user("acme").await;
    let before = acme.tenant.upgrade().expect("served").claim();
    place.store.set_available(false);
    let drain = Drain { by: "me".into(), at: Timestamp::default(), gone_by: None, reason: None };
    let worker = "w".parse().expect("a name");
    assert_eq!(acme.handle.drain(worker, Some(drain)).await, Err(AskError::Unavailable));
    acme.is_dropped().await;
    let directory = &place.server.app().directory;
    assert!(!directory.all_ready());
    let handle = place.handle("acme").await;
    assert_eq!(handle.shard(), before.shard, "reading goes on meanwhile");
    assert_eq!(ask(&handle).await, Err(AskError::Unavailable));
    assert_eq!(handle.keyspace().await.err(), Some(AskError::Unavailable));
    tokio::time::sleep(LONG).await;
    assert!(!directory.all_ready(), "the store is still away");

    place.store.set_available(true);
    tokio::time::sleep(super::RECOVERY_EVERY * 2).await;
    assert!(directory.all_ready(), "nobody had to ask");
    let mut again = place.user("acme").await;
    again.is_served().await;
    assert!(again.tenant.upgrade().expect("served").claim().epoch > before.epoch);
}

/// A server on a store that others can claim from.
struct Place {
    _data: TempDir,
    store: Arc<MemoryStore>,
    server: Server,
}

/// One of each that hold something of a tenant.
struct User {
    handle: ShardHandle,
    tenant: Weak<Tenant>,
    keyspace: Weak<TenantKeyspace>,
    reader: Reader,
    link: Told,
    pop: tokio::task::JoinHandle<Result<keyspace::Answer, AskError>>,
}

impl Place {
    async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::default())).await
    }

    async fn on(store: Arc<MemoryStore>) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let options = Options::new(data.path(), "127.0.0.1:0".parse().expect("an address"));
        let server = Server::start_on(Arc::clone(&store) as _, options).await.expect("starts");
        Self { _data: data, store, server }
    }

    async fn handle(&self, name: &str) -> ShardHandle {
        self.server.app().directory.of(&tenant(name)).await.expect("a way to the tenant")
    }

    async fn user(&self, name: &str) -> User {
        let handle = self.handle(name).await;
        ask(&handle).await.expect("served");
        let own = handle.tenant().expect("served");
        own.events.has_ids().await;
        let filter = Filter::new(None, None, None).expect("a filter");
        let reader = own.events.reader(filter, None).expect("room");
        let keyspace = own.keyspace().await.expect("a keyspace");
        let pop = tokio::spawn({
            let handle = handle.clone();
            async move {
                let keyspace = handle.keyspace().await?;
                keyspace.pop_or_wait(operation("blpop"), &words("BLPOP q 0")).await
            }
        });
        while keyspace.load().waiters == 0 {
            tokio::task::yield_now().await;
        }
        let claim = SessionClaim {
            instance_id: "i".into(),
            given_name: "w".into(),
            bound: None,
            resumes: None,
            token_id: None,
            revoked: None,
        };
        let (claimed, link) = handle.claim(LinkId(1), claim).expect("sent");
        claimed.await.expect("granted");
        let (tenant, keyspace) = (Arc::downgrade(&own), Arc::downgrade(&keyspace));
        User { handle, tenant, keyspace, reader, link, pop }
    }

    /// Another server has claimed the tenant; this one finds out when it is asked by an old friend.
    async fn lose_if_owned(&self, name: &str) {
        if let Some(handle) = self.server.app().directory.find(&tenant(name)) {
            let _ = ask(&handle).await;
        }
    }

    /// A turn without facts, under this claim.
    async fn commit(&self, claim: ClaimedShard) -> Result<(), CommitError> {
        let (changes, runs, tenant, documents) = Default::default();
        let turn = Turn { claim, number: 1, changes, runs, tenant, documents };
        self.store.commit(turn).await.map(drop)
    }
}

impl User {
    /// Everyone who waited was told, and nothing of the tenant is left in memory.
    async fn is_dropped(&mut self) {
        assert_eq!(self.reader.next().await, Said::Lost);
        assert!(matches!(self.link.next().await, Heard::Detached));
        assert_eq!((&mut self.pop).await.expect("ends"), Err(AskError::Unavailable));
        // The tasks that were told end a moment later.
        while self.tenant.strong_count() + self.keyspace.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.handle.tenant().err(), Some(AskError::Unavailable));
    }

    async fn is_served(&mut self) {
        ask(&self.handle).await.expect("answered");
        let keyspace = self.keyspace.upgrade().expect("there");
        let push = words("RPUSH q 1");
        let (_, point) = keyspace.execute([(operation("rpush"), &push[..])]).expect("done");
        point.durable().await.expect("kept");
        let popped = (&mut self.pop).await.expect("ends").expect("served");
        assert!(matches!(popped, keyspace::Answer::Popped(_)), "{popped:?}");
        assert!(futures_util::poll!(std::pin::pin!(self.link.next())).is_pending());
        // A heartbeat, at the latest.
        assert!(matches!(self.reader.next().await, Said::Bytes(_)));
    }
}

/// Something that makes a turn.
async fn ask(handle: &ShardHandle) -> Result<(), AskError> {
    handle.report(Vec::new()).await.map(drop)
}

fn tenant(name: &str) -> TenantId {
    name.parse().expect("a name")
}

/// What carries the command of this name out.
fn operation(name: &str) -> keyspace::Operation {
    let spec = crate::REDIS_COMMANDS.iter().find(|spec| spec.name == name);
    spec.and_then(crate::CommandSpec::operation).expect("a command for keys")
}

fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}
