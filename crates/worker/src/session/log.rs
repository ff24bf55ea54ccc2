//! Log lines about frames, with the fields of seed 000 section 6.

use protocol::session::envelope::Envelope;

/// A frame passes.
pub(crate) fn frame(direction: &'static str, frame: &Envelope) {
    tracing::debug!(
        tenant = &*frame.tenant,
        "sender.id" = &*frame.sender.id,
        "type" = &*frame.kind,
        id = &*frame.id,
        corr = frame.corr.as_deref(),
        seq = frame.seq,
        session_seq = frame.session_seq,
        "ack.request" = frame.ack.as_ref().and_then(|ack| ack.request),
        direction,
        "frame"
    );
}
