//! What ties a task to its run, as one JSON text in its row.
//!
//! The workflow itself, the outermost step and a node that is no list are the usual case, so they
//! are not written.

use model::{CallLink, LeaseId, NodeLink, RunId, TaskId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkDocument {
    /// The run's id in the store, so that reading it takes no look-up.
    run: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    frame: u32,
    node: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<u32>,
    #[serde(default, skip_serializing_if = "is_outermost")]
    level: u16,
    step_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallDocument>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallDocument {
    task: i64,
    epoch: u32,
    request: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(frame: &u32) -> bool {
    *frame == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_outermost(level: &u16) -> bool {
    *level == 0
}

/// Why a stored link cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("its link is not what was once written: {0}")]
    Document(#[from] serde_json::Error),
    #[error("its link names {0}, which is no run")]
    Run(i64),
    #[error("its link names {0}, which is no task")]
    Task(i64),
}

/// The document of a link.
pub(crate) fn write(link: &NodeLink) -> String {
    let document = LinkDocument {
        run: link.run.to_integer(),
        frame: link.frame,
        node: link.node,
        item: link.item,
        level: link.level,
        step_id: link.step_id,
        call: link.call.as_deref().map(|call| CallDocument {
            task: call.caller.task.to_integer(),
            epoch: call.caller.epoch,
            request: call.request.to_string(),
        }),
    };
    serde_json::to_string(&document).expect("texts and numbers always become JSON")
}

/// The link of a row.
pub(crate) fn read(document: &str) -> Result<NodeLink, LinkError> {
    let document: LinkDocument = serde_json::from_str(document)?;
    let call = document.call.map(CallDocument::link).transpose()?;
    Ok(NodeLink {
        run: RunId::from_integer(document.run).ok_or(LinkError::Run(document.run))?,
        frame: document.frame,
        node: document.node,
        item: document.item,
        level: document.level,
        step_id: document.step_id,
        call: call.map(Box::new),
    })
}

impl CallDocument {
    fn link(self) -> Result<CallLink, LinkError> {
        let task = TaskId::from_integer(self.task).ok_or(LinkError::Task(self.task))?;
        Ok(CallLink { caller: LeaseId { task, epoch: self.epoch }, request: self.request.into() })
    }
}

#[cfg(test)]
mod tests {
    use model::ShardId;

    use super::*;

    fn plain() -> NodeLink {
        NodeLink {
            run: RunId::of(ShardId::new(1).expect("fits"), 41),
            frame: 0,
            node: 0,
            item: None,
            level: 0,
            step_id: Uuid::from_u128(7),
            call: None,
        }
    }

    #[test]
    fn only_what_is_unusual_is_written() {
        let expected =
            r#"{"run":1099511627817,"node":0,"step_id":"00000000-0000-0000-0000-000000000007"}"#;
        assert_eq!(write(&plain()), expected);
        assert_eq!(read(expected).expect("valid"), plain());
    }

    #[test]
    fn every_part_comes_back() {
        let caller =
            LeaseId { task: ShardId::new(ShardId::MAX).expect("fits").last_task(), epoch: 3 };
        let link = NodeLink {
            frame: u32::MAX,
            node: 9,
            item: Some(0),
            level: 2,
            call: Some(Box::new(CallLink { caller, request: "r \"1\" ü".into() })),
            ..plain()
        };
        assert_eq!(read(&write(&link)).expect("valid"), link);
    }

    #[test]
    fn what_was_never_written_is_refused() {
        let valid = write(&plain());
        for (from, to) in [("\"node\"", "\"knot\""), ("1099511627817", "-1"), ("{", "[")] {
            assert!(read(&valid.replace(from, to)).is_err(), "{to}");
        }
    }
}
