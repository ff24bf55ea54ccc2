//! What is counted at the end, from the store and from the workers' own journals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use model::{LeaseId, TaskId};
use protocol::rest::leases::VerdictWord;
use protocol::rest::runs::RunStatus;
use protocol::rest::tasks::TaskPage;
use serde::Serialize;
use worker::client::Client;

use crate::journal::{self, Entry};

const PAGE: usize = 500;

/// The numbers at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tally {
    /// Tasks that the server accepted.
    pub(crate) submitted: usize,
    /// Tasks whose result counts, as the store has it.
    pub(crate) committed: usize,
    /// Results that came too late, as workers heard it.
    pub(crate) superseded: usize,
    /// Tasks that were accepted and have no result that counts.
    pub(crate) lost: usize,
    /// Tasks of which two results were accepted, as workers heard it.
    pub(crate) double: usize,
    /// From the first submit to the last result.
    pub(crate) seconds: f64,
    /// How the workflow at the end fared.
    pub(crate) workflow: RunStatus,
}

pub(super) async fn count(
    client: &Client,
    journals: &Path,
    submitted: &BTreeSet<TaskId>,
    seconds: f64,
) -> Result<Tally> {
    let completed = completed(client).await?;
    let entries = journal::read_all(journals)?;
    let committed = submitted.intersection(&completed).count();
    Ok(Tally {
        submitted: submitted.len(),
        committed,
        superseded: entries.iter().filter(|e| e.verdict == VerdictWord::Cancelled).count(),
        lost: submitted.len() - committed,
        double: doubles(&entries).len(),
        seconds,
        workflow: RunStatus::Queued,
    })
}

async fn completed(client: &Client) -> Result<BTreeSet<TaskId>> {
    let mut ids = BTreeSet::new();
    let start = format!("/api/v1/tasks?state=COMPLETED&limit={PAGE}");
    let mut path = start.clone();
    loop {
        let page: TaskPage = client.get(&path).await?;
        for task in page.tasks {
            ids.insert(task.task_id.parse()?);
        }
        let Some(cursor) = page.next_cursor else { return Ok(ids) };
        path = format!("{start}&cursor={cursor}");
    }
}

/// Tasks that were committed under two different leases.
pub(crate) fn doubles(entries: &[Entry]) -> BTreeMap<TaskId, BTreeSet<LeaseId>> {
    let mut leases: BTreeMap<TaskId, BTreeSet<LeaseId>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.verdict == VerdictWord::Committed) {
        leases.entry(entry.lease.task).or_default().insert(entry.lease);
    }
    leases.retain(|_, leases| leases.len() > 1);
    leases
}

#[cfg(test)]
mod tests {
    use model::ShardId;

    use super::*;

    #[test]
    fn two_leases_of_one_task_are_a_double_and_a_repeated_line_is_not() {
        let entry = |number, epoch, verdict| Entry {
            lease: LeaseId { task: TaskId::of(ShardId::new(1).expect("fits"), number), epoch },
            verdict,
            reason: "-".into(),
        };
        let committed = VerdictWord::Committed;
        let fine = [
            entry(1, 1, committed),
            entry(1, 1, committed),
            entry(2, 1, VerdictWord::Cancelled),
            entry(2, 2, committed),
        ];
        assert!(doubles(&fine).is_empty());
        assert_eq!(doubles(&[entry(1, 1, committed), entry(1, 2, committed)]).len(), 1);
    }
}
