//! Keeps a new version of a workflow. A draft may have errors: they are told beside, and keep it
//! from running only.

use bytes::Bytes;
use flow::Problem;
use model::ShardId;
use serde::Deserialize;
use serde_json::Value;
use shard::DocumentKind;
use shard::documents::{Entry, NewDocument, WORKFLOWS_MAX, WorkflowHead, Written};
use store::{DocumentVersion, Store, StoreError};
use uuid::Uuid;

use crate::app::App;
use crate::handle::{AskError, ShardHandle};
use crate::runs::programs::CompileError;

/// Limit: a workflow's name, as lists show it, in characters; the rest is cut off.
const WORKFLOW_NAME_CHARS_MAX: usize = 256;
/// Limit: a comment on a version.
pub(crate) const COMMENT_CHARS_MAX: usize = 1_024;

/// A version that someone wants to keep.
pub(crate) struct NewVersion {
    /// The workflow, as authored.
    pub(crate) definition: Bytes,
    /// The version that it builds on; `None` takes what is there.
    pub(crate) base: Option<u64>,
    /// Who saves it.
    pub(crate) author: String,
    /// What changed, in the author's words.
    pub(crate) comment: Option<String>,
}

/// A version that is kept.
pub(crate) struct Saved {
    /// The workflow's id.
    pub(crate) id: String,
    /// The version.
    pub(crate) version: u64,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub(crate) hash: String,
    /// What keeps it from running, and what is odd about it.
    pub(crate) problems: Vec<Problem>,
}

/// Why nothing is kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    /// It is not even an object with an id.
    #[error("{0}")]
    NoWorkflow(&'static str),
    /// Another version came first.
    #[error("{}", conflict_words(*.newest))]
    Conflict {
        /// The newest version; 0 when there is none.
        newest: u64,
    },
    /// The compiler ended before its answer.
    #[error(transparent)]
    Compile(CompileError),
    /// There are too many.
    #[error("{WORKFLOWS_MAX} workflows are kept already")]
    Full,
    /// The shard did not answer.
    #[error(transparent)]
    Ask(#[from] AskError),
}

fn conflict_words(newest: u64) -> String {
    match newest {
        0 => "there is no such workflow to build on".to_owned(),
        newest => format!("the newest version is {newest}"),
    }
}

/// Keeps a version. The same workflow again makes no new one.
pub(crate) async fn save(
    app: &App,
    handle: &ShardHandle,
    new: NewVersion,
) -> Result<Saved, SaveError> {
    let Head { id, name } = head(&new.definition)?;
    let checking = app.programs.check(handle.shard(), new.definition.clone());
    let checked = checking.await.map_err(SaveError::Compile)?;
    let (id, base, hash) = (id.to_string(), new.base, checked.hash);
    let document = NewDocument {
        hash: hash.clone(),
        by: new.author,
        at_ms: app.clock.now().as_millis(),
        head: WorkflowHead { name, comment: new.comment },
        body: new.definition,
    };
    let key = id.clone();
    match handle.change(move |documents| documents.workflows.put(&key, base, document)).await? {
        Written::Saved(version) | Written::Same(version) => {
            Ok(Saved { id, version, hash, problems: checked.problems })
        }
        Written::Conflict(newest) => Err(SaveError::Conflict { newest }),
        // The doors take no definition that is too long.
        Written::Full | Written::TooLarge(_) => Err(SaveError::Full),
    }
}

/// The least that a workflow says about itself.
struct Head {
    id: Uuid,
    name: String,
}

fn head(definition: &[u8]) -> Result<Head, SaveError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        id: Value,
        #[serde(default)]
        metadata: Value,
    }
    let wire: Wire = serde_json::from_slice(definition)
        .map_err(|_| SaveError::NoWorkflow("the workflow is not an object"))?;
    let id = wire.id.as_str().and_then(|id| Uuid::try_parse(id).ok());
    let id = id.ok_or(SaveError::NoWorkflow("id must be a UUID"))?;
    let name = wire.metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    Ok(Head { id, name: name.chars().take(WORKFLOW_NAME_CHARS_MAX).collect() })
}

/// A version of a workflow that is kept.
pub(crate) struct KeptVersion {
    /// What is known of it without its definition.
    pub(crate) entry: Entry<WorkflowHead>,
    /// As authored; empty in lists.
    pub(crate) definition: Bytes,
    /// Whether the workflow was deleted since.
    pub(crate) is_deleted: bool,
}

impl KeptVersion {
    fn read(id: &str, stored: DocumentVersion) -> Result<Self, StoreError> {
        let read = |json: &str| {
            let damaged = || StoreError::Damaged(format!("workflow {id}"));
            Entry::<WorkflowHead>::read(json).ok_or_else(damaged)
        };
        let is_deleted = read(&stored.newest)?.hidden_ms.is_some();
        Ok(Self { entry: read(&stored.json)?, definition: stored.body, is_deleted })
    }
}

/// A version of a workflow, the newest unless a number says which; also of a deleted one.
pub(crate) async fn any_version(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<KeptVersion>, StoreError> {
    let read = store.document_version(shard, DocumentKind::Workflow, id.to_owned(), version);
    read.await?.map(|stored| KeptVersion::read(id, stored)).transpose()
}

/// The same, unless the workflow is deleted.
pub(crate) async fn find(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<KeptVersion>, StoreError> {
    Ok(any_version(store, shard, id, version).await?.filter(|kept| !kept.is_deleted))
}

/// Every version of a workflow that is not deleted, newest first, without definitions.
pub(crate) async fn versions(
    store: &dyn Store,
    shard: ShardId,
    id: &str,
) -> Result<Vec<KeptVersion>, StoreError> {
    let stored = store.document_versions(shard, DocumentKind::Workflow, id.to_owned()).await?;
    let mut versions = Vec::with_capacity(stored.len());
    for stored in stored {
        versions.push(KeptVersion::read(id, stored)?);
    }
    versions.retain(|version| !version.is_deleted);
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_has_an_id_at_least() {
        let read = |text: &str| head(text.as_bytes()).map(|head| (head.id.to_string(), head.name));
        let id = "ba55c67a-9ad4-4b6f-a719-b84e774c2d11";
        let whole = format!(r#"{{"id":"{}","metadata":{{"name":"Smoke"}}}}"#, id.to_uppercase());
        assert_eq!(read(&whole).ok(), Some((id.to_owned(), "Smoke".to_owned())));
        let bare = format!(r#"{{"id":"{id}","metadata":7}}"#);
        assert_eq!(read(&bare).ok(), Some((id.to_owned(), String::new())));
        for wrong in ["[]", "7", "{}", r#"{"id":7}"#, r#"{"id":"smoke"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
