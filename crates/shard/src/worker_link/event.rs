//! What a link lets others observe: logs, metrics, events and what never enters the coordinator.

use coordinator::Violation;
use model::{LeaseId, WorkerId};
use protocol::error_code::ErrorCode;
use protocol::session::payload::control::Heartbeat;
use protocol::session::payload::exec::Feedback;
use protocol::session::payload::package::PackageEvent;
use protocol::session::payload::resource::{Artifact, ResourceChunk};

use super::in_flight::RequestId;

/// An observation.
#[derive(Debug)]
pub enum LinkEvent {
    /// A session is open.
    Opened {
        /// Whose.
        worker: WorkerId,
        /// The identity behind it.
        instance_id: String,
        /// Which session.
        session_id: String,
        /// Whether it went on from an earlier connection.
        is_resumed: bool,
    },
    /// The connection carries no session any more.
    Closed,
    /// A session is over for good.
    Ended {
        /// Which one.
        session_id: String,
        /// Why.
        code: ErrorCode,
    },
    /// A worker was turned away.
    Refused {
        /// The code that it was told.
        code: ErrorCode,
        /// The same for people.
        reason: String,
    },
    /// It is time to send a ping.
    PingDue,
    /// Nothing was heard of the worker for one and a half beats.
    MissedHeartbeat,
    /// A frame cannot be read.
    Unreadable {
        /// Why.
        why: String,
    },
    /// A frame was understood as such, but not what it says.
    FrameRefused {
        /// Its type.
        kind: String,
        /// Its id.
        id: String,
        /// What it answers.
        corr: Option<String>,
        /// The code that the worker was told, and why.
        why: String,
    },
    /// A frame was repeated in vain.
    GaveUp {
        /// Its id.
        id: String,
    },
    /// A heartbeat of the worker.
    Heartbeat(Box<Heartbeat>),
    /// A heartbeat or a register cannot be read.
    Misread {
        /// Which of them.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A heartbeat speaks of a lease that is not the worker's: a bug, or a lie, on its side.
    HeartbeatRejected {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        violation: Violation,
    },
    /// Memory or disk of the worker are almost full, or no longer are.
    Pressure {
        /// Whether they are.
        on: bool,
    },
    /// A report was refused before any coordinator saw it.
    ReportRefused,
    /// A result left artifacts on the worker.
    Artifacts(Vec<Artifact>),
    /// Progress or output of a task: store it, then call [`super::WorkerLink::on_stored`].
    Feedback {
        /// Names it.
        request: RequestId,
        /// Whose it is.
        lease: LeaseId,
        /// What is said.
        feedback: Box<Feedback>,
    },
    /// A part of a resource that was asked for.
    Chunk(Box<ResourceChunk>),
    /// A package was installed, or was not.
    Package(Box<PackageEvent>),
}
