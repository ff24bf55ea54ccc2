//! The nouns that every other crate speaks of: ids, time, tasks, offers and reports.
//!
//! Reading order: [`id`], [`text`], [`time`], [`task`], [`link`], [`offer`], [`report`],
//! `json`, [`stored`], [`rng`].
//! Text is checked once, where it becomes one of these types; nothing deeper checks it again.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod id;
mod json;
mod link;
mod offer;
mod report;
mod rng;
pub mod stored;
mod task;
mod text;
mod time;
mod version;
mod word;

pub use id::{InvalidId, LeaseId, RunId, ShardId, TaskId};
pub use json::is_deeper_than;
pub use link::{CallLink, NodeLink};
pub use offer::Offer;
pub use report::{Failure, Report, ReportKey, ReportedOutcome, ResultExtra};
pub use rng::Rng;
pub use task::{
    AFTER_MAX, ATTEMPTS_MAX, BACKOFF_MAX, Demand, IdempotencyMark, LEASE_TTL_DEFAULT,
    LEASE_TTL_MAX, LEASE_TTL_MIN, NewTask, PRIORITY_LIMIT, PackageRef, Pin, RetryPolicy,
    TIMEOUT_MAX, TaskSpec,
};
pub use text::{
    AffinityKey, ConcurrencyKey, IdempotencyKey, InvalidText, PackageName, PackageVersion,
    QueueName, RunName, TagKey, TagValue, TenantId, ToolName, TypeName, WorkerId,
};
pub use time::{InvalidTimestamp, Timestamp};
pub use word::{NodeWord, Overlap, RunWord, StateWord, WorkerHealth};
