//! Numbers of frames: how far they reach, how they stand on the wire, and how receipt is told.

use super::alias::Vocabulary;
use super::decode::INTEGER_MAX;
use super::envelope::Envelope;
use super::payload::control::Ack;

/// How many frames may be unacknowledged in one direction; the bitmap of an ack is that wide.
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
