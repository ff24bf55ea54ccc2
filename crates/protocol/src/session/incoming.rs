//! One direction, at its receiver: frames in order, once, and what may be confirmed of them. Frames
//! without numbers are known by their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use model::Timestamp;

use super::control_queue::Named;
use super::envelope::Envelope;
use super::kind::Vocabulary;
use super::window::{NumberField, Numbering, Receipt, WINDOW_FRAMES, frame_bytes};

/// How many bytes of frames are held until those before them come.
pub const REORDER_BYTES_MAX: usize = 512 << 10;

/// How long a server that lost its place waits for the lowest frame that the worker repeats.
///
/// Each frame has a timer of its own at the worker, so the first to come need not be the lowest;
/// the longest of these timers is 5 s.
pub const SETTLE_DELAY: Duration = Duration::from_secs(6);

/// What became of a frame that came in.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// It was the next one; with it come those that waited for it.
    InOrder(Vec<(u64, Envelope)>),
    /// It carries no number: it is delivered as it is.
    Unnumbered(Envelope),
    /// It is held until those before it come.
    Held,
    /// It was delivered before under this number.
    Repeated(u64, Envelope),
    /// There is no room for it; the sender is told where we are.
    Beyond,
    /// Its number cannot be: frames would be lost without a word.
    Contradiction,
}

/// Whether we know which frame is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Known,
    /// The buffers were lost. What comes is held until then; the lowest is the next.
    Settling {
        until: Timestamp,
    },
}

/// The receive window.
#[derive(Debug)]
pub(crate) struct Incoming {
    window: u64,
    numbering: Option<Numbering>,
    place: Place,
    /// All up to this number may be confirmed.
    committed: u64,
    /// All up to this number were given to the upper layer.
    delivered: u64,
    /// Committed ahead of an uncommitted one.
    committed_early: BTreeSet<u64>,
    /// What the last committed frames were answered with, for those who ask again.
    answers: BTreeMap<u64, String>,
    held: BTreeMap<u64, Envelope>,
    held_bytes: usize,
}

impl Incoming {
    /// The frame after `delivered` is next.
    pub(crate) fn after(delivered: u64, window: u64) -> Self {
        Self {
            window: window.clamp(1, WINDOW_FRAMES),
            numbering: None,
            place: Place::Known,
            committed: delivered,
            delivered,
            committed_early: BTreeSet::new(),
            answers: BTreeMap::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
        }
    }

    /// The place in the stream was lost; it is found by what the peer repeats until then.
    pub(crate) fn lost(window: u64, until: Timestamp) -> Self {
        Self { place: Place::Settling { until }, ..Self::after(0, window) }
    }

    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        frame: Envelope,
        vocabulary: Vocabulary,
    ) -> Arrival {
        match self.numbering {
            None => self.numbering = self.first_numbering(&frame, vocabulary),
            // It counted in `seq` so far: its frames would get the numbers of others.
            Some(Numbering { field: NumberField::Seq, .. }) if frame.session_seq.is_some() => {
                return Arrival::Contradiction;
            }
            Some(_) => {}
        }
        let Some(number) = self.numbering.and_then(|numbering| numbering.number(&frame)) else {
            return Arrival::Unnumbered(frame);
        };
        if number == 0 {
            return Arrival::Contradiction;
        }
        match self.place {
            Place::Known => self.place_known(number, frame),
            Place::Settling { until } => self.place_settling(now, until, number, frame),
        }
    }

    fn first_numbering(&self, frame: &Envelope, vocabulary: Vocabulary) -> Option<Numbering> {
        match self.place {
            Place::Known => Numbering::of_first_frame(frame, vocabulary),
            Place::Settling { .. } => Numbering::of_later_frame(frame, vocabulary),
        }
    }

    /// How the peer counts, once it is known.
    pub(crate) fn numbering(&self) -> Option<Numbering> {
        self.numbering
    }

    fn place_known(&mut self, number: u64, frame: Envelope) -> Arrival {
        if number <= self.delivered {
            return Arrival::Repeated(number, frame);
        }
        if number > self.committed.saturating_add(self.window) {
            return Arrival::Beyond;
        }
        if number == self.delivered + 1 {
            self.delivered = number;
            let mut frames = vec![(number, frame)];
            frames.extend(self.take_contiguous());
            return Arrival::InOrder(frames);
        }
        self.hold(number, frame)
    }

    fn place_settling(
        &mut self,
        now: Timestamp,
        until: Timestamp,
        number: u64,
        frame: Envelope,
    ) -> Arrival {
        let lowest = self.held.first_key_value().map_or(number, |(lowest, _)| *lowest);
        let highest = self.held.last_key_value().map_or(number, |(highest, _)| *highest);
        if highest.max(number) - lowest.min(number) >= self.window {
            // A peer has no more than a window out: what lies further apart is not one stream.
            return if number < lowest { Arrival::Contradiction } else { Arrival::Beyond };
        }
        let arrival = self.hold(number, frame);
        if now < until {
            return arrival;
        }
        Arrival::InOrder(self.settle())
    }

    fn hold(&mut self, number: u64, frame: Envelope) -> Arrival {
        let bytes = frame_bytes(&frame);
        if self.held.contains_key(&number) {
            return Arrival::Held;
        }
        if self.held_bytes + bytes > REORDER_BYTES_MAX {
            return Arrival::Beyond;
        }
        self.held_bytes += bytes;
        self.held.insert(number, frame);
        Arrival::Held
    }

    fn take_contiguous(&mut self) -> Vec<(u64, Envelope)> {
        let mut frames = Vec::new();
        while let Some(frame) = self.held.remove(&(self.delivered + 1)) {
            self.held_bytes -= frame_bytes(&frame);
            self.delivered += 1;
            frames.push((self.delivered, frame));
        }
        frames
    }

    /// The lowest frame that came is the next.
    fn settle(&mut self) -> Vec<(u64, Envelope)> {
        let Some((&lowest, _)) = self.held.first_key_value() else { return Vec::new() };
        self.place = Place::Known;
        self.committed = lowest - 1;
        self.delivered = lowest - 1;
        self.take_contiguous()
    }

    /// The peer says which is the lowest frame that it keeps. An error if frames before it are
    /// missing here: the peer does not have them any more.
    pub(crate) fn peer_keeps_from(&mut self, base: u64) -> Result<(), super::outgoing::Gap> {
        match self.place {
            Place::Known if base > self.delivered + 1 => Err(super::outgoing::Gap),
            Place::Known => Ok(()),
            Place::Settling { .. } => {
                self.place = Place::Known;
                self.committed = base.saturating_sub(1);
                self.delivered = self.committed;
                Ok(())
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        match self.place {
            // With nothing held there is nothing to do then: the next frame settles it.
            Place::Settling { until } if !self.held.is_empty() => Some(until),
            Place::Settling { .. } | Place::Known => None,
        }
    }

    /// Frames that may be delivered because the time to settle is over.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<(u64, Envelope)> {
        if self.next_deadline().is_some_and(|until| until <= now) {
            return self.settle();
        }
        Vec::new()
    }

    /// Goes on over a new connection.
    ///
    /// What is held is forgotten: a peer that lost its buffers may give these numbers to other
    /// frames, and one that did not repeats them.
    pub(crate) fn resume(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }

    /// The upper layer is done with a frame that it was given.
    pub(crate) fn commit(&mut self, number: u64, answer: Option<String>) {
        if number <= self.committed || number > self.delivered {
            return;
        }
        self.committed_early.insert(number);
        if let Some(answer) = answer {
            self.answers.insert(number, answer);
        }
        while self.committed_early.remove(&(self.committed + 1)) {
            self.committed += 1;
        }
        let oldest = (self.committed + 1).saturating_sub(self.window);
        self.answers = self.answers.split_off(&oldest);
    }

    /// Whether a repeated frame is committed, and its sender may still wait to hear so. Of those
    /// a window back the sender knows: it could not have come this far otherwise.
    pub(crate) fn may_be_named(&self, number: u64) -> bool {
        let is_recent = number.saturating_add(self.window) > self.committed;
        let is_committed = number <= self.committed || self.committed_early.contains(&number);
        is_recent && is_committed
    }

    pub(crate) fn answer(&self, number: u64) -> Option<&String> {
        self.answers.get(&number)
    }

    /// All up to this number were given to the upper layer.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// What may be told to the peer; nothing while our place is unknown, or before the peer's
    /// first number where the peer counts from 0.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        if self.place != Place::Known {
            return None;
        }
        let numbering = self.numbering.unwrap_or(Numbering::OURS);
        let bits = self.held.keys().map(|number| 1_u64 << (number - self.committed - 1));
        Some(Receipt {
            ack_seq: numbering.to_wire(self.committed)?,
            ack_bitmap: bits.fold(0, |bitmap, bit| bitmap | bit),
            recv_window: self.window,
        })
    }

    /// What must hold after every step.
    pub(crate) fn check_invariants(&self) {
        assert!(self.committed <= self.delivered, "only what was delivered is committed");
        assert!(self.delivered - self.committed <= self.window, "uncommitted frames are bounded");
        assert!(self.held.len() as u64 <= self.window, "held frames are bounded");
        assert!(self.held_bytes <= REORDER_BYTES_MAX, "held bytes are bounded");
        assert!(self.answers.len() as u64 <= 2 * self.window, "answers are bounded");
        if self.place == Place::Known {
            let mut held = self.held.keys();
            assert!(held.all(|number| *number > self.delivered + 1), "held frames wait");
        }
    }
}

/// How many frames without numbers are remembered; peers repeat a frame within seconds, or never.
pub const UNNUMBERED_MAX: usize = 1024;

/// How many bytes their names may take; a peer that uses long ones is remembered for less long.
pub const UNNUMBERED_BYTES_MAX: usize = 256 << 10;

/// What is known of a frame that comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nothing.
    First,
    /// It was delivered; what it causes is not durable yet.
    Uncommitted,
    /// It is done with, and was answered so.
    Committed(Option<String>),
}

type Key = (String, Option<String>);

/// The last frames without numbers, by id and what they belong to.
#[derive(Debug, Default)]
pub(crate) struct Unnumbered {
    frames: BTreeMap<Key, Meeting>,
    oldest_first: VecDeque<Key>,
    bytes: usize,
}

/// Each name is kept twice.
fn bytes_of((id, corr): &Key) -> usize {
    2 * (id.len() + corr.as_ref().map_or(0, String::len))
}

impl Unnumbered {
    pub(crate) fn meet(&mut self, frame: &Envelope) -> Meeting {
        let key = (frame.id.clone(), frame.corr.clone());
        if let Some(meeting) = self.frames.get(&key) {
            return meeting.clone();
        }
        self.bytes += bytes_of(&key);
        while (self.oldest_first.len() >= UNNUMBERED_MAX || self.bytes > UNNUMBERED_BYTES_MAX)
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.bytes -= bytes_of(&oldest);
            self.frames.remove(&oldest);
        }
        self.frames.insert(key.clone(), Meeting::Uncommitted);
        self.oldest_first.push_back(key);
        Meeting::First
    }

    pub(crate) fn commit(&mut self, named: &Named, answer: Option<&String>) {
        let key = (named.id.clone(), named.corr.clone());
        if let Some(meeting) = self.frames.get_mut(&key) {
            *meeting = Meeting::Committed(answer.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_bounded_in_bytes() {
        let mut unnumbered = Unnumbered::default();
        for n in 0..UNNUMBERED_MAX {
            let frame = format!(
                r#"{{"type":"biz.x","id":"{n:0>256}","ts":"2026-01-31T12:00:00Z","tenant":"t",
                    "sender":{{"role":"worker","id":"w"}},"corr":"{n:0>256}","payload":{{}}}}"#
            );
            let frame = Envelope::from_text(&frame).unwrap();
            assert_eq!(unnumbered.meet(&frame), Meeting::First);
            assert_eq!(unnumbered.meet(&frame), Meeting::Uncommitted);
            let kept: usize = unnumbered.oldest_first.iter().map(bytes_of).sum();
            assert_eq!(kept, unnumbered.bytes);
            assert!(kept <= UNNUMBERED_BYTES_MAX);
            assert_eq!(unnumbered.frames.len(), unnumbered.oldest_first.len());
        }
        assert!(unnumbered.frames.len() < UNNUMBERED_MAX, "some had to go");
    }
}
