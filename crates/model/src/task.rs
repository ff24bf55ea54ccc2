//! What a person asks for: a task, what it demands of a worker, and how it is retried.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::stored;
use crate::text::{
    AffinityKey, ConcurrencyKey, IdempotencyKey, PackageName, PackageVersion, QueueName, RunName,
    TagKey, TagValue, ToolName, TypeName, WorkerId,
};
use crate::time::Timestamp;
use crate::version;

/// How long a lease lasts without a heartbeat, unless the task says otherwise.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(30);
/// Limit: the shortest lease that a task may ask for: it must outlast a heartbeat on a slow
/// network.
pub const LEASE_TTL_MIN: Duration = Duration::from_millis(100);
/// Limit: the longest lease that a task may ask for: a lost worker is noticed within a day.
pub const LEASE_TTL_MAX: Duration = Duration::from_hours(24);
/// Limit: the longest that one attempt may be given.
pub const TIMEOUT_MAX: Duration = Duration::from_hours(30 * 24);
/// Limit: the longest pause before a retry.
pub const BACKOFF_MAX: Duration = Duration::from_hours(7 * 24);
/// Limit: the most attempts that a task may ask for.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Limit: priorities lie between minus and plus this.
pub const PRIORITY_LIMIT: i16 = 1_000;
/// Limit: tasks that one task may wait for.
pub const AFTER_MAX: usize = 1_000;

/// One version of a node package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRef {
    /// Which package.
    pub name: PackageName,
    /// Exactly this version; or, where a task asks for one that ends in `+`, at least this one.
    pub version: PackageVersion,
}

/// What a version ends in that is the least one.
const OR_NEWER: char = '+';

impl PackageRef {
    /// Whether newer versions are as good.
    pub fn takes_newer(&self) -> bool {
        self.version.as_str().ends_with(OR_NEWER)
    }

    /// Whether a package that a worker has is what this asks for.
    pub fn is_met_by(&self, installed: &Self) -> bool {
        let is_newer = || {
            let (installed, least) = (installed.version.as_str(), self.version.as_str());
            version::compare(installed, least) != Ordering::Less
        };
        self == installed || (self.takes_newer() && self.name == installed.name && is_newer())
    }
}

/// What a worker must offer to be given a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The worker must serve this queue.
    pub queue: QueueName,
    /// The worker must execute this type.
    pub task_type: TypeName,
    /// The worker must have all these tools.
    pub tools: BTreeSet<ToolName>,
    /// The worker must carry all these tags, with these values.
    pub tags: BTreeMap<TagKey, TagValue>,
    /// The worker must have installed this package.
    #[serde(deserialize_with = "Option::deserialize")]
    pub package: Option<PackageRef>,
}

/// When a failed attempt is tried again. The coordinator decides; workers never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// The pause before the second attempt; it doubles with each further one.
    #[serde(rename = "backoff_ms", with = "stored::millis")]
    pub backoff: Duration,
    /// The longest pause.
    #[serde(rename = "backoff_max_ms", with = "stored::millis")]
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_mins(1),
        }
    }
}

/// What tasks of one kind have in common; thousands of tasks share one.
///
/// Stored with every value, also where it is the default: a default may change, and what was asked
/// for must not change with it. An unknown field may be a demand on the worker, so it is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// What it takes to execute the task.
    pub demand: Demand,
    /// Higher goes first.
    pub priority: i16,
    /// How long a lease lasts without a heartbeat.
    #[serde(rename = "lease_ttl_ms", with = "stored::millis")]
    pub lease_ttl: Duration,
    /// The longest that one attempt may take, however alive its worker is.
    #[serde(rename = "timeout_ms", with = "stored::millis_or_null")]
    pub timeout: Option<Duration>,
    /// What happens after a failed attempt.
    pub retry: RetryPolicy,
}

/// Marks a submit, so that a repeated one is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyMark {
    /// The submitter's own name for the task.
    pub key: IdempotencyKey,
    /// A digest of what was asked; the same key with another digest is a conflict.
    pub fingerprint: u64,
}

/// Which worker a task belongs to. An unknown field may be a condition, so it is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pin {
    /// A certain one.
    Worker {
        /// Which worker.
        worker: WorkerId,
        /// Nobody else may have the task. Otherwise others get it when that worker has no room.
        is_hard: bool,
        /// The task fails unless that worker takes it within this time from when it is ready.
        #[serde(rename = "wait_max_ms", with = "stored::millis_or_null")]
        wait_max: Option<Duration>,
        /// Why, for people: the resource that only this worker has.
        because: String,
    },
    /// Whichever had the last task with the same key.
    Key {
        /// Tasks with this key belong together.
        key: AffinityKey,
        /// Nobody else may have the task while that worker is alive. Otherwise others get it when
        /// that worker has no room.
        is_hard: bool,
        /// How long the worker is kept in mind after the last task with the key.
        #[serde(rename = "ttl_ms", with = "stored::millis")]
        ttl: Duration,
    },
}

/// A task that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// What it has in common with others.
    pub spec: Arc<TaskSpec>,
    /// JSON, checked at the door and opaque from there on.
    pub parameters: Bytes,
    /// It does not start before this moment.
    pub not_before: Option<Timestamp>,
    /// At most one task with the same key runs at a time.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// Recognises a repeated submit.
    pub idempotency: Option<IdempotencyMark>,
    /// The run that it belongs to.
    pub run: Option<RunName>,
    /// It does not start before all of these are completed; it fails if one of them does not.
    pub after: Vec<TaskId>,
    /// Which worker it belongs to.
    pub pin: Option<Box<Pin>>,
}
