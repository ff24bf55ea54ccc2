//! Frames without numbers, at their receiver: each is delivered once.

use std::collections::{BTreeMap, VecDeque};

use super::envelope::Envelope;
use super::lane::Named;

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
