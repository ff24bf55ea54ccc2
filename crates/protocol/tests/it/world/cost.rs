//! What delivery costs: which frames were sent again although their sender knew better.

use std::collections::BTreeMap;

use model::Timestamp;
use protocol::session::control::VOID;
use protocol::session::envelope::Envelope;
use protocol::session::outgoing::REPEAT_DELAY_MAX;
use serde::Deserialize;

/// One direction of one connection.
type Way = (usize, bool);

/// What senders were told of the frames that they sent.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// All frames of a direction up to this number have come.
    acked: BTreeMap<Way, u64>,
    /// Frames that the peer holds, and since when their sender knows.
    held: BTreeMap<(Way, u64), Timestamp>,
}

#[derive(Deserialize)]
struct Receipt {
    ack_seq: Option<u64>,
    #[serde(default)]
    ack_bitmap: u64,
}

impl Cost {
    /// A sender hears what its peer has. Gives how many frames it is spared.
    pub(super) fn on_ack(&mut self, way: Way, now: Timestamp, frame: &Envelope) -> u64 {
        let Ok(receipt) = serde_json::from_str::<Receipt>(frame.payload.get()) else { return 0 };
        let known = self.acked.entry(way).or_default();
        let Some(ack_seq) = receipt.ack_seq.filter(|seq| *seq >= *known) else { return 0 };
        *known = ack_seq;
        let held = (0..64).filter(|bit| receipt.ack_bitmap >> bit & 1 == 1);
        let held: Vec<u64> = held.map(|bit| ack_seq + 1 + bit).collect();
        self.held.extend(held.iter().map(|number| ((way, *number), now)));
        held.len() as u64
    }

    /// A frame leaves: it is none that its sender knows to be there. One that is held is repeated
    /// only after the longest pause, should the ack that confirms it be lost.
    pub(super) fn on_sent(&self, way: Way, now: Timestamp, frame: &Envelope) {
        let Some(number) = frame.session_seq.filter(|_| frame.kind != VOID) else { return };
        let acked = self.acked.get(&way).copied().unwrap_or(0);
        assert!(number > acked, "{} was sent again after it was confirmed", frame.id);
        if let Some(since) = self.held.get(&(way, number)) {
            let pause = now.since(*since);
            assert!(pause >= REPEAT_DELAY_MAX, "{} is held and sent again: {pause:?}", frame.id);
        }
    }
}
