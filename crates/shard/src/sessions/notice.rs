//! What goes to a connection from elsewhere, and from one connection of a worker to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use coordinator::LostAuthority;
use model::{LeaseId, RunId, TaskId, Timestamp};
use protocol::session::payload::exec::Rebind;
use protocol::session::server_session::Session;

/// Something that a worker's connection is told from elsewhere.
#[derive(Debug)]
pub enum Notice {
    /// These leases are over.
    Revoked(Vec<Revoked>),
    /// A person wants the worker to finish and take nothing new.
    Drain {
        /// Why.
        reason: Option<String>,
        /// How long it has.
        deadline_ms: Option<u64>,
    },
    /// The worker is offered tasks again.
    Undrain,
    /// A run that the worker had work of has ended.
    RunEnded(RunId),
    /// A person gave the work of a run to another worker.
    Rebound(Box<Rebind>),
    /// The credential that opened the session is no longer good.
    CredentialGone,
}

/// A lease that ended although its holder said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Which lease.
    pub lease: LeaseId,
    /// Why it ended.
    pub why: LostAuthority,
}

/// What goes from one connection of a worker to the next.
#[derive(Debug, Default)]
pub struct Carried {
    /// Both windows; `None` where there is no session to go on with.
    pub session: Option<Session>,
    /// What the worker is taken to work on.
    pub held: BTreeMap<TaskId, LeaseId>,
    /// The part of `held` that the worker has not confirmed yet.
    pub unconfirmed: Vec<LeaseId>,
    /// The calls of `next` that it waits for.
    pub calls: Vec<Arc<Call>>,
}

impl Carried {
    /// Whether the next connection gains nothing by it.
    pub fn is_nothing(&self) -> bool {
        self.session.is_none() && self.held.is_empty() && self.calls.is_empty()
    }

    /// The windows of this session, or a session without windows if they were lost with the
    /// process that held them.
    pub fn session_or_restored(&mut self, session_id: &str, window: u64) -> Session {
        let known = self.session.take().filter(|session| session.id() == session_id);
        known.unwrap_or_else(|| Session::restored(session_id, window))
    }
}

/// A call of `next` that its worker waits for, whichever connection it came over.
#[derive(Debug)]
pub struct Call {
    /// The middleware's lease.
    pub lease: LeaseId,
    /// The worker's own name for the call.
    pub request: Arc<str>,
    /// The run, as the worker named it.
    pub run_id: String,
    /// The node, as the worker named it.
    pub node_id: String,
    /// The middleware, as the worker named it.
    pub middleware_id: String,
    /// A JSON object, or nothing.
    pub payload: Bytes,
    /// When the worker stops waiting.
    pub until: Option<Timestamp>,
}
