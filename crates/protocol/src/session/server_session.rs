//! A session as the server keeps it, apart from the connection that carries it.

use std::sync::Arc;

use model::Timestamp;

use super::event::CommitToken;
use super::frame::BusinessFrame;
use super::incoming::{Incoming, SETTLE_DELAY};
use super::kind::Vocabulary;
use super::outgoing::{Gap, Outgoing, empty_frame};
use super::window::Windows;

/// What the worker gets when its session is accepted.
#[derive(Clone, Debug)]
pub struct SessionAccept {
    /// Names the session.
    pub session_id: String,
    /// Opens it again.
    pub session_token: String,
    /// Whose session it is.
    pub worker_instance_id: String,
    /// When the token ends.
    pub expires_at: Option<Timestamp>,
}

/// Both windows of a session, apart from any connection.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) window: u64,
    /// None after a restart: the worker's words tell where we were.
    pub(crate) windows: Option<Windows>,
}

impl Session {
    /// A session that is known, but whose buffers were lost with the process that held them.
    pub fn restored(id: &str, window: u64) -> Self {
        Self { id: id.into(), window, windows: None }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Commits a frame while no connection carries the session; the ack is told at the resume.
    pub fn commit(&mut self, token: &CommitToken, answer: Option<String>) {
        if token.session != self.id {
            return;
        }
        let Some(windows) = &mut self.windows else { return };
        match (token.number, &token.named) {
            (Some(number), _) => windows.incoming.commit(number, answer),
            (None, Some(named)) => windows.unnumbered.commit(named, answer.as_ref()),
            (None, None) => {}
        }
    }

    /// Everything that the worker has not confirmed, when the session is given up.
    pub fn into_unconfirmed(self) -> Vec<BusinessFrame> {
        self.windows.map(|windows| windows.outgoing.into_frames()).unwrap_or_default()
    }

    /// Finds the place in both directions, or learns that there is none.
    pub(crate) fn find_place(
        &mut self,
        now: Timestamp,
        asked: &AskedResume,
        vocabulary: Vocabulary,
    ) -> Result<Vec<String>, Gap> {
        let last_seen = asked.last_seen;
        let mut confirmed = Vec::new();
        if let Some(windows) = &mut self.windows {
            confirmed = windows.outgoing.resume(last_seen)?;
            windows.incoming.resume();
        }
        let windows = match &mut self.windows {
            Some(windows) => windows,
            lost => lost.insert(Windows::of(
                asked.lost_outgoing(self.window, vocabulary)?,
                Incoming::lost(self.window, now.after(SETTLE_DELAY)),
            )),
        };
        if let Some(base) = asked.send_base {
            windows.incoming.peer_keeps_from(base)?;
        }
        Ok(confirmed)
    }
}

/// What the worker said of its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedResume {
    pub(crate) last_seen: Option<u64>,
    pub(crate) send_base: Option<u64>,
}

impl AskedResume {
    /// What to send after the windows were lost.
    ///
    /// Nobody knows any more whether a stranger counts from 0 or from 1, so the next number may be
    /// one that it has. An empty frame takes that number: the peer drops it as a duplicate, or
    /// passes over it, and the frame after it is new either way. Our own workers count from 1.
    fn lost_outgoing(&self, window: u64, vocabulary: Vocabulary) -> Result<Outgoing, Gap> {
        let last_seen = self.last_seen.ok_or(Gap)?;
        let mut outgoing = Outgoing::after(last_seen, window);
        if vocabulary == Vocabulary::Prefixed && self.send_base.is_none() {
            let seq = Some(0); // It is counted where this peer may look for a number.
            let empty = BusinessFrame { seq, wants_ack: true, ..empty_frame(last_seen + 1) };
            outgoing.push(empty).map_err(|_| Gap)?;
        }
        Ok(outgoing)
    }
}
