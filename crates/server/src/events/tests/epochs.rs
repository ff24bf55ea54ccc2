//! A shard whose ids of events run low raises its own epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Demand, NewTask, RetryPolicy, TaskSpec, TenantId};
use store::{SqliteStore, Store};

use crate::app::{App, DEFAULT_TENANT, Options, Server};

#[tokio::test]
async fn a_shard_that_used_up_half_of_its_ids_raises_its_epoch_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(SqliteStore::open(folder.path()).expect("opens"));
    let http = "127.0.0.1:0".parse().expect("an address");
    let options = Options { dev: true, ..Options::new(folder.path(), http) };
    let server = Server::start_on(Arc::clone(&store) as _, options).await.expect("starts");
    server.until_ready().await;
    let tenant: TenantId = DEFAULT_TENANT.parse().expect("a name");
    let app = server.app();
    submit(app, &tenant).await;
    let own = app.directory.of(&tenant).await.expect("a shard").tenant().expect("served");
    let (before, events) = (own.claim(), &own.events);
    // One id is left when the next turn tells something.
    events.ring.lock().ids().use_up(1);
    let last = events.last_id();
    for _ in 0..3 {
        submit(app, &tenant).await;
    }
    let after = own.claim();
    assert_eq!((after.shard, after.epoch), (before.shard, before.epoch + 1));
    assert!(events.last_id() > last && !events.wants_epoch());
    let task_page = store::PageQuery { limit: 10, ..store::PageQuery::default() };
    let kept = store.list(after.shard, task_page).await.expect("a page").tasks.len();
    assert_eq!(kept, 4, "nothing was fenced");
    server.stop().await;
}

async fn submit(app: &App, tenant: &TenantId) {
    let handle = app.directory.of(tenant).await.expect("a shard");
    let demand = Demand {
        queue: "default".parse().expect("a name"),
        task_type: "echo".parse().expect("a type"),
        tools: BTreeSet::new(),
        tags: BTreeMap::new(),
        package: None,
    };
    let spec = TaskSpec {
        demand,
        priority: 0,
        lease_ttl: Duration::from_secs(30),
        timeout: None,
        retry: RetryPolicy::default(),
    };
    let task = NewTask {
        spec: Arc::new(spec),
        parameters: Bytes::from_static(b"{}"),
        not_before: None,
        concurrency_key: None,
        idempotency: None,
        run: None,
        after: Vec::new(),
        pin: None,
    };
    handle.submit(vec![task]).await.expect("submitted");
}
