//! Both directions of a session at one end: how frames are numbered, how receipt is told, and what
//! becomes of a frame that comes in.

use super::codec::INTEGER_MAX;
use super::control;
use super::control_queue::{ControlQueue, Named};
use super::envelope::Envelope;
use super::frame::{BusinessFrame, asks_for_ack, strip};
use super::incoming::{Arrival, Incoming, Meeting, Unnumbered};
use super::kind::Vocabulary;
use super::outgoing::Outgoing;
use super::payload::control::Ack;

/// Limit: how many frames may be unacknowledged in one direction; the bitmap of an ack is that
/// wide.
pub const WINDOW_FRAMES: u64 = 64;

/// From here on a session is renewed at the next quiet moment.
pub const SEQUENCE_ROTATE_AT: u64 = INTEGER_MAX - (1 << 20);

/// Room for the keys, quotes and moments of an envelope when its size is estimated.
pub(crate) const ENVELOPE_BYTES: usize = 320;

/// What one end has received of the other's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// All frames up to this number are done with.
    pub ack_seq: u64,
    /// Bit `i` says that frame `ack_seq + 1 + i` is held until those before it come.
    pub ack_bitmap: u64,
    /// How many frames after `ack_seq` are taken.
    pub recv_window: u64,
}

/// Where a peer writes the number of a frame, and from what it counts.
///
/// Inside, numbers start at 1 whatever the peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// Which field of the envelope holds it.
    pub field: NumberField,
    /// The peer's first number: 0 or 1.
    pub first: u64,
}

/// The field of the envelope that holds the number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberField {
    /// `session_seq`, which leaves `seq` to the run.
    SessionSeq,
    /// `seq`, as seed 000 §4 writes it.
    Seq,
}

impl Numbering {
    /// How we count: `session_seq`, from 1.
    pub const OURS: Self = Self { field: NumberField::SessionSeq, first: 1 };

    /// Reads it off the first business frame of a session; none if that frame is not numbered.
    ///
    /// A `seq` that starts elsewhere counts the frames of a run, not those of the transport, and
    /// so does any `seq` of the plain vocabulary.
    pub fn of_first_frame(frame: &Envelope, vocabulary: Vocabulary) -> Option<Self> {
        match (frame.session_seq, frame.seq, vocabulary) {
            (Some(number), _, _) => {
                Some(Self { field: NumberField::SessionSeq, first: number.min(1) })
            }
            (None, Some(first @ (0 | 1)), Vocabulary::Prefixed) => {
                Some(Self { field: NumberField::Seq, first })
            }
            (None, _, _) => None,
        }
    }

    /// Reads it off the first frame after the place was lost, which may have any number.
    pub fn of_later_frame(frame: &Envelope, vocabulary: Vocabulary) -> Option<Self> {
        match (frame.session_seq, frame.seq, vocabulary) {
            (Some(_), _, _) => Some(Self::OURS),
            // Whether the peer began with 0 or 1 is of no more interest: 0 leaves room for both.
            (None, Some(_), Vocabulary::Prefixed) => {
                Some(Self { field: NumberField::Seq, first: 0 })
            }
            (None, _, _) => None,
        }
    }

    /// The number of a frame, counted from 1; 0 lies before the first.
    pub fn number(self, frame: &Envelope) -> Option<u64> {
        let written = match self.field {
            NumberField::SessionSeq => frame.session_seq,
            NumberField::Seq => frame.seq,
        };
        written.map(|number| self.from_wire(number))
    }

    /// A number that the peer wrote, counted from 1.
    pub fn from_wire(self, number: u64) -> u64 {
        number.saturating_add(1 - self.first)
    }

    /// A number as the peer would write it; none where it lies before the peer's first.
    pub fn to_wire(self, number: u64) -> Option<u64> {
        (number + self.first).checked_sub(1)
    }
}

impl Receipt {
    /// The receipt in an ack; none if it only names a frame.
    pub fn of_ack(ack: &Ack) -> Option<Self> {
        let ack_seq = ack.ack_seq?;
        Some(Self {
            ack_seq,
            ack_bitmap: ack.ack_bitmap.unwrap_or(0),
            recv_window: ack.recv_window.unwrap_or(WINDOW_FRAMES).max(1),
        })
    }

    /// The numbers that the bitmap says are held.
    pub fn held(self) -> impl Iterator<Item = u64> {
        (0..64)
            .filter(move |bit| self.ack_bitmap >> bit & 1 == 1)
            .map(move |bit| self.ack_seq.saturating_add(1 + bit))
    }
}

/// About how many bytes a frame takes, here and on the wire; never much less than it really does.
pub fn frame_bytes(frame: &Envelope) -> usize {
    ENVELOPE_BYTES
        + frame.kind.len()
        + frame.id.len()
        + frame.tenant.len()
        + frame.sender.id.len()
        + frame.corr.as_ref().map_or(0, String::len)
        + frame.payload.get().len()
}

/// The send window and the receive window of one end.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    pub(crate) unnumbered: Unnumbered,
}

/// A business frame in its place, for the upper layer.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Its number, if the peer counts.
    pub(crate) number: Option<u64>,
    /// How to name it in an ack, if the peer wants that.
    pub(crate) named: Option<Named>,
    /// The frame.
    pub(crate) frame: BusinessFrame,
}

/// The peer's numbers contradict each other; the session cannot go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contradiction;

impl Windows {
    /// Both directions at their beginning.
    pub(crate) fn fresh(window: u64) -> Self {
        Self::of(Outgoing::after(0, window), Incoming::after(0, window))
    }

    /// Both directions where they are.
    pub(crate) fn of(outgoing: Outgoing, incoming: Incoming) -> Self {
        Self { outgoing, incoming, unnumbered: Unnumbered::default() }
    }

    /// Takes a business frame; gives what may be delivered, and says to the peer what is to be
    /// said at once.
    pub(crate) fn receive(
        &mut self,
        controls: &mut ControlQueue,
        frame: Envelope,
    ) -> Result<Vec<Delivery>, Contradiction> {
        let arrival = self.incoming.receive(controls.now, frame, controls.speaker.vocabulary);
        self.outgoing.count_like(self.incoming.numbering());
        match arrival {
            Arrival::InOrder(frames) => Ok(self.deliveries(controls, frames)),
            Arrival::Unnumbered(frame) => Ok(self.deliver_unnumbered(controls, frame)),
            Arrival::Held | Arrival::Beyond => {
                controls.restate();
                Ok(Vec::new())
            }
            Arrival::Repeated(number, frame) => {
                self.repeat_ack(controls, number, &frame);
                Ok(Vec::new())
            }
            Arrival::Contradiction => Err(Contradiction),
        }
    }

    /// A frame without a number is known by its id and what it belongs to.
    fn deliver_unnumbered(
        &mut self,
        controls: &mut ControlQueue,
        frame: Envelope,
    ) -> Vec<Delivery> {
        match self.unnumbered.meet(&frame) {
            Meeting::First => return vec![delivery(None, frame)],
            // Its ack comes when it is committed.
            Meeting::Uncommitted => {}
            Meeting::Committed(answer) => {
                if asks_for_ack(&frame) {
                    controls.ack(Named::of(&frame), answer);
                }
            }
        }
        Vec::new()
    }

    /// Without this a sender whose ack was lost would repeat for ever.
    fn repeat_ack(&self, controls: &mut ControlQueue, number: u64, frame: &Envelope) {
        if asks_for_ack(frame) && self.incoming.may_be_named(number) {
            controls.ack(Named::of(frame), self.incoming.answer(number).cloned());
        } else {
            controls.restate();
        }
    }

    /// Frames that were taken back are counted here, and go no further.
    pub(crate) fn deliveries(
        &mut self,
        controls: &mut ControlQueue,
        frames: Vec<(u64, Envelope)>,
    ) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(frames.len());
        for (number, frame) in frames {
            if frame.kind == control::VOID {
                self.incoming.commit(number, None);
                controls.restate();
            } else {
                deliveries.push(delivery(Some(number), frame));
            }
        }
        deliveries
    }

    /// The upper layer is done with a frame: now it may be acknowledged.
    pub(crate) fn commit(
        &mut self,
        controls: &mut ControlQueue,
        number: Option<u64>,
        named: Option<Named>,
        answer: Option<String>,
    ) {
        if let Some(number) = number {
            self.incoming.commit(number, answer.clone());
            controls.restate();
        }
        if let Some(named) = named {
            if number.is_none() {
                self.unnumbered.commit(&named, answer.as_ref());
            }
            controls.ack(named, answer);
        }
    }

    /// What may be told of the peer's frames. A peer of the plain vocabulary that does not count
    /// is told nothing but names.
    pub(crate) fn receipt(&self, vocabulary: Vocabulary) -> Option<Receipt> {
        match (vocabulary, self.incoming.numbering()) {
            (Vocabulary::Plain, None) => None,
            (Vocabulary::Plain | Vocabulary::Prefixed, _) => self.incoming.receipt(),
        }
    }

    /// What must hold after every step.
    pub(crate) fn check_invariants(&self) {
        self.outgoing.check_invariants();
        self.incoming.check_invariants();
    }
}

fn delivery(number: Option<u64>, frame: Envelope) -> Delivery {
    let named = asks_for_ack(&frame).then(|| Named::of(&frame));
    Delivery { number, named, frame: strip(frame) }
}
