//! Short stories about workflows that people save, one per promise.

use std::sync::Arc;

use bytes::Bytes;

use super::sample::{at, tenant};
use crate::contract::{Store, WorkflowVersion, WorkflowWrite, WorkflowWritten};

/// Puts a store through every promise about workflows. `open` gives a fresh, empty store each
/// time; `reopen` closes a store and opens it again with what it kept.
pub async fn exercise_workflows(
    open: impl AsyncFn() -> Arc<dyn Store>,
    reopen: impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    versions_are_kept_as_authored(open().await, &reopen).await;
    a_save_builds_on_the_newest_version(open().await).await;
    a_deleted_workflow_is_hidden_and_comes_back(open().await, &reopen).await;
    a_tenants_workflows_are_its_own(open().await).await;
    pages_follow_the_ids(open().await).await;
}

/// A version whose definition says `word`.
fn write(id: &str, base: Option<u64>, word: &str) -> WorkflowWrite {
    WorkflowWrite {
        tenant: tenant("acme"),
        id: id.into(),
        name: format!("{id} ü"),
        base,
        definition: Bytes::from(format!("{{ \"word\":\t\"{word}\" }}")),
        hash: format!("hash of {word}"),
        author: "a person".into(),
        comment: (word.len() > 1).then(|| "a long word".into()),
        at: at(u64::try_from(word.len()).expect("small")),
    }
}

async fn put(store: &Arc<dyn Store>, write: WorkflowWrite) -> WorkflowWritten {
    store.put_workflow(write).await.expect("answers")
}

async fn get(store: &Arc<dyn Store>, id: &str, version: Option<u64>) -> Option<WorkflowVersion> {
    store.workflow(tenant("acme"), id.into(), version).await.expect("reads")
}

async fn page(store: &Arc<dyn Store>, after: Option<&str>, limit: u32) -> Vec<String> {
    let page = store.workflows(tenant("acme"), after.map(Into::into), limit).await;
    page.expect("lists").into_iter().map(|version| version.id).collect()
}

async fn versions_are_kept_as_authored(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let (first, second) = (write("a", None, "x"), write("a", Some(1), "yy"));
    assert_eq!(put(&store, first.clone()).await, WorkflowWritten::Saved(1));
    assert_eq!(put(&store, second.clone()).await, WorkflowWritten::Saved(2));
    let store = reopen(store).await;
    for (version, written) in [(1, first), (2, second)] {
        let expected = WorkflowVersion {
            id: written.id,
            name: written.name,
            version,
            definition: written.definition,
            hash: written.hash,
            author: written.author,
            comment: written.comment,
            saved_at: written.at,
            deleted_at: None,
        };
        assert_eq!(get(&store, "a", Some(version)).await, Some(expected));
    }
    assert_eq!(get(&store, "a", None).await, get(&store, "a", Some(2)).await);
    assert_eq!(get(&store, "a", Some(3)).await, None);
    let list = store.workflow_versions(tenant("acme"), "a".into()).await.expect("lists");
    let list: Vec<_> = list.iter().map(|one| (one.version, one.definition.len())).collect();
    assert_eq!(list, [(2, 0), (1, 0)], "newest first, without definitions");
}

async fn a_save_builds_on_the_newest_version(store: Arc<dyn Store>) {
    for (base, word, expected) in [
        (Some(1), "x", WorkflowWritten::Conflict(0)),
        (Some(0), "x", WorkflowWritten::Saved(1)),
        (Some(0), "y", WorkflowWritten::Conflict(1)),
        (Some(1), "y", WorkflowWritten::Saved(2)),
        (Some(1), "z", WorkflowWritten::Conflict(2)),
        (Some(3), "z", WorkflowWritten::Conflict(2)),
        (None, "z", WorkflowWritten::Saved(3)),
        (Some(3), "z", WorkflowWritten::Same(3)),
        // A save whose answer was lost is repeated.
        (Some(2), "z", WorkflowWritten::Same(3)),
        // Back to an older text is a new version.
        (Some(3), "x", WorkflowWritten::Saved(4)),
    ] {
        assert_eq!(put(&store, write("a", base, word)).await, expected, "{base:?} {word}");
    }
    let list = store.workflow_versions(tenant("acme"), "a".into()).await.expect("lists");
    assert_eq!(list.len(), 4, "what was refused is not kept");
}

async fn a_deleted_workflow_is_hidden_and_comes_back(
    store: Arc<dyn Store>,
    reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    let delete = async |store: &Arc<dyn Store>, second| {
        store.delete_workflow(tenant("acme"), "a".into(), at(second)).await.expect("answers")
    };
    assert!(!delete(&store, 1).await, "there is none");
    put(&store, write("a", None, "x")).await;
    assert!(delete(&store, 2).await);
    assert!(!delete(&store, 3).await, "it is gone");
    let store = reopen(store).await;
    assert_eq!(page(&store, None, 10).await, [""; 0]);
    let hidden = get(&store, "a", None).await.expect("its versions stay");
    assert_eq!((hidden.version, hidden.deleted_at), (1, Some(at(2))));
    let list = store.workflow_versions(tenant("acme"), "a".into()).await.expect("lists");
    assert_eq!(list[0].deleted_at, Some(at(2)));

    // The same text again is a version all the same: it says that the workflow came back.
    assert_eq!(put(&store, write("a", Some(0), "x")).await, WorkflowWritten::Saved(2));
    assert_eq!(get(&store, "a", Some(1)).await.expect("it is back").deleted_at, None);
    assert_eq!(page(&store, None, 10).await, ["a"]);
    assert!(delete(&store, 4).await);
    assert_eq!(put(&store, write("a", Some(1), "y")).await, WorkflowWritten::Conflict(2));
    assert_eq!(put(&store, write("a", Some(2), "y")).await, WorkflowWritten::Saved(3));
}

async fn a_tenants_workflows_are_its_own(store: Arc<dyn Store>) {
    put(&store, write("a", None, "x")).await;
    let theirs = WorkflowWrite { tenant: tenant("bolt"), ..write("a", Some(0), "y") };
    assert_eq!(put(&store, theirs).await, WorkflowWritten::Saved(1));
    assert_eq!(get(&store, "a", None).await.expect("there").hash, "hash of x");
    assert!(store.delete_workflow(tenant("bolt"), "a".into(), at(1)).await.expect("answers"));
    assert_eq!(page(&store, None, 10).await, ["a"]);
}

async fn pages_follow_the_ids(store: Arc<dyn Store>) {
    for id in ["d", "b", "a", "c"] {
        put(&store, write(id, None, "x")).await;
        put(&store, write(id, None, "y")).await;
    }
    store.delete_workflow(tenant("acme"), "c".into(), at(1)).await.expect("answers");
    assert_eq!(page(&store, None, 2).await, ["a", "b"]);
    assert_eq!(page(&store, Some("b"), 2).await, ["d"]);
    assert_eq!(page(&store, Some("aa"), 0).await, ["b"], "a page holds at least one");
    assert_eq!(page(&store, Some("d"), 2).await, [""; 0]);
    let newest = store.workflows(tenant("acme"), None, 1).await.expect("lists").remove(0);
    assert_eq!((newest.version, newest.definition.len()), (2, 0), "the newest, without its text");
}
