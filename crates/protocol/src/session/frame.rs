//! Business frames as the machines carry them: opaque, but for the names on the outside.

use model::Timestamp;
use serde_json::value::RawValue;

use super::envelope::{AckMark, Envelope, Sender};

/// A business frame before it has a place in the stream.
#[derive(Clone, Debug)]
pub struct BusinessFrame {
    /// Which payload it is.
    pub kind: String,
    /// Names the frame within its session.
    pub id: String,
    /// What it answers or belongs to.
    pub corr: Option<String>,
    /// The counter of the run.
    pub seq: Option<u64>,
    /// Whether the peer is to name this frame in an ack, besides counting it.
    pub wants_ack: bool,
    /// What is said.
    pub payload: Box<RawValue>,
}

/// Who speaks, and for whom: what all frames of one end have in common.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    /// Whose frames these are.
    pub(crate) tenant: String,
    /// This end.
    pub(crate) sender: Sender,
}

impl Speaker {
    /// A control frame.
    pub(crate) fn control(
        &self,
        now: Timestamp,
        kind: &str,
        id: String,
        payload: Box<RawValue>,
    ) -> Envelope {
        Envelope {
            kind: kind.to_owned(),
            id,
            ts: now.to_string(),
            tenant: self.tenant.clone(),
            sender: self.sender.clone(),
            corr: None,
            seq: None,
            session_seq: None,
            ack: None,
            flags: None,
            payload,
        }
    }

    /// A business frame with its number in the stream.
    pub(crate) fn business(&self, now: Timestamp, frame: BusinessFrame, number: u64) -> Envelope {
        let asks = AckMark { of: None, request: Some(true) };
        Envelope {
            corr: frame.corr,
            seq: frame.seq,
            session_seq: Some(number),
            ack: frame.wants_ack.then_some(asks),
            ..self.control(now, &frame.kind, frame.id, frame.payload)
        }
    }
}

/// Whether the sender of a frame waits for an ack that names it.
pub(crate) fn asks_for_ack(frame: &Envelope) -> bool {
    frame.ack.as_ref().is_some_and(|ack| ack.request == Some(true))
}

/// What a frame said, once its place in the stream is of no more interest.
pub(crate) fn strip(frame: Envelope) -> BusinessFrame {
    BusinessFrame {
        wants_ack: asks_for_ack(&frame),
        kind: frame.kind,
        id: frame.id,
        corr: frame.corr,
        seq: frame.seq,
        payload: frame.payload,
    }
}
