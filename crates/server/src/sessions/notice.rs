//! What a connection is told from elsewhere in the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::LostAuthority;
use model::{LeaseId, RunId, TaskId};
use protocol::session::payload::run_rebind::Rebind;
use protocol::session::server_session::Session;
use tokio::sync::oneshot;

use super::call::Call;
use crate::resources::Wanted;

/// Notices that wait for one connection; further ones are dropped, and the next heartbeat says
/// the same.
pub(crate) const MAILBOX_MAX: usize = 4_096;

/// A word to a connection.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Another connection of the same worker takes over: close, then hand the session on.
    HandOver(oneshot::Sender<Carried>),
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
    /// Someone wants a part of a resource that the worker keeps.
    Read(Box<Wanted>),
    /// A run that the worker had work of has ended.
    RunEnded(RunId),
    /// A person gave the work of a run to another worker.
    Rebound(Box<Rebind>),
    /// The credential that opened the session is no longer good.
    CredentialGone,
}

/// A lease that ended although its holder said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Revoked {
    pub(crate) lease: LeaseId,
    pub(crate) why: LostAuthority,
}

/// What goes from one connection of a worker to the next.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Both windows; `None` where there is no session to go on with.
    pub(crate) session: Option<Session>,
    /// What the worker is taken to work on.
    pub(crate) held: BTreeMap<TaskId, LeaseId>,
    /// What of it the worker has not confirmed yet.
    pub(crate) unconfirmed: Vec<LeaseId>,
    /// The calls of `next` that it waits for.
    pub(crate) calls: Vec<Arc<Call>>,
}
