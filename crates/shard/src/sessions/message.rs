//! What connections and the table of workers say to each other.

use std::sync::Arc;

use model::WorkerId;

use super::{Carried, HeartbeatFacts, LinkId, Notice, Registration, SessionRecord};

/// A connection's claim to be a worker.
#[derive(Clone, Debug)]
pub struct SessionClaim {
    /// The identity that survives reconnects.
    pub instance_id: String,
    /// The name that the worker gave itself.
    pub given_name: String,
    /// The only name that its credential allows: it gets this one or none.
    pub bound: Option<WorkerId>,
    /// The session that it goes on with: it proved that this is its own. No second process can, so
    /// it may take over as often as its network fails.
    pub resumes: Option<String>,
    /// The credential that it came with; none in dev mode.
    pub token_id: Option<String>,
    /// A credential that is no longer good: a worker that came with it gives way.
    pub revoked: Option<String>,
}

/// What a connection says about the worker that it speaks for, or wants to speak for.
#[derive(Debug)]
pub enum LinkMessage {
    /// Makes it the one that speaks for a worker. Answered by `Claimed`, at once or when the
    /// connection before has handed its session over, or by `NotClaimed`.
    Claim(SessionClaim),
    /// The session of the claimed worker begins. Answered by `Opened`.
    Open(Box<SessionRecord>),
    /// The session goes on with a new token. Answered by `Opened`.
    Renew,
    /// Its session is over: nobody can go on with it.
    End {
        /// Which one.
        session_id: String,
    },
    /// It no longer speaks for its worker; what it carried waits for the next one.
    Park(Box<Carried>),
    /// The worker said how it is.
    Heartbeat(Box<HeartbeatFacts>),
}

/// What a connection is told.
#[derive(Debug)]
pub enum LinkWord {
    /// It speaks for its worker.
    Claimed(Box<Claimed>),
    /// It does not.
    NotClaimed(ClaimError),
    /// Its session is durable; unless another connection speaks for the worker by now.
    Opened {
        /// Whether it still speaks for the worker.
        is_held: bool,
    },
    /// A newer connection speaks for its worker: it parks its session and closes.
    HandOver,
    /// Something was said to its worker.
    Notice(Notice),
}

/// The claim is granted: no other connection speaks for this worker any more.
#[derive(Debug)]
pub struct Claimed {
    /// The name under which the coordinator knows the worker.
    pub worker: WorkerId,
    /// What the former connection left.
    pub carried: Carried,
    /// The session before.
    pub record: Option<SessionRecord>,
    /// Whether the name was another instance's before: what that one held is not this one's.
    pub is_successor: bool,
}

/// The claim is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The identity changes hands too often.
    TooManyTakeovers,
    /// Another instance is here under the only name that the credential allows.
    NameTaken(WorkerId),
    /// The instance is known under another name than the one that the credential allows.
    OtherWorker(WorkerId),
    /// As many workers are connected as the table holds.
    TableFull,
    /// The worker is here with another credential; the name of that one is given, for whoever knows
    /// whether it is still good.
    OtherCredential(String),
    /// There is no such session to go on with.
    UnknownSession,
}

/// What the caller is to do.
#[derive(Debug)]
pub enum SessionEffect {
    /// A claim is granted.
    Claimed {
        /// Which connection.
        link: LinkId,
        /// What it got.
        claimed: Box<Claimed>,
    },
    /// A newer connection speaks for the worker: this one parks its session and closes.
    HandOver {
        /// Which connection.
        link: LinkId,
    },
    /// Makes a session durable.
    Keep(Box<SessionRecord>),
    /// Deletes the session of an instance from the store.
    Forget {
        /// Whose.
        instance_id: String,
    },
    /// Makes the registration of a worker without a session durable.
    KeepMember {
        /// Whose.
        worker: WorkerId,
        /// What it registered.
        registration: Arc<Registration>,
    },
    /// A worker without a session is forgotten.
    ForgetMember {
        /// Which one.
        worker: WorkerId,
        /// Whether the store knows of it.
        was_registered: bool,
    },
}
