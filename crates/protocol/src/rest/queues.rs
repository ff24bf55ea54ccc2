//! Queues: how many tasks stand where, and for how long.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /queues`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// By name.
    pub queues: Vec<Queue>,
}

/// One queue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub queue: String,
    /// Tasks that may run and are held by no worker.
    pub depth: u64,
    /// The age of the oldest of them; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
