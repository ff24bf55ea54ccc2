//! Business frames as the machines carry them: opaque, but for the names on the outside.

use std::borrow::Cow;
use std::sync::Arc;

use model::Timestamp;
use serde_json::value::RawValue;

use super::envelope::{AckMark, Envelope, Sender};
use super::kind::{Kind, Payload, Vocabulary};
use super::window::{NumberField, Numbering};

/// A business frame before it has a place in the stream.
#[derive(Clone, Debug)]
pub struct BusinessFrame {
    /// Which payload it is: the name with the prefix, whatever the peer calls it.
    pub kind: Cow<'static, str>,
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

impl BusinessFrame {
    /// A frame that says this to a peer of that vocabulary, and need not be named in an ack.
    pub fn saying(payload: &Payload, vocabulary: Vocabulary, id: String, corr: String) -> Self {
        Self {
            kind: Cow::Borrowed(payload.kind().name()),
            id,
            corr: Some(corr),
            seq: None,
            wants_ack: false,
            payload: payload.encode_for(vocabulary).1,
        }
    }
}

/// Who speaks, for whom and in whose words: what all frames of one end have in common.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    /// Whose frames these are.
    pub(crate) tenant: Arc<str>,
    /// This end.
    pub(crate) sender: Sender,
    /// The names that the peer knows.
    pub(crate) vocabulary: Vocabulary,
    /// The moment that was written last: a burst of frames is of one moment.
    written: (Timestamp, Arc<str>),
}

impl Speaker {
    pub(crate) fn new(tenant: &str, sender: Sender) -> Self {
        let start = Timestamp::default();
        Self {
            tenant: tenant.into(),
            sender,
            vocabulary: Vocabulary::default(),
            written: (start, start.to_string().into()),
        }
    }

    fn moment(&mut self, now: Timestamp) -> Arc<str> {
        if self.written.0 != now {
            self.written = (now, now.to_string().into());
        }
        Arc::clone(&self.written.1)
    }

    /// A frame of the session itself.
    pub(crate) fn control(
        &mut self,
        now: Timestamp,
        kind: &'static str,
        id: String,
        payload: Box<RawValue>,
    ) -> Envelope {
        Envelope {
            kind: Cow::Borrowed(kind),
            id,
            ts: self.moment(now),
            tenant: Arc::clone(&self.tenant),
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
    pub(crate) fn business(
        &mut self,
        now: Timestamp,
        frame: BusinessFrame,
        number: u64,
    ) -> Envelope {
        let asks = AckMark { of: None, request: Some(true) };
        let (kind, seq, session_seq) = match self.vocabulary {
            // A peer that follows seed 000 to the letter looks for the number in `seq`, from 0; to
            // all others it is a number that rises within each run.
            Vocabulary::Prefixed => {
                (frame.kind, frame.seq.map(|_| number.saturating_sub(1)), Some(number))
            }
            // Seed 001 knows no counter of the transport; its peers ack by name.
            Vocabulary::Plain => (plain_name(frame.kind), frame.seq, None),
        };
        Envelope {
            kind,
            id: frame.id,
            ts: self.moment(now),
            tenant: Arc::clone(&self.tenant),
            sender: self.sender.clone(),
            corr: frame.corr,
            seq,
            session_seq,
            ack: frame.wants_ack.then_some(asks),
            flags: None,
            payload: frame.payload,
        }
    }
}

fn plain_name(kind: Cow<'static, str>) -> Cow<'static, str> {
    match Kind::from_name(&kind) {
        Some(known) => Cow::Borrowed(known.name_in(Vocabulary::Plain)),
        None => kind,
    }
}

/// Counts a frame in `seq` too, for a peer that looks only there.
pub(crate) fn count_in_seq(frame: &mut Envelope, numbering: Numbering, number: u64) {
    if numbering.field == NumberField::Seq {
        frame.seq = numbering.to_wire(number);
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
        kind: match Kind::from_name(&frame.kind) {
            Some(known) => Cow::Borrowed(known.name()),
            None => frame.kind,
        },
        id: frame.id,
        corr: frame.corr,
        seq: frame.seq,
        payload: frame.payload,
    }
}
