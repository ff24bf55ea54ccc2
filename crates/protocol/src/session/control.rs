//! What the session machines themselves say and understand: the payloads of `control.*` frames.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The worker names itself and shows its credential.
pub const HANDSHAKE: &str = "control.handshake";
/// The worker says what it can do.
pub const REGISTER: &str = "control.register";
/// The server opens or continues a session.
pub const ACCEPT: &str = "control.session.accept";
/// The worker asks to go on with a session.
pub const RESUME: &str = "control.resume";
/// The server ends a session; the worker begins anew.
pub const RESET: &str = "control.reset";
/// The server asks the worker to finish and take nothing new.
pub const DRAIN: &str = "control.drain";
/// Either end confirms frames.
pub const ACK: &str = "control.ack";
/// The worker says that it lives.
pub const HEARTBEAT: &str = "control.heartbeat";
/// Stands in for a business frame that was taken back; it says nothing and is only counted.
pub const VOID: &str = "ext.astraflow.void";

/// The flag on a resume that names the lowest number that the worker still keeps.
///
/// A server that lost its buffers learns from it where to go on. It travels in the reserved flags
/// because other servers refuse unknown keys in the payload.
pub const SEND_BASE_FLAG: &str = "send_base=";

/// The payload of an ack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Whether the frame was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// The id of the frame that asked.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// A word about it, such as a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
    /// All frames up to this number are done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_seq: Option<u64>,
    /// Which of the next frames are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_bitmap: Option<u64>,
    /// How many frames after `ack_seq` are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recv_window: Option<u64>,
}

/// The payload of an accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// Names the session.
    pub session_id: String,
    /// What the worker shows to resume it; opaque to the worker.
    pub session_token: String,
    /// Whose session it is.
    pub worker_instance_id: String,
    /// When the token ends, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether both windows go on; absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
}

/// The payload of a resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Which session.
    pub session_id: String,
    /// Its token.
    pub session_token: String,
    /// All frames up to this number have reached the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_seq: Option<u64>,
}

/// The payload of a reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// An error code, `E.SESSION.UNKNOWN` and the like.
    pub code: String,
    /// The same for people.
    pub reason: String,
    /// How long the worker should wait before it comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The payload of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the worker has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// Why a session ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResetCode {
    /// The credential is missing or wrong.
    InvalidToken,
    /// Something came before the handshake.
    HandshakeRequired,
    /// There is no such session, or the token does not open it. One answer for all of these, so
    /// that nobody learns which sessions exist.
    UnknownSession,
    /// The frame names another tenant than the connection's.
    TenantMismatch,
    /// Frames are missing on one side, and nobody has them any more.
    Gap,
    /// A frame was repeated as often as allowed and never confirmed.
    Unconfirmed,
    /// The numbers of the session are used up.
    Exhausted,
    /// Another connection of the same worker took over.
    Superseded,
    /// A frame could not be understood.
    Malformed,
}

impl ResetCode {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidToken => "E.AUTH.INVALID_TOKEN",
            Self::HandshakeRequired => "E.AUTH.HANDSHAKE_REQUIRED",
            Self::UnknownSession => "E.SESSION.UNKNOWN",
            Self::TenantMismatch => "E.SESSION.TENANT_MISMATCH",
            Self::Gap => "E.RESULT.SEQ_GAP",
            Self::Unconfirmed => "E.TIMEOUT",
            Self::Exhausted => "E.SESSION.ROTATED",
            Self::Superseded => "E.SESSION.STALE_BINDING",
            Self::Malformed => "E.REQUEST.INVALID",
        }
    }
}

/// Whether a frame belongs to the session itself, and so carries no number.
pub fn is_control(kind: &str) -> bool {
    kind.starts_with("control.")
}

/// A payload as raw JSON.
pub(crate) fn raw<T: Serialize>(payload: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(payload)
        .expect("structs of strings and numbers are always JSON")
}
