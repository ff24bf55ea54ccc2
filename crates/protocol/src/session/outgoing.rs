//! One direction, at its sender: frames that wait, frames that are out, and when to repeat them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{Rng, Timestamp};

use super::codec::{FRAME_BYTES_MAX, INTEGER_MAX, NAME_CHARS_MAX, raw};
use super::control;
use super::envelope::Envelope;
use super::frame::{BusinessFrame, Speaker, asks_for_ack, count_in_seq, strip};
use super::kind::Vocabulary;
use super::window::{
    ENVELOPE_BYTES, NumberField, Numbering, Receipt, SEQUENCE_ROTATE_AT, WINDOW_FRAMES, frame_bytes,
};

/// The wait before the first repetition; each further one doubles.
pub const REPEAT_DELAY_BASE: Duration = Duration::from_millis(200);

/// The longest wait between two repetitions.
pub const REPEAT_DELAY_MAX: Duration = Duration::from_secs(5);

/// How often a frame is repeated to a peer that does not answer.
pub const REPEATS_MAX: u32 = 6;

/// How long a frame is repeated to a peer that answers, but does not confirm it.
///
/// A server that waits for its store repeats its last receipt; it is slow, not gone.
pub const UNCONFIRMED_MAX: Duration = Duration::from_mins(1);

/// The largest payload that fits a frame, whatever its names are.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - (8 << 10);

/// Limit: a session that has so many bytes waiting or out takes no more frames.
pub const SEND_BYTES_FULL: usize = 512 << 10;

/// A session that has so many frames waiting for their turn takes no more.
pub const SEND_QUEUE_FRAMES_MAX: usize = 1024;

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer does not keep up; what was taken before is safe.
    #[error("session has too much unconfirmed, try again when frames were acknowledged")]
    Full,
    /// No peer would read it.
    #[error(
        "frame of about {bytes} bytes is too large: its payload may have {PAYLOAD_BYTES_MAX} bytes, \
         each of its names {NAME_CHARS_MAX} characters"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// There is no session to send it in.
    #[error("no session is open")]
    NoSession,
}

impl SendError {
    /// Whether the frame can never be sent, whoever the peer is.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

/// The peer claims to be where it cannot be; frames are lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap;

/// A frame that only fills a number.
pub(crate) fn empty_frame(number: u64) -> BusinessFrame {
    BusinessFrame {
        kind: control::VOID.into(),
        id: format!("{}-{number}", control::VOID),
        corr: None,
        seq: None,
        wants_ack: false,
        payload: raw(&serde_json::Map::new()),
    }
}

/// A frame that has a number and is not confirmed.
#[derive(Debug)]
struct Sent {
    frame: Arc<Envelope>,
    /// The counter of the run, which a counter of the transport may stand in for.
    run_seq: Option<u64>,
    bytes: usize,
    /// Since when it is on the wire of this connection.
    since: Option<Timestamp>,
    repeats: u32,
    due: Option<Timestamp>,
    /// The peer named it in an ack that carries no numbers.
    is_confirmed: bool,
}

/// The send window and what waits before it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    window: u64,
    peer_window: u64,
    /// All up to this number are confirmed.
    acked: u64,
    /// The last of them that an ack by name confirmed.
    acked_by_name: u64,
    next: u64,
    /// The frames after `acked`, without a gap.
    unacked: VecDeque<Sent>,
    /// Numbers to repeat at the next opportunity, lowest first.
    ready: BTreeSet<u64>,
    queue: VecDeque<(BusinessFrame, usize)>,
    bytes: usize,
    last_heard: Timestamp,
    numbering: Numbering,
}

impl Outgoing {
    /// Frames follow after `acked`, which the peer has.
    pub(crate) fn after(acked: u64, window: u64) -> Self {
        let window = window.clamp(1, WINDOW_FRAMES);
        Self {
            window,
            peer_window: window,
            acked,
            acked_by_name: 0,
            next: acked + 1,
            unacked: VecDeque::new(),
            ready: BTreeSet::new(),
            queue: VecDeque::new(),
            bytes: 0,
            last_heard: Timestamp::default(),
            numbering: Numbering::OURS,
        }
    }

    pub(crate) fn push(&mut self, frame: BusinessFrame) -> Result<(), SendError> {
        let bytes = waiting_bytes(&frame);
        if !would_be_read(&frame) {
            return Err(SendError::TooLarge { bytes });
        }
        if self.is_full() {
            return Err(SendError::Full);
        }
        self.bytes += bytes;
        self.queue.push_back((frame, bytes));
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= SEND_BYTES_FULL || self.queue.len() >= SEND_QUEUE_FRAMES_MAX
    }

    /// The next frame for the wire: a repetition, or the first of those that wait.
    pub(crate) fn poll(
        &mut self,
        now: Timestamp,
        speaker: &mut Speaker,
        rng: &mut Rng,
    ) -> Option<Arc<Envelope>> {
        let number = match self.ready.pop_first() {
            Some(number) => number,
            None => self.admit(now, speaker)?,
        };
        let sent = self.sent_mut(number)?;
        let frame = Arc::clone(&sent.frame);
        if speaker.vocabulary == Vocabulary::Plain && !asks_for_ack(&frame) {
            // Nobody will ever confirm it: the peer does not count, and is not asked.
            self.confirm(number);
            return Some(frame);
        }
        sent.since.get_or_insert(now);
        sent.due = Some(now.after(repeat_delay(sent.repeats, rng)));
        Some(frame)
    }

    fn sent_mut(&mut self, number: u64) -> Option<&mut Sent> {
        let idx = number.checked_sub(self.acked + 1)?;
        self.unacked.get_mut(usize::try_from(idx).ok()?)
    }

    /// The frames that are out, with their numbers.
    fn numbered_mut(&mut self) -> impl Iterator<Item = (u64, &mut Sent)> {
        (self.acked + 1..).zip(&mut self.unacked)
    }

    /// Gives the first waiting frame a number, if the window has room.
    fn admit(&mut self, now: Timestamp, speaker: &mut Speaker) -> Option<u64> {
        let limit = self.acked.saturating_add(self.window.min(self.peer_window)).min(INTEGER_MAX);
        if self.next > limit {
            return None;
        }
        let (frame, bytes_waiting) = self.queue.pop_front()?;
        let run_seq = frame.seq;
        let mut frame = speaker.business(now, frame, self.next);
        count_in_seq(&mut frame, self.numbering, self.next);
        let bytes = frame_bytes(&frame);
        self.bytes = self.bytes - bytes_waiting + bytes;
        self.unacked.push_back(Sent {
            frame: Arc::new(frame),
            run_seq,
            bytes,
            since: None,
            repeats: 0,
            due: None,
            is_confirmed: false,
        });
        self.next += 1;
        Some(self.next - 1)
    }

    /// The peer counts so: what it was not given yet is counted in the same field.
    pub(crate) fn count_like(&mut self, numbering: Option<Numbering>) {
        let Some(numbering) = numbering.filter(|numbering| *numbering != self.numbering) else {
            return;
        };
        if numbering.field == NumberField::SessionSeq {
            return;
        }
        self.numbering = numbering;
        for (number, sent) in self.numbered_mut() {
            count_in_seq(Arc::make_mut(&mut sent.frame), numbering, number);
        }
    }

    /// Takes a receipt; gives the ids of frames that it confirms.
    ///
    /// A receipt from before the last one, or about frames that were never sent, changes nothing.
    pub(crate) fn on_receipt(&mut self, now: Timestamp, receipt: Receipt) -> Vec<String> {
        let ack_seq = self.numbering.from_wire(receipt.ack_seq);
        let receipt = Receipt { ack_seq, ..receipt };
        if receipt.ack_seq < self.acked || receipt.ack_seq >= self.next {
            return Vec::new();
        }
        self.last_heard = now;
        self.peer_window = receipt.recv_window;
        let confirmed = self.release_up_to(receipt.ack_seq);
        for number in receipt.held() {
            self.defer(number, now);
        }
        confirmed
    }

    /// Takes an ack that names a frame and says nothing about numbers.
    pub(crate) fn on_named(&mut self, now: Timestamp, id: &str) -> Vec<String> {
        self.last_heard = now;
        let named = self.numbered_mut().find(|(_, sent)| sent.frame.id == id);
        let Some((number, sent)) = named else { return Vec::new() };
        let confirmed = if sent.is_confirmed { Vec::new() } else { vec![id.to_owned()] };
        self.confirm(number);
        self.acked_by_name = self.acked;
        confirmed
    }

    /// This frame is done with; it leaves when those before it do.
    fn confirm(&mut self, number: u64) {
        self.unschedule(number);
        if let Some(sent) = self.sent_mut(number) {
            sent.is_confirmed = true;
        }
        let contiguous = self.unacked.iter().take_while(|sent| sent.is_confirmed).count();
        self.release_up_to(self.acked + u64::try_from(contiguous).unwrap_or(0));
    }

    fn release_up_to(&mut self, number: u64) -> Vec<String> {
        let mut confirmed = Vec::new();
        while self.acked < number
            && let Some(sent) = self.unacked.pop_front()
        {
            self.acked += 1;
            self.bytes -= sent.bytes;
            self.ready.remove(&self.acked);
            if sent.frame.kind != control::VOID && !sent.is_confirmed {
                // The wire is mostly done with it by now, and then its id is ours to take.
                let id = Arc::try_unwrap(sent.frame).map(|frame| frame.id);
                confirmed.push(id.unwrap_or_else(|shared| shared.id.clone()));
            }
        }
        confirmed
    }

    /// The peer holds this frame: it need not be repeated soon. It stays here, for the peer may
    /// lose what it holds, and is still repeated, for the ack that confirms it may be lost.
    fn defer(&mut self, number: u64, now: Timestamp) {
        self.unschedule(number);
        if let Some(sent) = self.sent_mut(number)
            && !sent.is_confirmed
        {
            sent.due = Some(now.after(REPEAT_DELAY_MAX));
        }
    }

    fn unschedule(&mut self, number: u64) {
        self.ready.remove(&number);
        if let Some(sent) = self.sent_mut(number) {
            sent.due = None;
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        if self.wants_rotation() {
            return Some(Timestamp::default());
        }
        self.unacked.iter().filter_map(|sent| sent.due).min()
    }

    /// Repeats what is due; gives the id of a frame that was repeated in vain.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<String> {
        let answered_lately = now.since(self.last_heard) <= REPEAT_DELAY_MAX * 2;
        for (number, sent) in (self.acked + 1..).zip(&mut self.unacked) {
            if sent.due.is_none_or(|due| due > now) {
                continue;
            }
            sent.due = None;
            let age = now.since(sent.since.unwrap_or(now));
            if sent.repeats >= REPEATS_MAX && !(answered_lately && age < UNCONFIRMED_MAX) {
                return Some(sent.frame.id.clone());
            }
            sent.repeats = (sent.repeats + 1).min(REPEATS_MAX);
            self.ready.insert(number);
        }
        None
    }

    /// The connection is gone: nothing is due until there is another.
    pub(crate) fn pause(&mut self) {
        self.ready.clear();
        for sent in &mut self.unacked {
            sent.due = None;
        }
    }

    /// Goes on over a new connection: the peer has all up to `last_seen`, and gets the rest again.
    pub(crate) fn resume(&mut self, last_seen: Option<u64>) -> Result<Vec<String>, Gap> {
        let last_seen = last_seen.map(|number| self.numbering.from_wire(number));
        let last_seen = last_seen.unwrap_or(self.acked);
        // A peer that counts from 0, and has not shown it yet, calls the first frame 0. That it has
        // the frame is known by its name.
        let is_from_zero = last_seen + 1 == self.acked && self.acked_by_name == self.acked;
        let last_seen = if is_from_zero { self.acked } else { last_seen };
        if last_seen < self.acked || last_seen >= self.next {
            return Err(Gap);
        }
        self.pause();
        let confirmed = self.release_up_to(last_seen);
        self.peer_window = self.window;
        for (number, sent) in (self.acked + 1..).zip(&mut self.unacked) {
            sent.repeats = 0;
            sent.since = None;
            if !sent.is_confirmed {
                self.ready.insert(number);
            }
        }
        Ok(confirmed)
    }

    /// Takes a frame back. If it has a number, an empty frame takes its place, so that no gap
    /// arises; the peer may have received it all the same.
    pub(crate) fn void(&mut self, now: Timestamp, speaker: &mut Speaker, id: &str) -> bool {
        if let Some(position) = self.queue.iter().position(|(frame, _)| frame.id == id) {
            if let Some((_, bytes)) = self.queue.remove(position) {
                self.bytes -= bytes;
            }
            return true;
        }
        let named = self.numbered_mut().find(|(_, sent)| sent.frame.id == id);
        let Some((number, _)) = named else { return false };
        if speaker.vocabulary == Vocabulary::Plain {
            // Without numbers there is no gap to fill.
            self.confirm(number);
            return true;
        }
        let mut frame = speaker.business(now, empty_frame(number), number);
        count_in_seq(&mut frame, self.numbering, number);
        let bytes = frame_bytes(&frame);
        let Some(sent) = self.sent_mut(number) else { return false };
        sent.frame = Arc::new(frame);
        let bytes_before = std::mem::replace(&mut sent.bytes, bytes);
        self.bytes = self.bytes - bytes_before + bytes;
        true
    }

    /// The lowest number that is kept here; the peer needs none below.
    pub(crate) fn base(&self) -> u64 {
        self.acked + 1
    }

    /// Whether the numbers come to their end, and nothing is out that would be lost with them.
    pub(crate) fn wants_rotation(&self) -> bool {
        self.next > SEQUENCE_ROTATE_AT && self.unacked.is_empty()
    }

    /// Everything that was not confirmed, in order, when the session is given up.
    pub(crate) fn into_frames(self) -> Vec<BusinessFrame> {
        let sent = self.unacked.into_iter().filter(|sent| !sent.is_confirmed);
        let unconfirmed = sent.map(|sent| BusinessFrame {
            seq: sent.run_seq,
            ..strip(Arc::unwrap_or_clone(sent.frame))
        });
        let unconfirmed = unconfirmed.filter(|frame| frame.kind != control::VOID);
        unconfirmed.chain(self.queue.into_iter().map(|(frame, _)| frame)).collect()
    }

    /// What must hold after every step.
    pub(crate) fn check_invariants(&self) {
        let out = self.next - self.acked - 1;
        assert_eq!(self.unacked.len() as u64, out, "every number that is out is kept");
        assert!(out <= self.window, "{out} frames are out");
        let sent: usize = self.unacked.iter().map(|sent| sent.bytes).sum();
        let waiting: usize = self.queue.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(self.bytes, sent + waiting, "bytes are counted");
        let numbers = self.acked + 1..self.next;
        assert!(
            self.ready.iter().all(|number| numbers.contains(number)),
            "only what is out repeats"
        );
    }
}

/// About how many bytes a frame takes that has no envelope yet.
fn waiting_bytes(frame: &BusinessFrame) -> usize {
    let names = frame.kind.len() + frame.id.len() + frame.corr.as_ref().map_or(0, String::len);
    names + frame.payload.get().len() + ENVELOPE_BYTES
}

/// One frame that cannot be written or read would hold up all that follow it, for good.
fn would_be_read(frame: &BusinessFrame) -> bool {
    let names = [&*frame.kind, &*frame.id, frame.corr.as_deref().unwrap_or_default()];
    let is_short = |name: &&str| name.chars().count() <= NAME_CHARS_MAX;
    names.iter().all(is_short) && frame.payload.get().len() <= PAYLOAD_BYTES_MAX
}

/// The wait after so many repetitions, with up to a quarter of jitter.
pub(crate) fn repeat_delay(repeats: u32, rng: &mut Rng) -> Duration {
    let delay = REPEAT_DELAY_BASE.saturating_mul(1 << repeats.min(16)).min(REPEAT_DELAY_MAX);
    delay + rng.up_to(delay / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_wait_twice_as_long_each_time_up_to_a_limit_and_spread() {
        let mut rng = Rng::new(7);
        let expected = [200, 400, 800, 1_600, 3_200, 5_000, 5_000];
        for (repeats, millis) in (0..).zip(expected) {
            let base = Duration::from_millis(millis);
            let delays: Vec<_> = (0..100).map(|_| repeat_delay(repeats, &mut rng)).collect();
            assert!(delays.iter().all(|delay| (base..=base * 5 / 4).contains(delay)), "{repeats}");
            assert!(delays.iter().any(|delay| *delay != delays[0]), "{repeats}: no jitter");
        }
        assert_eq!(REPEATS_MAX, 6);
    }
}
