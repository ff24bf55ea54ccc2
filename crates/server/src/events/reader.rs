//! One who reads: a place in the ring, and what is sent next.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::filter::Filter;
use super::pace::Pace;
use super::page::{Page, ReplayedTo};
use super::ring::Gone;
use super::tenant::TenantEvents;

/// Proxies, and readers, give up on connections that are silent for longer.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Reads the events of a tenant.
pub(crate) struct Reader {
    events: Arc<TenantEvents>,
    filter: Filter,
    /// Everything up to here was looked at.
    seen: u64,
    /// Everything up to here happened before this reader came.
    replayed_to: u64,
    came: Came,
    reading: Option<Reading>,
    pace: Pace,
    heartbeat_at: Instant,
    /// The id that the other side was told last.
    told: u64,
    _permit: OwnedSemaphorePermit,
}

/// What is being sent.
struct Reading {
    page: Arc<Page>,
    /// Where the next piece begins.
    place: usize,
    is_alone: bool,
}

/// How a reader came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// For what happens from here on.
    Fresh,
    /// Back, and everything since it left is here.
    Back,
    /// Back, and it has missed something that nobody can tell any more.
    TooLate,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Bytes for the other side.
    Bytes(Bytes),
    /// It was too slow: what comes next for it is gone.
    TooSlow,
    /// The tenant's shard is lost: nothing more comes here.
    Lost,
}

impl Reader {
    pub(super) fn new(
        events: Arc<TenantEvents>,
        filter: Filter,
        (seen, replayed_to): (u64, u64),
        came: Came,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let now = Instant::now();
        Self {
            events,
            filter,
            seen,
            replayed_to,
            came,
            reading: None,
            pace: Pace::new(now),
            heartbeat_at: now + HEARTBEAT_EVERY,
            told: seen,
            _permit: permit,
        }
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The id of the newest event before this reader came.
    pub(crate) fn began_at(&self) -> u64 {
        self.replayed_to
    }

    pub(crate) fn came(&self) -> Came {
        self.came
    }

    pub(crate) fn tenant(&self) -> &Arc<TenantEvents> {
        &self.events
    }

    /// Events that it has not looked at, or not sent.
    #[cfg(test)]
    pub(super) fn lag(&self) -> u64 {
        let unsent = self.reading.as_ref().map_or(0, |reading| reading.page.left(reading.place));
        self.events.last_id() - self.seen + unsent as u64
    }

    /// Lets it look again at once.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        self.pace = Pace::new(Instant::now());
    }

    /// The next bytes, as soon as there are some. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Said {
        loop {
            if let Some(bytes) = self.write() {
                return Said::Bytes(bytes);
            }
            let events = Arc::clone(&self.events);
            let changed = events.changed().notified();
            tokio::pin!(changed);
            if Instant::now() < self.pace.look_at() {
                tokio::time::sleep_until(self.pace.look_at()).await;
            }
            // Listen first, then look: what comes between is not missed.
            changed.as_mut().enable();
            if self.events.has_ended() {
                return Said::Lost;
            }
            match self.look() {
                Err(Gone) => return Said::TooSlow,
                Ok(Some(page)) => self.take_up(page),
                Ok(None) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(self.heartbeat_at) => {
                        return Said::Bytes(self.heartbeat());
                    }
                },
            }
        }
    }

    /// Who hears of the past is told so, and reads alone.
    fn is_replaying(&self) -> bool {
        self.seen < self.replayed_to
    }

    fn look(&self) -> Result<Option<Arc<Page>>, Gone> {
        if self.is_replaying() {
            self.events.page_alone(&self.filter, self.seen)
        } else {
            self.events.page(&self.filter, self.seen)
        }
    }

    fn take_up(&mut self, page: Arc<Page>) {
        self.pace.looked(Instant::now(), page.n_events);
        let is_alone = self.is_replaying();
        self.seen = page.last;
        self.reading = Some(Reading { page, place: 0, is_alone });
    }

    /// The next bytes of the page that is being read.
    fn write(&mut self) -> Option<Bytes> {
        let reading = self.reading.as_mut()?;
        let tenant = self.events.tenant().as_str();
        let piece = if reading.is_alone {
            reading.page.write(reading.place, tenant, ReplayedTo(self.replayed_to))
        } else {
            reading.page.piece(reading.place, tenant)
        };
        let Some(piece) = piece else {
            // What was told is the ring's alone again.
            self.reading = None;
            return None;
        };
        reading.place = piece.to;
        self.told = piece.told;
        self.heartbeat_at = Instant::now() + HEARTBEAT_EVERY;
        Some(piece.bytes)
    }

    /// A comment. Where events passed that the other side does not want, it learns the newest id,
    /// so that it can come back without a gap.
    fn heartbeat(&mut self) -> Bytes {
        self.heartbeat_at = Instant::now() + HEARTBEAT_EVERY;
        if self.told == self.seen {
            return Bytes::from_static(b": heartbeat\n\n");
        }
        self.told = self.seen;
        format!(": heartbeat\nid: {}\n\n", self.seen).into()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.events.reader_left();
    }
}
