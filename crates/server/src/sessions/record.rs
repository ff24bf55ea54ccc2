//! What is durable of a session, so that a worker can resume it after a restart of the server.

use std::time::Duration;

use model::{Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::{Note, NoteKind};

/// How long a session can be resumed after it was accepted.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_hours(24);

/// A session, as the store keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// Names the session.
    pub(crate) session_id: String,
    /// Whose it is: the identity that survives reconnects and restarts.
    pub(crate) instance_id: String,
    /// Which process of it, where the worker says so.
    pub(crate) boot_id: Option<String>,
    /// The name under which the coordinator and people know it.
    pub(crate) worker: String,
    /// The name that it gave itself.
    pub(crate) given_name: String,
    /// Where it runs, by its own word.
    pub(crate) hostname: String,
    /// Its version, by its own word.
    pub(crate) version: String,
    /// The credential that opened the session; none in dev mode.
    pub(crate) token_id: Option<String>,
    /// When the session was opened, in milliseconds since 1970.
    pub(crate) accepted_at: u64,
    /// How many tasks it executes at a time.
    pub(crate) slots: u64,
    /// What it registered.
    pub(crate) register: Box<RawValue>,
}

impl SessionRecord {
    pub(crate) fn to_note(&self, tenant: &str) -> Note {
        let json = serde_json::to_string(self).expect("texts and numbers always become JSON");
        Note {
            kind: NoteKind::Session,
            tenant: tenant.to_owned(),
            key: self.instance_id.clone(),
            json: Some(json),
        }
    }

    pub(crate) fn from_note(note: &Note) -> Option<Self> {
        serde_json::from_str(note.json.as_deref()?).ok()
    }

    pub(crate) fn worker_id(&self) -> Option<WorkerId> {
        self.worker.parse().ok()
    }

    /// Whether no token of it can be good any more.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        Timestamp::from_millis(self.accepted_at).after(TOKEN_LIFETIME) <= now
    }
}
