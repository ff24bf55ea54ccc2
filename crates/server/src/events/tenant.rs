//! The events of one tenant: published, read, and tied to the nodes that their tasks belong to.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};

use coordinator::{RestoredRun, TaskRecord};
use foldhash::fast::RandomState;
use model::{LeaseId, RunId, TaskId, TenantId, Timestamp, WorkerId};
use parking_lot::Mutex;
use protocol::rest::events::{ArtifactReady, EventKind, NodeStatusWord};
use protocol::session::payload::exec::Feedback;
use serde::Serialize;
use serde_json::value::RawValue;
use shard::projection::{ArtifactsNews, Event, News, RunScope};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use super::feedback;
use super::feedback::Words;
use super::page::{Page, Pages};
use super::reader::{Came, Filter, LINGER_FOR, READ_EVENTS_MAX, READERS_MAX, Reader};
use super::ring::{Gone, Ring};
use crate::clock::Clock;
use crate::logs::Snapshot;
#[cfg(test)]
use std::time::Duration;

/// What happened to one tenant's runs and workers, for whoever reads.
pub(crate) struct TenantEvents {
    tenant: TenantId,
    clock: Clock,
    pub(super) ring: Mutex<Ring>,
    index: Mutex<NodeIndex>,
    pages: Mutex<Pages>,
    /// There is more to read, or the shard has begun.
    changed: Notify,
    room: Arc<Semaphore>,
    /// The types that readers want, a bit for each; those of readers that left lately too.
    wanted: AtomicU16,
    /// When the last reader left.
    left_at: AtomicU64,
    has_begun: AtomicBool,
    has_ended: AtomicBool,
}

impl TenantEvents {
    /// `base`: ids up to here may have been used before epochs numbered them.
    pub(crate) fn new(tenant: TenantId, clock: Clock, base: u64) -> Self {
        Self {
            tenant,
            clock,
            ring: Mutex::new(Ring::new(base)),
            index: Mutex::default(),
            pages: Mutex::default(),
            changed: Notify::new(),
            room: Arc::new(Semaphore::new(READERS_MAX)),
            wanted: AtomicU16::new(0),
            left_at: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    /// The tenant's shard begins with what its store holds.
    pub(crate) fn begin(&self, epoch: u64, (tasks, runs): (&[TaskRecord], &[RestoredRun])) {
        *self.index.lock() = NodeIndex::restored(tasks, runs);
        self.begin_epoch(epoch);
    }

    /// The tenant's shard is lost: every reader comes to its end.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    // ----- telling

    /// Tells the events of a durable turn, in order. Never waits.
    pub(crate) fn publish_turn(self: &Arc<Self>, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        self.index.lock().observe(&events);
        self.publish(split_artifacts(events));
    }

    /// Tells events, in order. Never waits.
    fn publish(self: &Arc<Self>, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        self.ring.lock().push(events);
        self.changed.notify_waiters();
    }

    /// What a worker says of an attempt, and all that the attempt said so far. Nobody may listen;
    /// then nothing is made of it.
    pub(crate) fn overhear(
        self: &Arc<Self>,
        lease: LeaseId,
        feedback: &Feedback,
        snapshot: impl FnOnce() -> Option<Snapshot>,
    ) {
        let wanted = self.wanted();
        if wanted & (EventKind::NodeState.bit() | EventKind::NodeResultDelta.bit()) == 0 {
            return;
        }
        let snapshot = snapshot();
        let words = Words { lease, feedback, snapshot: snapshot.as_ref(), at: self.clock.now() };
        let wants = |kind: EventKind| wanted & kind.bit() != 0;
        let events = feedback::make(&mut self.index.lock(), &words, wants);
        self.publish(events);
    }

    /// What is about a worker. Nobody may listen; then nothing is made of it.
    pub(crate) fn tell<D: Serialize>(
        self: &Arc<Self>,
        kind: EventKind,
        worker: &WorkerId,
        data: impl FnOnce() -> D,
    ) {
        if self.wanted() & kind.bit() == 0 {
            return;
        }
        // A number that JSON cannot write says nothing.
        let Ok(json) = serde_json::value::to_raw_value(&data()) else { return };
        let news = News::Told(kind, Some(worker.clone()), json);
        self.publish(vec![Event::new(self.clock.now(), None, news)]);
    }

    /// The types that readers want, or wanted a moment ago.
    fn wanted(&self) -> u16 {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == 0 || self.room.available_permits() < READERS_MAX {
            return wanted;
        }
        let left_at = Timestamp::from_millis(self.left_at.load(Ordering::Relaxed));
        if self.clock.now().since(left_at) <= LINGER_FOR {
            return wanted;
        }
        self.wanted.store(0, Ordering::Relaxed);
        0
    }

    // ----- ids

    /// Whether the shard should raise its epoch, so that events have ids.
    pub(crate) fn wants_epoch(&self) -> bool {
        self.ring.lock().ids().are_low()
    }

    /// The shard has a new epoch: what it told last may be true or not, so readers must look for
    /// themselves.
    pub(crate) fn begin_epoch(&self, epoch: u64) {
        self.ring.lock().begin(epoch);
        self.has_begun.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until the shard has begun, and events can have ids.
    pub(crate) async fn has_ids(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.has_begun.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }

    // ----- reading

    /// A place in the ring, for one who has seen everything up to `seen`, or who wants only what
    /// comes. `None` when there are as many as there may be.
    pub(crate) fn reader(self: &Arc<Self>, filter: Filter, seen: Option<u64>) -> Option<Reader> {
        let permit = Arc::clone(&self.room).try_acquire_owned().ok()?;
        self.wanted.fetch_or(filter.kinds(), Ordering::Relaxed);
        let ring = self.ring.lock();
        let last = ring.last_id();
        let is_known = seen.is_some_and(|id| ring.can_resume(id));
        drop(ring);
        let (from, came) = match seen {
            Some(id) if is_known => (id, Came::Back),
            Some(_) => (last, Came::TooLate),
            None => (last, Came::Fresh),
        };
        Some(Reader::new(Arc::clone(self), filter, (from, last), came, permit))
    }

    /// A reader has left.
    pub(super) fn reader_left(&self) {
        self.left_at.store(self.clock.now().as_millis(), Ordering::Relaxed);
        // The one that leaves still has its place.
        if self.room.available_permits() + 1 >= READERS_MAX {
            self.pages.lock().clear();
        }
    }

    /// The last reader left so long ago.
    #[cfg(test)]
    pub(super) fn pretend_left(&self, ago: Duration) {
        let millis = u64::try_from(ago.as_millis()).expect("a moment ago");
        self.left_at.fetch_sub(millis, Ordering::Relaxed);
    }

    /// What comes next for one who has seen everything up to `id`; the same page for all who want
    /// the same, while they keep up with each other.
    pub(super) fn page(&self, filter: &Filter, id: u64) -> Result<Option<Arc<Page>>, Gone> {
        let shared = {
            let pages = self.pages.lock();
            if let Some(page) = pages.find(filter, id) {
                return Ok(Some(page));
            }
            Arc::clone(&pages.shared)
        };
        // Others are not kept from their pages meanwhile.
        let page = self.own_page(filter, id, &shared)?;
        Ok(page.map(|page| self.pages.lock().keep(page)))
    }

    /// The same for one who reads alone.
    pub(super) fn page_alone(&self, filter: &Filter, id: u64) -> Result<Option<Arc<Page>>, Gone> {
        self.own_page(filter, id, &Arc::default())
    }

    fn own_page(
        &self,
        filter: &Filter,
        id: u64,
        shared: &Arc<AtomicUsize>,
    ) -> Result<Option<Arc<Page>>, Gone> {
        let batches = self.ring.lock().after(id, READ_EVENTS_MAX)?;
        let has_some = !batches.is_empty();
        Ok(has_some.then(|| Page::new(filter.clone(), id, batches, Arc::clone(shared)).into()))
    }

    /// Written events that are held to be sent to several readers.
    #[cfg(test)]
    pub(super) fn shared_bytes(&self) -> usize {
        self.pages.lock().shared.load(Ordering::Relaxed)
    }

    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The id of the newest event.
    pub(crate) fn last_id(&self) -> u64 {
        self.ring.lock().last_id()
    }
}

/// Things that one node left behind and that are told one by one.
const ARTIFACTS_TOLD_MAX: usize = 100;

/// Each thing that a node left behind is an event of its own.
fn split_artifacts(events: Vec<Event>) -> Vec<Event> {
    if !events.iter().any(|event| matches!(event.news, News::Artifacts(_))) {
        return events;
    }
    let mut split = Vec::with_capacity(events.len());
    for event in events {
        match (&event.news, &event.run) {
            (News::Artifacts(news), Some(run)) => {
                split.extend(artifacts_of(news, run).map(|told| {
                    let news = News::Told(EventKind::ArtifactReady, None, told);
                    Event::new(event.at, event.run.clone(), news)
                }));
            }
            _ => split.push(event),
        }
    }
    split
}

/// What is no list is the worker's own, and is seen in the result.
fn artifacts_of(news: &ArtifactsNews, run: &RunScope) -> impl Iterator<Item = Box<RawValue>> {
    let list: Vec<Box<RawValue>> = serde_json::from_slice(&news.list).unwrap_or_default();
    let (run_id, node_id) = (run.run.to_string(), news.step.id.to_string());
    let task_id = news.task.map(|task| task.to_string());
    list.into_iter().take(ARTIFACTS_TOLD_MAX).filter_map(move |artifact| {
        let data = ArtifactReady {
            kind: EventKind::ArtifactReady.word().into(),
            run_id: run_id.as_str().into(),
            node_id: node_id.as_str().into(),
            task_id: task_id.as_deref().map(Into::into),
            artifact: Cow::Borrowed(&artifact),
        };
        serde_json::value::to_raw_value(&data).ok()
    })
}

/// The live tasks of a tenant's runs, fed by the events of its shard.
#[derive(Debug, Default)]
pub(super) struct NodeIndex {
    tasks: HashMap<TaskId, IndexedTask, RandomState>,
}

#[derive(Debug)]
struct IndexedTask {
    run: Arc<RunScope>,
    step_id: Uuid,
    /// The lease of the newest output, and how many pieces of it were told.
    epoch: u32,
    n_deltas: u32,
}

impl NodeIndex {
    /// What a restart brings back.
    pub(super) fn restored(tasks: &[TaskRecord], runs: &[RestoredRun]) -> Self {
        let scope = |run: &RestoredRun| {
            let client = run.record.about.client_id.as_deref().map(Box::from);
            (run.record.id, Arc::new(RunScope { run: run.record.id, client }))
        };
        let scopes: HashMap<RunId, Arc<RunScope>, RandomState> = runs.iter().map(scope).collect();
        let mut index = Self::default();
        for task in tasks {
            if let Some(link) = &task.link
                && let Some(run) = scopes.get(&link.run)
            {
                index.add(task.id, run, link.step_id);
            }
        }
        index
    }

    /// Takes in what the events say of tasks.
    pub(super) fn observe(&mut self, events: &[Event]) {
        for event in events {
            let (News::Status(news), Some(run)) = (&event.news, &event.run) else { continue };
            let Some(task) = news.task else { continue };
            match news.status {
                NodeStatusWord::Queued | NodeStatusWord::Dispatching | NodeStatusWord::Running => {
                    self.add(task, run, news.step.id);
                }
                NodeStatusWord::Completed
                | NodeStatusWord::Failed
                | NodeStatusWord::Cancelled
                | NodeStatusWord::Skipped => drop(self.tasks.remove(&task)),
            }
        }
    }

    fn add(&mut self, task: TaskId, run: &Arc<RunScope>, step_id: Uuid) {
        let new = || IndexedTask { run: Arc::clone(run), step_id, epoch: 0, n_deltas: 0 };
        self.tasks.entry(task).or_insert_with(new);
    }

    /// The run and the node of a task.
    pub(super) fn node_of(&self, task: TaskId) -> Option<(Arc<RunScope>, Uuid)> {
        self.tasks.get(&task).map(|task| (Arc::clone(&task.run), task.step_id))
    }

    /// The place of the next piece of output under a lease.
    pub(super) fn next_delta(&mut self, lease: LeaseId) -> u32 {
        let Some(task) = self.tasks.get_mut(&lease.task) else { return 0 };
        if task.epoch != lease.epoch {
            (task.epoch, task.n_deltas) = (lease.epoch, 0);
        }
        task.n_deltas += 1;
        task.n_deltas
    }
}
