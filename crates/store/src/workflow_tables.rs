//! Workflows in plain memory: what every store's rows of them are compared with.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{TenantId, Timestamp};

use crate::contract::{WorkflowVersion, WorkflowWrite, WorkflowWritten};

/// Every workflow, by tenant and id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorkflowTables {
    workflows: BTreeMap<(TenantId, String), Workflow>,
}

/// Its versions, from 1; never empty.
#[derive(Clone, Debug, Default, PartialEq)]
struct Workflow {
    versions: Vec<WorkflowVersion>,
    deleted_at: Option<Timestamp>,
}

/// What the newest version of a workflow is, as far as a write needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest<'a> {
    pub version: u64,
    pub hash: &'a str,
    pub is_deleted: bool,
}

impl WorkflowWrite {
    /// What becomes of the write, before anything is written.
    ///
    /// The hash comes first: who repeats a save whose answer was lost builds on an old version and
    /// shall hear that it is kept. To whoever saves, a deleted workflow is one that is not there;
    /// its numbers go on.
    pub(crate) fn outcome(&self, newest: Option<Newest<'_>>) -> WorkflowWritten {
        let Some(newest) = newest else {
            return match self.base {
                None | Some(0) => WorkflowWritten::Saved(1),
                Some(_) => WorkflowWritten::Conflict(0),
            };
        };
        if !newest.is_deleted && newest.hash == self.hash {
            return WorkflowWritten::Same(newest.version);
        }
        let fits =
            self.base.is_none_or(|base| base == newest.version || (newest.is_deleted && base == 0));
        if fits {
            WorkflowWritten::Saved(newest.version + 1)
        } else {
            WorkflowWritten::Conflict(newest.version)
        }
    }
}

impl WorkflowTables {
    pub(crate) fn put(&mut self, write: WorkflowWrite) -> WorkflowWritten {
        let key = (write.tenant.clone(), write.id.clone());
        let newest = self.workflows.get(&key).and_then(Workflow::newest);
        let written = write.outcome(newest);
        if let WorkflowWritten::Saved(version) = written {
            let workflow = self.workflows.entry(key).or_default();
            workflow.deleted_at = None;
            workflow.versions.push(WorkflowVersion {
                id: write.id,
                name: write.name,
                version,
                definition: write.definition,
                hash: write.hash,
                author: write.author,
                comment: write.comment,
                saved_at: write.at,
                deleted_at: None,
            });
        }
        written
    }

    pub(crate) fn get(
        &self,
        tenant: &TenantId,
        id: &str,
        version: Option<u64>,
    ) -> Option<WorkflowVersion> {
        let workflow = self.of(tenant, id)?;
        let version = match version {
            Some(wanted) => workflow.versions.iter().find(|version| version.version == wanted),
            None => workflow.versions.last(),
        };
        version.map(|version| workflow.shown(version))
    }

    pub(crate) fn page(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Vec<WorkflowVersion> {
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let own = self.workflows.iter().filter(|((owner, id), workflow)| {
            owner == tenant
                && after.is_none_or(|after| id.as_str() > after)
                && workflow.deleted_at.is_none()
        });
        own.filter_map(|(_, workflow)| workflow.versions.last()).take(limit).map(short).collect()
    }

    pub(crate) fn versions(&self, tenant: &TenantId, id: &str) -> Vec<WorkflowVersion> {
        let Some(workflow) = self.of(tenant, id) else { return Vec::new() };
        workflow.versions.iter().rev().map(|version| short(&workflow.shown(version))).collect()
    }

    pub(crate) fn delete(&mut self, tenant: &TenantId, id: &str, at: Timestamp) -> bool {
        let workflow = self.workflows.get_mut(&(tenant.clone(), id.to_owned()));
        let Some(workflow) = workflow.filter(|workflow| workflow.deleted_at.is_none()) else {
            return false;
        };
        workflow.deleted_at = Some(at);
        true
    }

    fn of(&self, tenant: &TenantId, id: &str) -> Option<&Workflow> {
        self.workflows.get(&(tenant.clone(), id.to_owned()))
    }
}

impl Workflow {
    fn newest(&self) -> Option<Newest<'_>> {
        self.versions.last().map(|last| Newest {
            version: last.version,
            hash: &last.hash,
            is_deleted: self.deleted_at.is_some(),
        })
    }

    fn shown(&self, version: &WorkflowVersion) -> WorkflowVersion {
        WorkflowVersion { deleted_at: self.deleted_at, ..version.clone() }
    }
}

/// Without what may be long.
fn short(version: &WorkflowVersion) -> WorkflowVersion {
    WorkflowVersion { definition: Bytes::new(), ..version.clone() }
}
