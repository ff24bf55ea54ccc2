//! The books against the store.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use model::{LeaseId, TaskId};
use protocol::rest::leases::VerdictWord;
use protocol::rest::tasks::{State, Task, TaskPage};
use serde::Deserialize;
use worker::client::Client;

use super::flows;
use super::ledger::{Books, Ledger};
use crate::demo::doubles;
use crate::journal::{self, Entry};

const PAGE: usize = 200;

/// What the audit found, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Findings {
    pub(super) committed: usize,
    pub(super) superseded: usize,
    pub(super) lost: usize,
    pub(super) double: usize,
    pub(super) runs: usize,
}

/// Compares every acknowledgement and every verdict with what the store has. What does not fit
/// becomes a violation.
pub(super) async fn audit(client: &Client, journals: &Path, ledger: &Ledger) -> Result<Findings> {
    let tasks = all_tasks(client).await?;
    let runs = flows::audit(client, ledger).await?;
    let mut entries = journal::read_all(journals)?;
    let mut books = ledger.open();
    entries.extend(books.told.iter().map(|told| Entry {
        lease: told.lease,
        verdict: told.verdict,
        reason: "-".into(),
    }));

    let mut violations = Vec::new();
    let lost = check_acknowledged(&books, &tasks, &mut violations);
    check_strangers(&books, &tasks, &mut violations);
    let double = check_verdicts(&entries, &tasks, &mut violations);
    books.violations.extend(violations);
    Ok(Findings {
        committed: tasks.values().filter(|task| task.state == State::Completed).count(),
        superseded: entries.iter().filter(|e| e.verdict == VerdictWord::Cancelled).count(),
        lost,
        double,
        runs,
    })
}

async fn all_tasks(client: &Client) -> Result<BTreeMap<TaskId, Task>> {
    let mut tasks = BTreeMap::new();
    let mut path = format!("/api/v1/tasks?limit={PAGE}");
    loop {
        let page: TaskPage = client.get(&path).await?;
        for task in page.tasks {
            tasks.insert(task.task_id.parse()?, task);
        }
        let Some(cursor) = page.next_cursor else { return Ok(tasks) };
        path = format!("/api/v1/tasks?limit={PAGE}&cursor={cursor}");
    }
}

/// Everything acknowledged is there, and has come to the end that it should have.
fn check_acknowledged(
    books: &Books,
    tasks: &BTreeMap<TaskId, Task>,
    violations: &mut Vec<String>,
) -> usize {
    let mut lost = 0;
    for (key, id) in &books.acknowledged {
        let Some(task) = tasks.get(id) else {
            lost += 1;
            violations.push(format!("task {id} ({key}) was acknowledged and is missing"));
            continue;
        };
        let fits = match task.state {
            State::Completed => !books.stopped.contains(id),
            State::Stopped => books.stop_asked.contains(id),
            State::Dead => books.crashing.contains(id),
            State::Waiting | State::Queued | State::Retrying | State::Running | State::Failed => {
                false
            }
        };
        if !fits {
            lost += 1;
            violations.push(format!("task {id} ({key}) ended up {}", task.state.word()));
        }
    }
    lost
}

/// Every submit was repeated until it was answered, so each task was acknowledged under a key.
fn check_strangers(books: &Books, tasks: &BTreeMap<TaskId, Task>, violations: &mut Vec<String>) {
    let known: std::collections::BTreeSet<_> = books.acknowledged.values().collect();
    for (id, task) in tasks.iter().filter(|(id, task)| task.run.is_none() && !known.contains(id)) {
        let key = task.idempotency_key.as_deref().unwrap_or("none");
        violations.push(format!("task {id} (key {key}) is there, and no submit was told of it"));
    }
}

/// Each COMMITTED stands: the task completed with that very result, and with no other.
fn check_verdicts(
    entries: &[Entry],
    tasks: &BTreeMap<TaskId, Task>,
    violations: &mut Vec<String>,
) -> usize {
    let doubles = doubles(entries);
    for (task, leases) in &doubles {
        let leases: Vec<_> = leases.iter().map(ToString::to_string).collect();
        violations.push(format!("task {task} was committed twice: {}", leases.join(", ")));
    }
    for entry in entries {
        match entry.verdict {
            VerdictWord::Committed if !has_result_of(tasks.get(&entry.lease.task), entry.lease) => {
                let lease = entry.lease;
                violations.push(format!("{lease} was COMMITTED, but its result is not the task's"));
            }
            VerdictWord::Rejected => {
                violations.push(format!("{} was REJECTED: {}", entry.lease, entry.reason));
            }
            VerdictWord::Committed | VerdictWord::Cancelled => {}
        }
    }
    doubles.len()
}

#[derive(Deserialize)]
struct Stamp {
    lease_id: String,
}

fn has_result_of(task: Option<&Task>, lease: LeaseId) -> bool {
    let Some(task) = task.filter(|task| task.state == State::Completed) else { return false };
    let result = task.result.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
    result.is_some_and(|stamp: Stamp| stamp.lease_id == lease.to_string())
}

#[cfg(test)]
mod tests {
    use model::ShardId;

    use super::*;

    #[test]
    fn a_run_without_a_breach_has_no_findings() {
        check(&[(1, State::Completed, 1)], &[(1, 1, VerdictWord::Committed)], &[]);
        check(&[(1, State::Completed, 2)], &[(1, 1, VerdictWord::Cancelled)], &[]);
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_found() {
        check(&[], &[], &["was acknowledged and is missing"]);
        check(&[(1, State::Queued, 1)], &[], &["ended up QUEUED"]);
        check(&[(1, State::Dead, 1)], &[], &["ended up DEAD"]);
    }

    #[test]
    fn a_task_that_nobody_was_told_of_is_found() {
        let tasks = [(1, State::Completed, 1), (2, State::Completed, 1)];
        check(&tasks, &[], &["no submit was told of it"]);
    }

    #[test]
    fn a_verdict_that_does_not_stand_is_found() {
        let twice = [(1, 1, VerdictWord::Committed), (1, 2, VerdictWord::Committed)];
        check(&[(1, State::Completed, 2)], &twice, &["committed twice", "is not the task's"]);
        let other = [(1, 1, VerdictWord::Committed)];
        check(&[(1, State::Completed, 2)], &other, &["is not the task's"]);
        check(&[(1, State::Stopped, 1)], &other, &["ended up STOPPED", "is not the task's"]);
        check(
            &[(1, State::Completed, 1)],
            &[(1, 1, VerdictWord::Rejected)],
            &["was REJECTED: not_holder"],
        );
    }

    fn id(number: u64) -> TaskId {
        TaskId::of(ShardId::new(1).expect("fits"), number)
    }

    /// Tasks as (number, state, epoch of the result), verdicts as (number, epoch, word); task 1
    /// was acknowledged.
    fn check(tasks: &[(u64, State, u32)], said: &[(u64, u32, VerdictWord)], expected: &[&str]) {
        let tasks = tasks.iter().map(|(number, state, epoch)| {
            let lease_id = LeaseId { task: id(*number), epoch: *epoch }.to_string();
            let task = serde_json::json!({
                "task_id": id(*number).to_string(), "type": "core.stamp", "queue": "default",
                "state": state, "priority": 0, "parameters": {}, "created_at": "", "attempt": 1,
                "max_attempts": 3, "result": { "lease_id": lease_id },
            });
            (id(*number), serde_json::from_str(&task.to_string()).expect("a task"))
        });
        let tasks = tasks.collect();
        let mut books = Books::default();
        books.acknowledged.insert("k".into(), id(1));
        let entries: Vec<_> = said
            .iter()
            .map(|(number, epoch, verdict)| Entry {
                lease: LeaseId { task: id(*number), epoch: *epoch },
                verdict: *verdict,
                reason: "not_holder".into(),
            })
            .collect();
        let mut violations = Vec::new();
        check_acknowledged(&books, &tasks, &mut violations);
        check_strangers(&books, &tasks, &mut violations);
        check_verdicts(&entries, &tasks, &mut violations);
        assert_eq!(violations.len(), expected.len(), "{violations:?}");
        for (violation, expected) in violations.iter().zip(expected) {
            assert!(violation.contains(expected), "{violation}");
        }
    }
}
