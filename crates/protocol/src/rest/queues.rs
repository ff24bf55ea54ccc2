//! Queues: how many tasks stand where, and for how long.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::tasks::Task;

/// `GET /queues`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// By name.
    pub queues: Vec<Queue>,
}

/// One queue.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub queue: String,
    /// Tasks that may run and are held by no worker.
    pub depth: u64,
    /// The age of the oldest of them; absent when there is none.
    pub oldest_age_ms: Option<u64>,
    /// Tasks held by workers.
    pub in_flight: u64,
    /// Tasks that wait for their next attempt.
    pub retries_due: u64,
    /// Tasks that wait for the moment that their submitter chose.
    pub scheduled: u64,
    /// Tasks that wait for other tasks.
    #[serde(default)]
    pub blocked: u64,
    /// Tasks that ran out of attempts.
    pub dead: u64,
    /// Present while nothing of it is granted.
    pub paused: Option<QueuePause>,
}

/// Who paused a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuePause {
    /// Who said so.
    pub by: String,
    /// Since when.
    pub since: String,
}

/// `GET /queues/{queue}/tasks`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct QueuedTasks {
    /// The queue.
    pub queue: String,
    /// Tasks that may run, in the order in which workers get them.
    pub tasks: Vec<Task>,
    /// How many there are, on all pages.
    pub total: u64,
    /// Present while nothing of it is granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<QueuePause>,
}

/// `POST /queues/{queue}/requeue`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequeueQueue {
    /// FAILED tasks too, beside the DEAD ones. Default `false`.
    #[serde(default)]
    pub failed: bool,
    /// At most so many, 1 to 1000. Default 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

/// The answer to `POST /queues/{queue}/requeue`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequeuedQueue {
    /// The queue.
    pub queue: String,
    /// Tasks that are in it again, with fresh attempts.
    pub requeued: u64,
    /// DEAD tasks that are left.
    pub dead: u64,
    /// Whether another call finds more of what was asked for.
    pub more: bool,
}

/// `POST /queues/{queue}/purge`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeQueue {
    /// WAITING and RETRYING tasks too, beside the QUEUED ones. Default `false`.
    #[serde(default)]
    pub waiting: bool,
    /// At most so many, 1 to 1000. Default 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

/// The answer to `POST /queues/{queue}/purge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PurgedQueue {
    /// The queue.
    pub queue: String,
    /// Tasks that are STOPPED now. `requeue` of each brings it back.
    pub stopped: u64,
    /// QUEUED tasks that are left.
    pub depth: u64,
    /// Whether another call finds more of what was asked for.
    pub more: bool,
}
