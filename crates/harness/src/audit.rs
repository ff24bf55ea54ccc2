//! The one audit: what clients and workers were told, against what the store has.
//!
//! A task is *lost* if it was acknowledged, and is missing or has not come to an end that it may
//! have. It is *double* if two of its leases were told COMMITTED. A run without tasks that are lost
//! or double may still have broken a promise: every breach is a violation, in words.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use client::Client;
use model::{LeaseId, TaskId};
use protocol::rest::leases::VerdictWord;
use protocol::rest::tasks::{State, Task};
use serde::Deserialize;
use serde_json::Value;

use crate::ledger::{Books, Ledger};
use crate::test_cluster::TestCluster;
use crate::verdict_log::{self, Verdict};

/// The end of a run that lost three workers in a row at one task.
const UNLUCKY: &str = "E.WORKER.LOST";
const VIOLATIONS_SHOWN: usize = 20;

/// What the audit found, in numbers. What does not fit is in the books as a violation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) committed: usize,
    /// Commits that somebody was told of. Whoever was killed heard less.
    pub(crate) heard: usize,
    pub(crate) superseded: usize,
    pub(crate) lost: usize,
    pub(crate) double: usize,
}

/// Compares every acknowledgement and every verdict with what the store has. Gives the tasks too.
pub(crate) async fn audit(
    cluster: &TestCluster,
    ledger: &Ledger,
) -> Result<(Findings, BTreeMap<TaskId, Task>)> {
    let tasks = cluster.tasks("").await?;
    let mut verdicts = verdict_log::read_all(cluster.folder())?;
    let mut books = ledger.open();
    verdicts.extend(books.told.iter().map(|told| Verdict {
        lease: told.lease,
        word: told.verdict,
        reason: None,
    }));
    Ok((check(&mut books, &tasks, &verdicts), tasks))
}

fn check(books: &mut Books, tasks: &BTreeMap<TaskId, Task>, verdicts: &[Verdict]) -> Findings {
    let mut violations = Vec::new();
    let lost = check_acknowledged(books, tasks, &mut violations);
    check_strangers(books, tasks, &mut violations);
    let double = check_verdicts(verdicts, tasks, &mut violations);
    let committed = tasks.values().filter(|task| task.state == State::Completed).count();
    let heard = verdict_log::count(verdicts, VerdictWord::Committed);
    // An audit that reads no log finds nothing wrong in it.
    if committed > 0 && heard == 0 {
        violations.push(format!("{committed} tasks are completed, and nobody was told of one"));
    }
    books.violations.extend(violations);
    Findings {
        committed,
        heard,
        superseded: verdict_log::count(verdicts, VerdictWord::Cancelled),
        lost,
        double,
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
            State::Dead => books.harmful.contains(id),
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
    let known: BTreeSet<_> = books.acknowledged.values().collect();
    for (id, task) in tasks.iter().filter(|(id, task)| task.run.is_none() && !known.contains(id)) {
        let key = task.idempotency_key.as_deref().unwrap_or("none");
        violations.push(format!("task {id} (key {key}) is there, and no submit was told of it"));
    }
}

/// Each COMMITTED stands: the task completed with that very result, and with no other.
fn check_verdicts(
    verdicts: &[Verdict],
    tasks: &BTreeMap<TaskId, Task>,
    violations: &mut Vec<String>,
) -> usize {
    let mut committed: BTreeMap<TaskId, BTreeSet<LeaseId>> = BTreeMap::new();
    for Verdict { lease, word, reason } in verdicts {
        match word {
            VerdictWord::Committed => {
                committed.entry(lease.task).or_default().insert(*lease);
                let task = tasks.get(&lease.task);
                if task.and_then(stamp) != Some(*lease) {
                    violations
                        .push(format!("{lease} was COMMITTED, but its result is not the task's"));
                }
            }
            VerdictWord::Rejected => {
                let reason = reason.as_deref().unwrap_or("-");
                violations.push(format!("{lease} was REJECTED: {reason}"));
            }
            VerdictWord::Cancelled => {}
        }
    }
    let doubles: Vec<_> = committed.iter().filter(|(_, leases)| leases.len() > 1).collect();
    for (task, leases) in &doubles {
        let leases: Vec<_> = leases.iter().map(ToString::to_string).collect();
        violations.push(format!("task {task} was committed twice: {}", leases.join(", ")));
    }
    doubles.len()
}

/// A result that tells under which lease it came about: a field, or the first line of an output.
#[derive(Deserialize)]
struct Stamp {
    lease_id: Option<String>,
    stdout: Option<String>,
}

/// The lease whose result a completed task has.
pub(crate) fn stamp(task: &Task) -> Option<LeaseId> {
    let result = task.result.as_ref().filter(|_| task.state == State::Completed)?;
    let Stamp { lease_id, stdout } = serde_json::from_str(result.get()).ok()?;
    let first_line = stdout.as_deref().and_then(|text| text.lines().next()?.strip_prefix("lease "));
    lease_id.as_deref().or(first_line)?.parse().ok()
}

#[derive(Deserialize)]
struct Run {
    status: String,
    error: Option<RunError>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct RunError {
    code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    node_id: String,
    status: String,
}

/// Every acknowledged run is there, succeeded, and made so many tasks. Gives how many runs.
pub(crate) async fn audit_runs(client: &Client, ledger: &Ledger, n_tasks: usize) -> Result<usize> {
    let runs = ledger.open().runs.clone();
    for (key, run) in &runs {
        let seen: Run = client
            .get(&format!("/api/v1/runs/{run}"))
            .await
            .with_context(|| format!("run {run} ({key}) was acknowledged and is missing"))?;
        let is_unlucky = seen.error.as_ref().is_some_and(|error| error.code == UNLUCKY);
        if seen.status == "failed" && is_unlucky {
            continue;
        }
        if seen.status != "succeeded" {
            ledger.violation(format!("run {run} ({key}) ended up {}", seen.status));
        }
        for node in seen.nodes.iter().filter(|node| node.status != "succeeded") {
            ledger.violation(format!("run {run}: node {} is {}", node.node_id, node.status));
        }
        let tasks: Value = client.get(&format!("/api/v1/tasks?run={run}&limit=100")).await?;
        let count = tasks["tasks"].as_array().map_or(0, Vec::len);
        if count != n_tasks {
            ledger.violation(format!("run {run} ({key}) made {count} tasks instead of {n_tasks}"));
        }
    }
    Ok(runs.len())
}

/// Names the broken promises; gives how many there are.
pub(crate) fn show(violations: &[String]) -> usize {
    for violation in violations.iter().take(VIOLATIONS_SHOWN) {
        eprintln!("violation: {violation}");
    }
    violations.len()
}

#[cfg(test)]
mod tests {
    use model::ShardId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_without_a_breach_has_no_findings() {
        check(&[(1, State::Completed, 1)], &[(1, 1, VerdictWord::Committed)], &[]);
        let late = [(1, 1, VerdictWord::Cancelled), (1, 2, VerdictWord::Committed)];
        check(&[(1, State::Completed, 2)], &late, &[]);
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
        check(&tasks, &[(1, 1, VerdictWord::Committed)], &["no submit was told of it"]);
    }

    #[test]
    fn a_verdict_that_does_not_stand_is_found() {
        let twice = [(1, 1, VerdictWord::Committed), (1, 2, VerdictWord::Committed)];
        check(&[(1, State::Completed, 2)], &twice, &["is not the task's", "committed twice"]);
        let other = [(1, 1, VerdictWord::Committed)];
        check(&[(1, State::Completed, 2)], &other, &["is not the task's"]);
        check(&[(1, State::Stopped, 1)], &other, &["ended up STOPPED", "is not the task's"]);
        check(
            &[(1, State::Completed, 1)],
            &[(1, 1, VerdictWord::Rejected)],
            &["was REJECTED: not_holder", "nobody was told"],
        );
    }

    #[test]
    fn the_output_of_a_program_may_tell_its_lease() {
        let lease = LeaseId { task: id(1), epoch: 3 };
        let stdout = format!("lease {lease}\nmore\n");
        let told = task(1, State::Completed, &json!({ "stdout": stdout, "stderr": "" }));
        assert_eq!(stamp(&told), Some(lease));
        assert_eq!(stamp(&task(1, State::Completed, &json!({ "stdout": "lease\n" }))), None);
    }

    fn id(number: u64) -> TaskId {
        TaskId::of(ShardId::new(1).expect("fits"), number)
    }

    /// Tasks as (number, state, epoch of the result), verdicts as (number, epoch, word); task 1
    /// was acknowledged.
    fn check(tasks: &[(u64, State, u32)], said: &[(u64, u32, VerdictWord)], expected: &[&str]) {
        let tasks = tasks.iter().map(|(number, state, epoch)| {
            let lease = LeaseId { task: id(*number), epoch: *epoch };
            (lease.task, task(*number, *state, &json!({ "lease_id": lease.to_string() })))
        });
        let mut books = Books::default();
        books.acknowledged.insert("k".into(), id(1));
        let verdicts: Vec<_> = said
            .iter()
            .map(|(number, epoch, word)| Verdict {
                lease: LeaseId { task: id(*number), epoch: *epoch },
                word: *word,
                reason: Some("not_holder".into()),
            })
            .collect();
        super::check(&mut books, &tasks.collect(), &verdicts);
        assert_eq!(books.violations.len(), expected.len(), "{:?}", books.violations);
        for (violation, expected) in books.violations.iter().zip(expected) {
            assert!(violation.contains(expected), "{violation}");
        }
    }

    fn task(number: u64, state: State, result: &Value) -> Task {
        let task = json!({
            "task_id": id(number).to_string(), "type": "core.stamp", "queue": "default",
            "state": state, "priority": 0, "parameters": {}, "created_at": "", "attempt": 1,
            "max_attempts": 3, "result": result,
        });
        serde_json::from_str(&task.to_string()).expect("a task")
    }
}
