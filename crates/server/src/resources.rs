//! Resources of workers, as the server knows them: what there is, and how the bytes get through it,
//! part by part, as fast as their reader takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use model::{TenantId, Timestamp, WorkerId};
use parking_lot::Mutex;
use protocol::session::codec::OpenObject;
use protocol::session::payload::control::{ResourceMetrics, ToldResource};
use protocol::session::payload::resource::{Artifact, CHUNK_BYTES_MAX};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::directory::Directory;
use crate::links::ToLink;

/// Limit: resources of workers that are remembered, per tenant.
const RESOURCES_PER_TENANT_MAX: usize = 10_000;

/// A resource that some worker keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) resource_type: String,
    pub(crate) worker: WorkerId,
    pub(crate) scope: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) created_at: Option<String>,
    pub(crate) expires_at: Option<String>,
    pub(crate) metadata: Option<OpenObject>,
    told_at: Timestamp,
}

impl Known {
    fn told(one: ToldResource, worker: &WorkerId, told_at: Timestamp) -> Self {
        Self {
            id: one.resource_id,
            resource_type: one.resource_type,
            worker: worker.clone(),
            scope: one.scope,
            size_bytes: Some(one.size_bytes),
            created_at: one.created_at,
            expires_at: one.expires_at,
            metadata: one.metadata,
            told_at,
        }
    }

    fn left(artifact: &Artifact, worker: &WorkerId, told_at: Timestamp) -> Self {
        Self {
            id: artifact.resource_id.clone(),
            resource_type: artifact.resource_type.clone(),
            worker: worker.clone(),
            scope: None,
            size_bytes: artifact.size_bytes,
            created_at: Some(told_at.to_string()),
            expires_at: artifact.expires_at.clone(),
            metadata: artifact.metadata.clone(),
            told_at,
        }
    }

    /// Whether its time is over, by what was said of it last.
    fn is_over(&self, now: Timestamp) -> bool {
        let end = self.expires_at.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
        end.is_some_and(|end| end <= now)
    }
}

/// All resources of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Catalog(Mutex<Resources>);

#[derive(Debug, Default)]
struct Resources {
    by_id: BTreeMap<String, Known>,
    by_worker: BTreeMap<WorkerId, BTreeSet<String>>,
}

impl Catalog {
    /// A worker says what it keeps. What it does not name is gone, if it named all.
    pub(crate) fn note_heartbeat(&self, worker: &WorkerId, told: ResourceMetrics, now: Timestamp) {
        let mut own = self.0.lock();
        if told.count == 0 && !own.has_any_of(worker) {
            return;
        }
        let is_complete = u64::try_from(told.list.len()).is_ok_and(|n_told| n_told == told.count);
        if is_complete {
            let named: BTreeSet<&str> =
                told.list.iter().map(|one| one.resource_id.as_str()).collect();
            own.forget_where(worker, |id| !named.contains(id));
        }
        for one in told.list {
            own.put(Known::told(one, worker, now));
        }
        own.shrink();
    }

    /// A worker left these behind, by the word of a result.
    pub(crate) fn note_artifacts(&self, worker: &WorkerId, artifacts: &[Artifact], now: Timestamp) {
        let kept = artifacts.iter().filter(|artifact| artifact.inline != Some(true));
        let kept: Vec<_> = kept.map(|artifact| Known::left(artifact, worker, now)).collect();
        if kept.is_empty() {
            return;
        }
        let mut own = self.0.lock();
        for one in kept {
            own.put(one);
        }
        own.shrink();
    }

    /// One resource.
    pub(crate) fn get(&self, id: &str, now: Timestamp) -> Option<Known> {
        self.0.lock().by_id.get(id).filter(|known| !known.is_over(now)).cloned()
    }

    /// Resources by name, after `after`; no more than `limit` of those that are meant.
    pub(crate) fn list(
        &self,
        (after, limit): (Option<&str>, usize),
        is_meant: impl Fn(&Known) -> bool,
        now: Timestamp,
    ) -> Vec<Known> {
        let own = self.0.lock();
        let is_next = |known: &&Known| after.is_none_or(|after| known.id.as_str() > after);
        let there = own.by_id.values().filter(is_next).filter(|known| !known.is_over(now));
        there.filter(|known| is_meant(known)).take(limit).cloned().collect()
    }
}

impl Resources {
    fn has_any_of(&self, worker: &WorkerId) -> bool {
        self.by_worker.contains_key(worker)
    }

    fn put(&mut self, known: Known) {
        self.forget(&known.id.clone());
        self.by_worker.entry(known.worker.clone()).or_default().insert(known.id.clone());
        self.by_id.insert(known.id.clone(), known);
    }

    fn forget(&mut self, id: &str) {
        let Some(known) = self.by_id.remove(id) else { return };
        if let Some(of_worker) = self.by_worker.get_mut(&known.worker) {
            of_worker.remove(id);
            if of_worker.is_empty() {
                self.by_worker.remove(&known.worker);
            }
        }
    }

    fn forget_where(&mut self, worker: &WorkerId, goes: impl Fn(&str) -> bool) {
        let of_worker = self.by_worker.get(worker).into_iter().flatten();
        let gone: Vec<String> = of_worker.filter(|id| goes(id)).cloned().collect();
        for id in gone {
            self.forget(&id);
        }
    }

    fn shrink(&mut self) {
        let n_over = self.by_id.len().saturating_sub(RESOURCES_PER_TENANT_MAX);
        if n_over == 0 {
            return;
        }
        let mut by_age: Vec<_> =
            self.by_id.values().map(|known| (known.told_at, known.id.clone())).collect();
        by_age.sort();
        for (_, id) in by_age.into_iter().take(n_over) {
            self.forget(&id);
        }
    }
}

/// Limit: parts of 64 KiB that a download holds in memory.
const PARTS_AHEAD_MAX: usize = 4;

/// How long a worker that has gone may take to come back, in the middle of a download.
const AWAY_MAX: Duration = Duration::from_secs(15);
/// How long a worker may take for one part; it says everything else first.
const PART_WITHIN: Duration = Duration::from_mins(1);
/// The pause before a worker is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A part that someone waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) resource_id: String,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Dropped without a word where the session has no room, or is lost: then it is asked again.
    pub(crate) reply: oneshot::Sender<Result<Bytes, ReadFailure>>,
}

/// Why a part cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadFailure {
    #[error("the worker has the resource no longer")]
    Missing,
    #[error("the worker that has the resource is not connected")]
    Away,
    #[error("the worker cannot read the resource: {0}")]
    Unreadable(String),
    #[error("the worker did not send the next part in time")]
    Late,
}

/// Where a resource is.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) directory: Directory,
    pub(crate) tenant: TenantId,
    pub(crate) worker: WorkerId,
    pub(crate) resource_id: String,
}

impl Source {
    /// These bytes, part by part. Nothing is read before someone wants it.
    pub(crate) fn stream(self, bytes: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> {
        let (source, end) = (Arc::new(self), bytes.end);
        let reader = Arc::clone(&source);
        let read = move |offset| {
            let reader = Arc::clone(&reader);
            async move { reader.read_whole(offset, CHUNK_BYTES_MAX.min(end - offset)).await }
        };
        let step = usize::try_from(CHUNK_BYTES_MAX).expect("a part fits into memory");
        let parts = stream::iter(bytes.step_by(step)).map(read).buffered(PARTS_AHEAD_MAX);
        parts.map_err(move |error| {
            let resource_id = &source.resource_id;
            tracing::warn!(resource_id, %error, "a download ends too early");
            io::Error::other(error)
        })
    }

    async fn read_whole(&self, offset: u64, length: u64) -> Result<Bytes, ReadFailure> {
        let part = self.read(offset, length).await?;
        if part.len() as u64 == length {
            return Ok(part);
        }
        Err(ReadFailure::Unreadable("it is shorter than it was".to_owned()))
    }

    /// Reads a part, through every reconnect of its worker.
    async fn read(&self, offset: u64, length: u64) -> Result<Bytes, ReadFailure> {
        let (began, mut seen_at) = (Instant::now(), Instant::now());
        while began.elapsed() < PART_WITHIN {
            let (reply, answer) = oneshot::channel();
            let resource_id = self.resource_id.clone();
            let wanted = Wanted { resource_id, offset, length, reply };
            let word = ToLink::Read(Box::new(wanted));
            // Looked up for each part: a shard that is rebuilt has another handle.
            if let Some(handle) = self.directory.find(&self.tenant)
                && handle.tell_worker(self.worker.clone(), word).await
            {
                seen_at = Instant::now();
                let left = PART_WITHIN.saturating_sub(began.elapsed());
                match tokio::time::timeout(left, answer).await {
                    Ok(Ok(answer)) => return answer,
                    Ok(Err(_)) => {}
                    Err(_) => return Err(ReadFailure::Late),
                }
            } else if seen_at.elapsed() >= AWAY_MAX {
                return Err(ReadFailure::Away);
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        Err(ReadFailure::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    #[test]
    fn what_a_worker_no_longer_names_is_gone_if_it_named_all() {
        let catalog = Catalog::default();
        note(&catalog, "w1", &["a", "b"], 2);
        note(&catalog, "w2", &["c"], 1);
        assert_eq!(names(&catalog), ["a", "b", "c"]);
        note(&catalog, "w1", &["b"], 300);
        assert_eq!(names(&catalog), ["a", "b", "c"], "it keeps more than it names");
        note(&catalog, "w1", &["b"], 1);
        assert_eq!(names(&catalog), ["b", "c"]);
        note(&catalog, "w1", &[], 0);
        assert_eq!(names(&catalog), ["c"]);
    }

    #[test]
    fn artifacts_are_known_before_the_next_heartbeat_and_inline_ones_are_no_resources() {
        let catalog = Catalog::default();
        let artifact = |id: &str, inline| Artifact {
            resource_id: id.into(),
            worker_name: "w1".into(),
            resource_type: "file".into(),
            size_bytes: Some(7),
            inline,
            expires_at: Some("2026-01-01T00:00:00Z".into()),
            metadata: None,
        };
        let artifacts = [artifact("a", None), artifact("b", Some(true))];
        catalog.note_artifacts(&worker("w1"), &artifacts, Timestamp::default());
        let early = Timestamp::default();
        let known = catalog.get("a", early).expect("known");
        assert_eq!((known.size_bytes, known.worker), (Some(7), worker("w1")));
        assert_eq!(catalog.get("b", early), None);
        assert_eq!(catalog.get("a", NOW), None, "its time is over");
    }

    #[test]
    fn so_many_are_remembered_and_the_oldest_are_forgotten() {
        let catalog = Catalog::default();
        note(&catalog, "w1", &["first"], 9);
        let later = NOW.after(std::time::Duration::from_secs(1));
        let list: Vec<_> =
            (0..RESOURCES_PER_TENANT_MAX).map(|n| told(&format!("r{n:05}"))).collect();
        let all = ResourceMetrics { count: 99_999, list, ..ResourceMetrics::default() };
        catalog.note_heartbeat(&worker("w2"), all, later);
        assert_eq!(catalog.get("first", NOW), None);
        let all = catalog.list((None, usize::MAX), |_| true, NOW);
        assert_eq!(all.len(), RESOURCES_PER_TENANT_MAX);
        let page = catalog.list((Some("r09997"), 10), |one| one.id != "r09998", NOW);
        assert_eq!(page.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["r09999"]);
    }

    fn note(catalog: &Catalog, name: &str, ids: &[&str], count: u64) {
        let list = ids.iter().map(|id| told(id)).collect();
        let told = ResourceMetrics { count, list, ..ResourceMetrics::default() };
        catalog.note_heartbeat(&worker(name), told, NOW);
    }

    fn told(id: &str) -> ToldResource {
        ToldResource {
            resource_id: id.into(),
            resource_type: "file".into(),
            scope: None,
            size_bytes: 1,
            created_at: None,
            expires_at: None,
            metadata: None,
        }
    }

    fn names(catalog: &Catalog) -> Vec<String> {
        let all = catalog.list((None, usize::MAX), |_| true, NOW);
        all.into_iter().map(|one| one.id).collect()
    }

    fn worker(name: &str) -> WorkerId {
        name.parse().expect("a name")
    }
}
