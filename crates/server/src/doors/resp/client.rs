//! Who is at the other end of a connection.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{LeaseId, TenantId, WorkerId};
use protocol::resp::reply::Version;
use protocol::rest::tokens::Role;
use shard::sessions::MemberMessage;
use tokio::time::Instant;

use crate::auth::Caller;
use crate::handle::ShardHandle;
use crate::resp_workers::RespWorker;
use crate::resp_workers::WorkerRegistry;

/// How a connection came to speak for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// It does not: it works in the name of its credential.
    None,
    /// By its key, or by the user name of `AUTH`.
    Credential(WorkerId),
    /// By `WORKER.REGISTER` or `WORKER.HEARTBEAT`.
    Registered(WorkerId),
    /// By `PING <worker_id>` or `SET worker:<id>:tools`: a worker that has one connection for all,
    /// and never says good-bye.
    Single(WorkerId),
}

/// A client that proved who it is.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) caller: Caller,
    /// What its credential is called; never the credential itself.
    pub(super) credential: String,
    pub(super) handle: ShardHandle,
    pub(super) binding: Binding,
    /// The worker that stands for everyone who shows the credential and names no worker.
    anonymous: WorkerId,
}

impl Member {
    pub(super) fn new(caller: Caller, credential: String, handle: ShardHandle) -> Self {
        let anonymous = caller.worker.clone().unwrap_or_else(|| {
            let name = format!("redis-{credential}");
            name.parse().expect("ids of tokens are short, in letters and digits")
        });
        Self { caller, credential, handle, binding: Binding::None, anonymous }
    }

    pub(super) fn tenant(&self) -> &TenantId {
        &self.caller.tenant
    }

    /// Whose leases it takes and reports.
    pub(super) fn worker(&self) -> WorkerId {
        match &self.binding {
            Binding::Credential(worker) | Binding::Registered(worker) | Binding::Single(worker) => {
                worker.clone()
            }
            Binding::None => self.anonymous.clone(),
        }
    }

    pub(super) fn workers(&self) -> &WorkerRegistry {
        self.handle.workers()
    }

    /// Looks at a worker of this door. The shard is told of a name that is new.
    pub(super) fn with_worker<T>(
        &self,
        worker: &WorkerId,
        look: impl FnOnce(&mut RespWorker) -> T,
    ) -> T {
        let (seen, is_new) = self.workers().with(worker, look);
        if is_new {
            self.handle.tell_member(worker.clone(), MemberMessage::Appear);
        }
        seen
    }

    pub(super) fn is_bound(&self) -> bool {
        self.binding != Binding::None
    }

    /// Whether this client may speak for `worker`: a key that was made for one worker speaks for
    /// that one alone.
    pub(super) fn may_be(&self, worker: &WorkerId) -> bool {
        match &self.caller.worker {
            Some(own) => own == worker,
            None => matches!(self.caller.role, Role::Admin | Role::Worker),
        }
    }
}

/// A connection, as `CLIENT LIST` shows it.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) peer: String,
    /// Whose wrong keys are counted together; none for a Unix socket.
    pub(super) address: Option<IpAddr>,
    pub(super) name: String,
    pub(super) library: (String, String),
    pub(super) version: Version,
    pub(super) since: Instant,
    /// Whether a person types; a program reads names, a person sentences.
    pub(super) is_person: bool,
    pub(super) member: Option<Member>,
    /// Leases that were given through this connection, and not heard of since.
    pub(super) unproven: BTreeSet<LeaseId>,
    /// Leases that were given through this connection, and not reported through it.
    pub(super) taken: BTreeSet<LeaseId>,
}

impl Client {
    pub(super) fn new(id: u64, peer: String, address: Option<IpAddr>) -> Self {
        Self {
            id,
            peer,
            address,
            name: String::new(),
            library: (String::new(), String::new()),
            version: Version::Two,
            since: Instant::now(),
            is_person: false,
            member: None,
            unproven: BTreeSet::new(),
            taken: BTreeSet::new(),
        }
    }

    /// As it was when it connected.
    pub(super) fn reset(&mut self) {
        self.name.clear();
        self.version = Version::Two;
        self.since = Instant::now();
        self.member = None;
    }

    /// One line of `CLIENT LIST`.
    pub(super) fn line(&self) -> String {
        let version = if self.version == Version::Three { 3 } else { 2 };
        let user = self.member.as_ref().map_or("-", |member| member.credential.as_str());
        format!(
            "id={} addr={} name={} age={} db=0 user={user} resp={version} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.name,
            self.since.elapsed().as_secs(),
            self.library.0,
            self.library.1,
        )
    }
}
