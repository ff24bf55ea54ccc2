//! What is durable of a session, so that a worker can resume it after a restart of the server.

use std::time::Duration;

use model::{Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How long a session token is good; every accept hands out a new one.
pub const TOKEN_LIFETIME: Duration = Duration::from_hours(24);
/// How often the renewal of a session's token is made durable, at most.
const RENEWAL_EVERY: Duration = Duration::from_hours(1);

/// A session, as the store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Names the session.
    pub session_id: String,
    /// Whose it is: the identity that survives reconnects and restarts.
    pub instance_id: String,
    /// Which process of it, where the worker says so.
    pub boot_id: Option<String>,
    /// The name under which the coordinator and people know it.
    pub worker: String,
    /// The name that it gave itself.
    pub given_name: String,
    /// The host that it runs on, as it says.
    pub hostname: String,
    /// Its version, as it says.
    pub version: String,
    /// The credential that opened the session; none in dev mode.
    pub token_id: Option<String>,
    /// When the session was opened, in milliseconds since 1970.
    pub accepted_at: u64,
    /// When a resume last renewed its token and wrote so, in milliseconds since 1970. Absent until
    /// the first renewal, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_at: Option<u64>,
    /// How many tasks it executes at a time.
    pub slots: u64,
    /// What it registered.
    pub register: Box<RawValue>,
}

impl SessionRecord {
    /// The worker's name, if it can be one.
    pub fn worker_id(&self) -> Option<WorkerId> {
        self.worker.parse().ok()
    }

    pub(super) fn token_issued_at(&self) -> Timestamp {
        Timestamp::from_millis(self.renewed_at.unwrap_or(self.accepted_at).max(self.accepted_at))
    }

    /// Whether no token of it can be good any more. Tokens are renewed for up to [`RENEWAL_EVERY`]
    /// before that is written down.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.token_issued_at().after(TOKEN_LIFETIME + RENEWAL_EVERY) <= now
    }

    /// Notes that a new token is about to be issued; tells whether that must be written.
    pub(super) fn renew(&mut self, now: Timestamp) -> bool {
        let is_due = now.since(self.token_issued_at()) >= RENEWAL_EVERY;
        if is_due {
            self.renewed_at = Some(now.as_millis());
        }
        is_due
    }
}
