//! Both directions of a session, at one end.

use super::alias::Vocabulary;
use super::control;
use super::envelope::Envelope;
use super::frame::{BusinessFrame, asks_for_ack, strip};
use super::incoming::{Arrival, Incoming};
use super::lane::{Lane, Named};
use super::outgoing::Outgoing;
use super::unnumbered::{Meeting, Unnumbered};
use super::window::Receipt;

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
        lane: &mut Lane,
        frame: Envelope,
    ) -> Result<Vec<Delivery>, Contradiction> {
        let arrival = self.incoming.receive(lane.now, frame, lane.speaker.vocabulary);
        self.outgoing.count_like(self.incoming.numbering());
        match arrival {
            Arrival::InOrder(frames) => Ok(self.deliveries(lane, frames)),
            Arrival::Unnumbered(frame) => Ok(self.deliver_unnumbered(lane, frame)),
            Arrival::Held | Arrival::Beyond => {
                lane.restate();
                Ok(Vec::new())
            }
            Arrival::Repeated(number, frame) => {
                self.repeat_ack(lane, number, &frame);
                Ok(Vec::new())
            }
            Arrival::Contradiction => Err(Contradiction),
        }
    }

    /// A frame without a number is known by its id and what it belongs to.
    fn deliver_unnumbered(&mut self, lane: &mut Lane, frame: Envelope) -> Vec<Delivery> {
        match self.unnumbered.meet(&frame) {
            Meeting::First => return vec![delivery(None, frame)],
            // Its ack comes when it is committed.
            Meeting::Uncommitted => {}
            Meeting::Committed(answer) => {
                if asks_for_ack(&frame) {
                    lane.ack(Named::of(&frame), answer);
                }
            }
        }
        Vec::new()
    }

    /// Without this a sender whose ack was lost would repeat for ever.
    fn repeat_ack(&self, lane: &mut Lane, number: u64, frame: &Envelope) {
        if asks_for_ack(frame) && self.incoming.may_be_named(number) {
            lane.ack(Named::of(frame), self.incoming.answer(number).cloned());
        } else {
            lane.restate();
        }
    }

    /// Frames that were taken back are counted here, and go no further.
    pub(crate) fn deliveries(
        &mut self,
        lane: &mut Lane,
        frames: Vec<(u64, Envelope)>,
    ) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(frames.len());
        for (number, frame) in frames {
            if frame.kind == control::VOID {
                self.incoming.commit(number, None);
                lane.restate();
            } else {
                deliveries.push(delivery(Some(number), frame));
            }
        }
        deliveries
    }

    /// The upper layer is done with a frame: now it may be acknowledged.
    pub(crate) fn commit(
        &mut self,
        lane: &mut Lane,
        number: Option<u64>,
        named: Option<Named>,
        answer: Option<String>,
    ) {
        if let Some(number) = number {
            self.incoming.commit(number, answer.clone());
            lane.restate();
        }
        if let Some(named) = named {
            if number.is_none() {
                self.unnumbered.commit(&named, answer.as_ref());
            }
            lane.ack(named, answer);
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
