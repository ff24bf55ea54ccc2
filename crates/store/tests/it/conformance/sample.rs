//! Tasks to play with.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{Change, Lease, Outcome, Progress, Settlement, TaskFacts, TaskRecord, TaskState};
use model::{
    Demand, LEASE_TTL_DEFAULT, PackageRef, ReportKey, RetryPolicy, TaskId, TaskSpec, TenantId,
    Timestamp, WorkerId,
};

/// A tenant by its name.
pub(crate) fn tenant(name: &str) -> TenantId {
    name.parse().expect("a valid name")
}

pub(crate) fn worker(number: u64) -> WorkerId {
    format!("worker-{number}").parse().expect("a valid name")
}

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + second * 1_000)
}

/// A plain task.
pub(crate) fn submitted(task: TaskId) -> Change {
    Change::TaskSubmitted(Box::new(TaskRecord {
        id: task,
        spec: specs()[0].clone(),
        parameters: Bytes::from_static(b"{}"),
        created_at: at(0),
        concurrency_key: None,
        idempotency: None,
        run: None,
        after: Vec::new(),
        link: None,
        facts: TaskFacts::default(),
        pin: None,
        progress: Progress { state: TaskState::Ready, attempt: 0, epoch: 0, losses: 0 },
        ended_attempts: Vec::new(),
    }))
}

/// Its lease with this epoch.
pub(crate) fn granted(task: TaskId, epoch: u32) -> Change {
    let lease = Lease {
        holder: worker(1),
        granted_at: at(1),
        expires_at: at(31),
        attempt_ends_at: None,
        confirm_by: None,
        is_doubtful: true,
    };
    let state = TaskState::Leased(lease);
    let progress = Progress { state, attempt: epoch, epoch, losses: 0 };
    Change::LeaseGranted { task, progress, fact: None }
}

/// Its end under the lease with this epoch.
pub(crate) fn settled(task: TaskId, epoch: u32) -> Change {
    let settlement = Settlement {
        outcome: Outcome::Completed,
        at: at(2),
        holder: Some(worker(1)),
        granted_at: Some(at(1)),
        report: Some(ReportKey(u128::from(epoch) << 100)),
        result: Some(Bytes::from_static(b"{\"sum\": 42}")),
        failure: None,
        extra: None,
    };
    let state = TaskState::Settled(Box::new(settlement));
    Change::TaskSettled {
        task,
        attempt: None,
        progress: Progress { state, attempt: epoch, epoch, losses: 0 },
        fact: None,
    }
}

/// A few kinds of task: the plain one first, then one with every part set.
pub(crate) fn specs() -> Vec<Arc<TaskSpec>> {
    let plain = TaskSpec {
        demand: Demand {
            queue: "default".parse().expect("valid"),
            task_type: "echo".parse().expect("valid"),
            tools: [].into(),
            tags: [].into(),
            package: None,
        },
        priority: 0,
        lease_ttl: LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    };
    let mut full = plain.clone();
    full.demand.queue = "nightly".parse().expect("valid");
    full.demand.tools = ["jq", "sort"].map(|tool| tool.parse().expect("valid")).into();
    full.demand.tags = [("zone".parse().expect("valid"), "ö".parse().expect("valid"))].into();
    full.demand.package = Some(PackageRef {
        name: "maths".parse().expect("valid"),
        version: "1.0.0".parse().expect("valid"),
    });
    full.priority = -7;
    full.lease_ttl = Duration::from_millis(2_500);
    full.timeout = Some(Duration::from_secs(90));
    full.retry = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
    let mut other_type = plain.clone();
    other_type.demand.task_type = "maths/add".parse().expect("valid");
    let mut urgent = plain.clone();
    urgent.priority = 9;
    [plain, full, other_type, urgent].map(Arc::new).into()
}
