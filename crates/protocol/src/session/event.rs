//! What the machines tell the layer above them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::control_queue::Named;
use super::frame::BusinessFrame;
use super::payload::control::Resume;
use super::worker_machine::Connection;
use crate::error_code::ErrorCode;

/// Lets the server confirm a frame that it was given, once what the frame caused is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitToken {
    pub(crate) session: Arc<str>,
    pub(crate) number: Option<u64>,
    pub(crate) named: Option<Named>,
}

impl CommitToken {
    /// The session that the frame came in, which may be carried by another connection by now.
    pub fn session_id(&self) -> &str {
        &self.session
    }
}

/// What the server's machine has to say.
#[derive(Debug)]
pub enum ServerEvent {
    /// A worker names itself. Answer with `accept_handshake` or `refuse`.
    Handshake {
        /// Whose worker it claims to be.
        tenant: String,
        /// Its instance id.
        sender_id: String,
        /// The boot of its machine, if it tells.
        boot_id: Option<String>,
        /// The credential and the names, as they came.
        payload: Box<RawValue>,
    },
    /// A worker says what it can do.
    Register {
        /// Answer with `accept` or `refuse`; if false it is a refresh and is already answered.
        is_first: bool,
        /// The inventory, as it came.
        payload: Box<RawValue>,
    },
    /// A worker asks to go on. Check its token, then answer with `resume` or `refuse`.
    Resume {
        /// Whose worker it claims to be.
        tenant: String,
        /// Its instance id.
        sender_id: String,
        /// The boot of its machine, if it tells.
        boot_id: Option<String>,
        /// Which session, and the token.
        payload: Resume,
    },
    /// A worker lives.
    Heartbeat {
        /// Its state, as it came.
        payload: Box<RawValue>,
    },
    /// A business frame in its place. It is acknowledged when the token is committed.
    Delivered {
        /// For `commit`.
        token: CommitToken,
        /// The frame.
        frame: BusinessFrame,
    },
    /// The worker has this frame. Never said of a frame that asks for no ack, to a worker of the
    /// plain vocabulary, which does not count.
    Acked {
        /// The id that it was sent with.
        id: String,
    },
    /// This frame was repeated in vain; the end of the session follows.
    GaveUp {
        /// The id that it was sent with.
        id: String,
    },
    /// The session is over and the worker is told so. What is in flight is to be reconciled.
    SessionEnded {
        /// Which session.
        session_id: String,
        /// Why.
        code: ErrorCode,
        /// Frames that the worker may or may not have.
        unconfirmed: Vec<BusinessFrame>,
    },
}

/// What the worker's machine has to say.
#[derive(Debug)]
pub enum WorkerEvent {
    /// It is time to connect.
    ConnectDue,
    /// The connection is of no more use: close it.
    Disconnect {
        /// Which one.
        connection: Connection,
        /// Why, for the log.
        reason: String,
    },
    /// Business frames flow.
    Ready {
        /// Whether this is the session from before.
        is_resumed: bool,
    },
    /// It is time to call `heartbeat`.
    HeartbeatDue,
    /// A business frame in its place; it is acknowledged already.
    Delivered {
        /// The frame.
        frame: BusinessFrame,
    },
    /// The server is done with this frame and what it caused is durable.
    Acked {
        /// The id that it was sent with.
        id: String,
    },
    /// The server named this frame in an ack; may come more than once, before or after `Acked`,
    /// or not at all if that ack was lost and a later one confirmed the frame.
    Answered {
        /// The id that it was sent with.
        id: String,
        /// A word about it, such as a verdict.
        info: Option<String>,
    },
    /// The server asks to finish and take nothing new.
    Drain {
        /// Why.
        reason: Option<String>,
        /// How long the worker has.
        deadline: Option<Duration>,
    },
    /// This frame was repeated in vain; the loss of the session follows.
    GaveUp {
        /// The id that it was sent with.
        id: String,
    },
    /// The session is over. Frames that matter beyond it are to be sent again in the next.
    SessionLost {
        /// An error code.
        code: String,
        /// The same for people.
        reason: String,
        /// Frames that the server may or may not have, in order.
        unconfirmed: Vec<BusinessFrame>,
    },
}
