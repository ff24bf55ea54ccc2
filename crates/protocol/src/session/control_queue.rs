//! The queue of control frames, which are sent before all business frames of the same session.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use model::{Rng, Timestamp};
use serde_json::value::RawValue;

use super::codec::raw;
use super::envelope::{AckMark, Envelope, Sender, SenderRole};
use super::frame::Speaker;
use super::kind::Kind;
use super::payload::control::Ack;
use super::window::Receipt;

/// Acks that may wait at once; of more, only the receipt is told, which says the same in sum.
const ACKS_WAITING_MAX: usize = 256;

/// Control frames that may wait at once; a peer that does not read must not make us hoard them.
const CONTROL_FRAMES_MAX: usize = 64;

/// A control frame with a larger payload lets the smaller ones pass.
const SMALL_BYTES_MAX: usize = 4096;

/// A frame that is to be named in an ack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) corr: Option<String>,
    pub(crate) seq: Option<u64>,
}

impl Named {
    pub(crate) fn of(frame: &Envelope) -> Self {
        Self { id: frame.id.clone(), corr: frame.corr.clone(), seq: frame.seq }
    }
}

/// One end's voice: names its frames, and keeps control frames until the wire takes them.
#[derive(Debug)]
pub(crate) struct ControlQueue {
    pub(crate) speaker: Speaker,
    pub(crate) rng: Rng,
    pub(crate) now: Timestamp,
    frames_named: u64,
    acks: VecDeque<(Named, Option<String>)>,
    /// A receipt is to be told, whether or not a frame is named with it.
    is_receipt_due: bool,
    small: VecDeque<Arc<Envelope>>,
    large: VecDeque<Arc<Envelope>>,
}

impl ControlQueue {
    pub(crate) fn new(tenant: &str, role: SenderRole, id: &str, seed: u64) -> Self {
        Self {
            speaker: Speaker::new(tenant, Sender { role, id: id.into() }),
            rng: Rng::new(seed),
            now: Timestamp::default(),
            frames_named: 0,
            acks: VecDeque::new(),
            is_receipt_due: false,
            small: VecDeque::new(),
            large: VecDeque::new(),
        }
    }

    /// Time passes; it never runs backwards here, whatever the caller's clock does.
    pub(crate) fn at(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    /// A control frame with the next id, in the words of the peer.
    pub(crate) fn frame(&mut self, kind: Kind, payload: Box<RawValue>) -> Envelope {
        self.named_frame(kind.name_in(self.speaker.vocabulary), payload)
    }

    /// The same with a name that the peer uses for something else.
    pub(crate) fn named_frame(&mut self, name: &'static str, payload: Box<RawValue>) -> Envelope {
        let id = self.next_id(name);
        self.speaker.control(self.now, name, id, payload)
    }

    fn next_id(&mut self, name: &str) -> String {
        let mut id = String::with_capacity(name.len() + 8);
        write!(id, "{name}-{}", self.frames_named).expect("writing to a string cannot fail");
        self.frames_named += 1;
        id
    }

    pub(crate) fn push(&mut self, frame: impl Into<Arc<Envelope>>) {
        let frame = frame.into();
        let is_small = frame.payload.get().len() <= SMALL_BYTES_MAX;
        let queue = if is_small { &mut self.small } else { &mut self.large };
        if queue.len() >= CONTROL_FRAMES_MAX {
            // The oldest is the least worth saying: later heartbeats and registers replace it.
            queue.pop_front();
        }
        queue.push_back(frame);
    }

    /// Names a frame in the next ack.
    pub(crate) fn ack(&mut self, named: Named, info: Option<String>) {
        self.is_receipt_due = true;
        if self.acks.len() < ACKS_WAITING_MAX {
            self.acks.push_back((named, info));
        }
    }

    /// Tells the receipt, unless an ack tells it before.
    pub(crate) fn restate(&mut self) {
        self.is_receipt_due = true;
    }

    /// Forgets what was to be said: the session or the connection that it was for is gone.
    pub(crate) fn clear(&mut self) {
        self.acks.clear();
        self.is_receipt_due = false;
        self.small.clear();
        self.large.clear();
    }

    /// The next control frame; acks are written with the newest receipt.
    pub(crate) fn poll(&mut self, receipt: Option<Receipt>) -> Option<Arc<Envelope>> {
        if let Some((named, info)) = self.acks.pop_front() {
            self.is_receipt_due = false;
            return Some(Arc::new(self.ack_frame(Some(named), info, receipt)));
        }
        if std::mem::take(&mut self.is_receipt_due) && receipt.is_some() {
            return Some(Arc::new(self.ack_frame(None, None, receipt)));
        }
        self.small.pop_front().or_else(|| self.large.pop_front())
    }

    fn ack_frame(
        &mut self,
        named: Option<Named>,
        info: Option<String>,
        receipt: Option<Receipt>,
    ) -> Envelope {
        let of = named.as_ref().map(|named| named.id.clone());
        let payload = Ack {
            ok: Some(true),
            of: of.clone(),
            info,
            ack_seq: receipt.map(|receipt| receipt.ack_seq),
            ack_bitmap: receipt.map(|receipt| receipt.ack_bitmap),
            recv_window: receipt.map(|receipt| receipt.recv_window),
        };
        let mut frame = self.frame(Kind::Ack, raw(&payload));
        if let Some(named) = named {
            frame.corr = named.corr;
            frame.seq = named.seq;
            // The name stands in both places: some peers look only here.
            frame.ack = Some(AckMark { of, request: None });
        }
        frame
    }
}

/// The frame that an ack names, in whichever place.
pub(crate) fn acked_name(frame: &Envelope, ack: &Ack) -> Option<String> {
    let outside = frame.ack.as_ref().and_then(|mark| mark.of.clone());
    outside.or_else(|| ack.of.clone())
}
