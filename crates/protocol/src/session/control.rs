//! What the machines say beyond the payloads: why a session ends, and the hints between our ends.

use super::envelope::Envelope;
use crate::error_code::ErrorCode;

/// Stands in for a business frame that was taken back; it says nothing and is only counted.
pub const VOID: &str = "ext.astraflow.void";

/// The flag on a resume that names the lowest number that the worker still keeps.
///
/// A server that lost its buffers learns from it where to go on. Hints travel in the reserved
/// flags because other servers refuse unknown keys in the payload.
pub const SEND_BASE_FLAG: &str = "send_base=";

/// The flag on a handshake and a resume that names the boot of the worker's machine: what ran
/// before another boot does not run any more.
pub const BOOT_FLAG: &str = "boot=";

/// The feature of a worker whose acks count frames, so that no dispatch need be named in one.
pub const COUNTED_ACKS_FEATURE: &str = "astra.acks.counted";

/// The rest of the first flag that begins so.
pub(crate) fn flag<'a>(frame: &'a Envelope, prefix: &str) -> Option<&'a str> {
    frame.flags.iter().flatten().find_map(|flag| flag.strip_prefix(prefix))
}

/// Why a session ends before its time, or does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResetCode {
    /// The credential is wrong, has expired or was revoked.
    InvalidToken,
    /// The handshake carries no credential.
    MissingToken,
    /// This server wants a client certificate.
    MtlsRequired,
    /// The handshake offers a proof that this server does not take.
    ModeUnsupported,
    /// The credential is good, but not for a worker.
    Forbidden,
    /// Something came before the handshake.
    HandshakeRequired,
    /// The server does not open a session for this worker.
    Denied,
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
    /// All codes.
    pub const ALL: [Self; 14] = [
        Self::InvalidToken,
        Self::MissingToken,
        Self::MtlsRequired,
        Self::ModeUnsupported,
        Self::Forbidden,
        Self::HandshakeRequired,
        Self::Denied,
        Self::UnknownSession,
        Self::TenantMismatch,
        Self::Gap,
        Self::Unconfirmed,
        Self::Exhausted,
        Self::Superseded,
        Self::Malformed,
    ];

    /// The row of the table of errors.
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::InvalidToken => ErrorCode::AuthInvalidToken,
            Self::MissingToken => ErrorCode::AuthMissingToken,
            Self::MtlsRequired => ErrorCode::AuthMtlsRequired,
            Self::ModeUnsupported => ErrorCode::AuthModeUnsupported,
            Self::Forbidden => ErrorCode::AuthForbidden,
            Self::HandshakeRequired => ErrorCode::AuthHandshakeRequired,
            Self::Denied => ErrorCode::SessionDenied,
            Self::UnknownSession => ErrorCode::SessionUnknown,
            Self::TenantMismatch => ErrorCode::SessionTenantMismatch,
            Self::Gap => ErrorCode::ResultSequenceGap,
            Self::Unconfirmed => ErrorCode::Timeout,
            Self::Exhausted => ErrorCode::SessionRotated,
            Self::Superseded => ErrorCode::SessionStaleBinding,
            Self::Malformed => ErrorCode::RequestInvalid,
        }
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        self.error_code().entry().name
    }
}
