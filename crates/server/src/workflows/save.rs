//! Keeps a new version of a workflow. A draft may have errors: they are told beside, and keep it
//! from running only.

use bytes::Bytes;
use flow::Problem;
use model::TenantId;
use serde::Deserialize;
use serde_json::Value;
use store::{StoreError, WorkflowVersion, WorkflowWrite, WorkflowWritten};
use uuid::Uuid;

use crate::app::App;
use crate::runs::programs::CompileError;

/// A workflow's name, as lists show it, in characters; the rest is cut off.
pub(crate) const WORKFLOW_NAME_CHARS_MAX: usize = 256;
/// What an author says about a version, in characters.
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
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    tenant: &TenantId,
    new: NewVersion,
) -> Result<Saved, SaveError> {
    let Head { id, name } = head(&new.definition)?;
    let checked = app.programs.check(new.definition.clone()).await.map_err(SaveError::Compile)?;
    let write = WorkflowWrite {
        tenant: tenant.clone(),
        id: id.to_string(),
        name,
        base: new.base,
        definition: new.definition,
        hash: checked.hash.clone(),
        author: new.author,
        comment: new.comment,
        at: app.clock.now(),
    };
    match app.store.put_workflow(write).await? {
        WorkflowWritten::Saved(version) | WorkflowWritten::Same(version) => {
            let (id, hash) = (id.to_string(), checked.hash);
            Ok(Saved { id, version, hash, problems: checked.problems })
        }
        WorkflowWritten::Conflict(newest) => Err(SaveError::Conflict { newest }),
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

/// A version of a workflow that is not deleted: the newest, unless a number says which.
pub(crate) async fn find(
    app: &App,
    tenant: &TenantId,
    id: &str,
    version: Option<u64>,
) -> Result<Option<WorkflowVersion>, StoreError> {
    let found = app.store.workflow(tenant.clone(), id.to_owned(), version).await?;
    Ok(found.filter(|kept| kept.deleted_at.is_none()))
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
