//! A reader: a place in the ring, how often it is woken, and the limits of all readers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::RunId;
use protocol::rest::events::EventKind;
use shard::projection::{Event, RunScope};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

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

/// Lets a reader look at once while little happens, and every now and then while much does: turns
/// come by the thousand in a second, and a write for each would cost more than the turns.
#[derive(Debug)]
pub(super) struct Pace {
    /// When all looks that were taken in advance are paid for.
    paid_at: Instant,
    look_at: Instant,
}

/// What looks in advance may come to.
const CREDIT: Duration = LOOK_COSTS.saturating_mul(LOOKS_AT_ONCE);

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid_at: now, look_at: now }
    }

    /// When the reader may look again.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// The reader has looked, and found so many events.
    pub(super) fn looked(&mut self, now: Instant, n_events: usize) {
        let full = now + CREDIT;
        // In a flood there is no credit: the next look finds as much.
        let paid_at = if n_events > FLOOD_EVENTS { full } else { self.paid_at.max(now) };
        self.paid_at = paid_at + LOOK_COSTS;
        self.look_at = if self.paid_at > full { now + LOOK_EVERY } else { now };
    }
}

/// Limit: events of one tenant that are kept for readers that come back; then the oldest go.
pub(super) const RING_EVENTS_MAX: usize = 50_000;
/// Limit: memory that kept events of a tenant take, their JSON included; then the oldest go.
pub(super) const RING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limit: connections of one tenant that read events.
pub(crate) const READERS_MAX: usize = 1_000;
/// Events that a reader looks at in one go.
pub(super) const READ_EVENTS_MAX: usize = 4_096;
/// Limit: a reader with more events before it hears the newest status of each node alone.
pub(super) const BEHIND_EVENTS: usize = 512;
/// What a reader is sent at once.
pub(super) const CHUNK_BYTES_MAX: usize = 128 * 1024;
/// Pages that are shared by readers at the same place: who is slower reads alone.
pub(super) const PAGES_MAX: usize = 8;
/// What the events of one of them may take in memory; a larger one is not shared.
pub(super) const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Limit: written events that are held to be sent to several readers.
pub(super) const SHARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Limit: how often a reader is sent something while much happens.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Looks that a reader may take at once, before it is held to its pace.
const LOOKS_AT_ONCE: u32 = 16;
/// How long it takes until one of them is given back.
const LOOK_COSTS: Duration = Duration::from_millis(4);
/// A reader that finds more than so many events waits before it looks again.
pub(super) const FLOOD_EVENTS: usize = 64;
/// Limit: how long words of workers are kept for readers after the last one has left.
pub(super) const LINGER_FOR: Duration = Duration::from_mins(1);

/// What one reader wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only of this run.
    pub(crate) run: Option<RunId>,
    /// Only of these types, a bit for each.
    kinds: u16,
    /// Of the runs of this browser or program, and of those that belong to none.
    pub(crate) client: Option<String>,
}

/// No type has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no type of events")]
pub(crate) struct UnknownKind(String);

impl Filter {
    /// `types` is a list with commas: names, or beginnings of names with `*`; none is all.
    pub(crate) fn new(
        run: Option<RunId>,
        types: Option<&str>,
        client: Option<String>,
    ) -> Result<Self, UnknownKind> {
        let mut kinds = 0;
        for pattern in types.into_iter().flat_map(|types| types.split(',')).map(str::trim) {
            let named = kinds_named(pattern);
            if named == 0 && !pattern.is_empty() {
                return Err(UnknownKind(pattern.to_owned()));
            }
            kinds |= named;
        }
        if kinds == 0 {
            kinds = kinds_named("*");
        }
        Ok(Self { run, kinds, client })
    }

    /// The types that it lets through, a bit for each.
    pub(super) fn kinds(&self) -> u16 {
        self.kinds
    }

    pub(crate) fn wants_kind(&self, kind: EventKind) -> bool {
        self.kinds & kind.bit() != 0
    }

    pub(super) fn wants(&self, event: &Event) -> bool {
        self.wants_kind(event.kind()) && self.wants_run(event.run.as_deref())
    }

    fn wants_run(&self, of: Option<&RunScope>) -> bool {
        match of {
            None => self.run.is_none(),
            Some(scope) => {
                self.run.is_none_or(|run| run == scope.run)
                    && self.wants_client(scope.client.as_deref())
            }
        }
    }

    /// What belongs to no browser or program is for all, and who says none of them hears all.
    pub(crate) fn wants_client(&self, client: Option<&str>) -> bool {
        match (&self.client, client) {
            (Some(own), Some(client)) => own == client,
            (None, _) | (_, None) => true,
        }
    }
}

fn kinds_named(pattern: &str) -> u16 {
    let fits = |kind: &EventKind| match pattern.strip_suffix('*') {
        Some(start) => kind.word().starts_with(start),
        None => kind.word() == pattern,
    };
    EventKind::ALL.into_iter().filter(fits).map(EventKind::bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_looks_are_at_once_and_many_are_paced() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        for _ in 0..LOOKS_AT_ONCE {
            pace.looked(began, 1);
            assert_eq!(pace.look_at(), began, "at once");
        }
        let (mut now, mut n_looks) = (began, 0);
        while now < began + Duration::from_secs(1) {
            pace.looked(now, 1);
            now = now.max(pace.look_at());
            n_looks += 1;
        }
        let n_paid = Duration::from_secs(1).as_millis() / LOOK_COSTS.as_millis();
        assert!((100..=n_paid + 1).contains(&n_looks), "{n_looks}");
        now += CREDIT + LOOK_EVERY;
        for _ in 0..LOOKS_AT_ONCE {
            pace.looked(now, 1);
            assert_eq!(pace.look_at(), now, "silence gives credit");
        }
    }

    #[test]
    fn a_flood_is_told_now_and_then() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.looked(now, FLOOD_EVENTS + 1);
        assert_eq!(pace.look_at(), now + LOOK_EVERY);
        pace.looked(now + LOOK_EVERY, FLOOD_EVENTS + 1);
        assert_eq!(pace.look_at(), now + LOOK_EVERY * 2);
    }
}

#[cfg(test)]
mod filter_tests {
    use super::*;

    fn names(types: Option<&str>) -> Vec<&'static str> {
        let filter = Filter::new(None, types, None).expect("types");
        EventKind::ALL
            .into_iter()
            .filter(|kind| filter.wants_kind(*kind))
            .map(EventKind::word)
            .collect()
    }

    #[test]
    fn types_are_named_or_begun() {
        assert_eq!(names(Some("run.status")), ["run.status"]);
        assert_eq!(
            names(Some(" run.* , artifact.ready,")),
            ["run.status", "run.snapshot", "artifact.ready"]
        );
        let of_nodes = names(Some("node.*"));
        assert_eq!(of_nodes.len(), 5);
        assert!(of_nodes.iter().all(|name| name.starts_with("node.")));
        assert_eq!(names(Some("node.result.*")), ["node.result.snapshot", "node.result.delta"]);
        for all in [None, Some(""), Some("*")] {
            assert_eq!(names(all).len(), EventKind::ALL.len());
        }
        let wrong = Filter::new(None, Some("run.status,node.stauts"), None);
        assert_eq!(wrong.expect_err("no type"), UnknownKind("node.stauts".to_owned()));
    }

    #[test]
    fn a_run_of_one_client_is_not_for_another() {
        let of =
            |client: Option<&str>| Filter::new(None, None, client.map(str::to_owned)).expect("one");
        assert!(of(Some("a")).wants_client(Some("a")));
        assert!(!of(Some("a")).wants_client(Some("b")));
        assert!(of(Some("a")).wants_client(None));
        assert!(of(None).wants_client(Some("b")));
    }
}
