//! Facts about a run, as a coordinator gives them.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    Change, EndedAttempt, Ending, Lease, NodeEnd, NodeWord, Outcome, Progress, RunAbout, RunChange,
    RunEnd, RunRecord, RunWord, Settlement, SubgraphRecord, TaskRecord, TaskState,
};
use model::{
    Demand, Failure, LEASE_TTL_DEFAULT, LeaseId, NodeLink, ReportKey, ResultExtra, RetryPolicy,
    RunId, TaskId, TaskSpec, Timestamp, WorkerId,
};
use uuid::Uuid;

use super::shard;

pub(super) const AT: Timestamp = Timestamp::from_millis(1_790_000_000_000);

pub(super) fn run(number: u64) -> RunId {
    RunId::of(shard(), number)
}

pub(super) fn task(number: u64) -> TaskId {
    TaskId::of(shard(), number)
}

pub(super) fn lease(number: u64, epoch: u32) -> LeaseId {
    LeaseId { task: task(number), epoch }
}

pub(super) fn worker() -> WorkerId {
    "w1".parse().expect("a name")
}

/// The author's id of the node that the task with this number executes.
pub(super) fn step(number: u64) -> Uuid {
    Uuid::from_u64_pair(0xfeed, number)
}

pub(super) fn started(number: u64, client: Option<&str>) -> RunChange {
    let about = RunAbout { client_id: client.map(str::to_owned), ..RunAbout::default() };
    RunChange::RunStarted(Box::new(RunRecord {
        id: run(number),
        definition: Bytes::new(),
        inputs: Bytes::new(),
        idempotency: None,
        created_at: AT,
        began_at: None,
        about: Arc::new(about),
        end: None,
    }))
}

pub(super) fn ended(number: u64, word: RunWord, failure: Option<Failure>) -> RunChange {
    let node = failure.as_ref().map(|_| step(1).to_string());
    let outputs = Some(Bytes::from_static(b"{}"));
    let end = RunEnd { word, at: AT, node, failure, outputs };
    RunChange::RunSettled { run: run(number), end: Box::new(end) }
}

pub(super) fn node_ended(number: u64, node: u64, word: NodeWord) -> RunChange {
    let result = (word == NodeWord::Succeeded).then(|| Bytes::from_static(b"{\"count\":2}"));
    let failure =
        (word == NodeWord::Failed).then(|| Failure::new("E.FLOW.EXPRESSION", "no such value"));
    let end = NodeEnd { word, at: AT, result, failure, reused: None, fact: None };
    let (frame, place) = (2, 0);
    let (run, step_id) = (run(number), step(node));
    RunChange::NodeEnded { run, frame, node: place, step_id, end: Box::new(end) }
}

/// A subgraph that the run entered through a node.
pub(super) fn opened(number: u64, node: u64, frame: u32, item: Option<u32>) -> RunChange {
    let frame = SubgraphRecord {
        number: frame,
        graph: 1,
        parent: 0,
        node: 0,
        item,
        call: None,
        inputs: Bytes::from_static(b"{}"),
        opened_at: AT,
        fact: None,
    };
    RunChange::SubgraphOpened { run: run(number), step_id: step(node), frame: Box::new(frame) }
}

/// A task of a run, within a subgraph.
pub(super) fn submitted_within(number: u64, of: u64, frame: u32) -> Change {
    let mut change = submitted(number, Some(of));
    if let Change::TaskSubmitted(record) = &mut change
        && let Some(link) = &mut record.link
    {
        Arc::make_mut(link).frame = frame;
    }
    change
}

/// A task, of a run or of none.
pub(super) fn submitted(number: u64, of: Option<u64>) -> Change {
    let link = of.map(|of| {
        Arc::new(NodeLink {
            run: run(of),
            frame: 0,
            node: 0,
            item: None,
            level: 0,
            step_id: step(number),
            call: None,
        })
    });
    let spec = TaskSpec {
        demand: Demand {
            queue: "default".parse().expect("valid"),
            task_type: "core.noop".parse().expect("valid"),
            tools: [].into(),
            tags: [].into(),
            package: None,
        },
        priority: 0,
        lease_ttl: LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    };
    Change::TaskSubmitted(Box::new(TaskRecord {
        id: task(number),
        spec: Arc::new(spec),
        parameters: Bytes::from_static(b"{}"),
        created_at: AT,
        concurrency_key: None,
        idempotency: None,
        run: None,
        after: Vec::new(),
        link,
        facts: coordinator::TaskFacts::default(),
        pin: None,
        progress: progress(TaskState::Ready, 0),
        ended_attempts: Vec::new(),
    }))
}

fn progress(state: TaskState, epoch: u32) -> Progress {
    Progress { state, attempt: epoch, epoch, losses: 0 }
}

pub(super) fn granted(number: u64, epoch: u32, confirm: bool) -> Change {
    let lease = Lease {
        holder: worker(),
        granted_at: AT,
        expires_at: AT,
        attempt_ends_at: None,
        confirm_by: confirm.then_some(AT),
        is_doubtful: false,
    };
    let progress = progress(TaskState::Leased(lease), epoch);
    Change::LeaseGranted { task: task(number), progress, fact: None }
}

pub(super) fn failed_attempt(number: u64, epoch: u32) -> Change {
    let failure = Failure::new("E.RUNNER.FAILURE", "no luck");
    let ending = Ending::Failed { report: ReportKey(1), failure };
    let attempt = EndedAttempt { epoch, worker: worker(), at: AT, ending };
    Change::AttemptEnded {
        task: task(number),
        attempt,
        progress: progress(TaskState::Ready, epoch),
    }
}

pub(super) fn completed(number: u64, result: &str, artifacts: Option<&str>) -> Change {
    let extra = artifacts.map(|artifacts| {
        let artifacts = Some(Bytes::from(artifacts.to_owned()));
        Box::new(ResultExtra { is_skipped: false, artifacts })
    });
    settled(number, Outcome::Completed, Some(result), extra)
}

pub(super) fn settled(
    number: u64,
    outcome: Outcome,
    result: Option<&str>,
    extra: Option<Box<ResultExtra>>,
) -> Change {
    let is_failure = matches!(outcome, Outcome::Failed | Outcome::Dead);
    let settlement = Settlement {
        outcome,
        at: AT,
        holder: Some(worker()),
        granted_at: Some(AT),
        report: None,
        result: result.map(|result| Bytes::from(result.to_owned())),
        failure: is_failure.then(|| Failure::new("E.RUNNER.FAILURE", "no luck")),
        extra,
    };
    let progress = progress(TaskState::Settled(Box::new(settlement)), 1);
    Change::TaskSettled { task: task(number), attempt: None, progress, fact: None }
}
