//! Frames in the log, under the names of seed 000 section 6.

use protocol::session::envelope::Envelope;

/// A frame came or goes. What it says stays out of the log: it may be anyone's secret.
pub(super) fn frame(direction: &'static str, frame: &Envelope) {
    tracing::debug!(
        tenant = &*frame.tenant,
        "sender.id" = &*frame.sender.id,
        "type" = &*frame.kind,
        id = frame.id,
        corr = frame.corr,
        seq = frame.seq,
        session_seq = frame.session_seq,
        "ack.request" = frame.ack.as_ref().and_then(|ack| ack.request),
        direction,
        "frame"
    );
}
