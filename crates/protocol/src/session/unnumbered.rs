//! Frames without numbers, at their receiver: each is delivered once.

use std::collections::{HashMap, VecDeque};

use super::envelope::Envelope;
use super::lane::Named;

/// How many frames without numbers are remembered; peers repeat a frame within seconds, or never.
pub const UNNUMBERED_MAX: usize = 1024;

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
    frames: HashMap<Key, Meeting>,
    oldest_first: VecDeque<Key>,
}

impl Unnumbered {
    pub(crate) fn meet(&mut self, frame: &Envelope) -> Meeting {
        let key = (frame.id.clone(), frame.corr.clone());
        if let Some(meeting) = self.frames.get(&key) {
            return meeting.clone();
        }
        if self.oldest_first.len() >= UNNUMBERED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
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
