//! What the connections of the Redis door know together of one tenant's workers. It decides nothing: who
//! is registered is decided in the shard, and told here when it is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{TaskId, Timestamp, WorkerId};
use parking_lot::Mutex;
use shard::sessions::Registration;
use tokio::sync::watch;

use super::registration::abilities;
use super::resp_worker::{HeldJob, RespWorker};

/// The workers of one tenant that speak the Redis protocol, by name. The shard bounds them: it is
/// told of each new name, and tells which ones are forgotten.
#[derive(Default)]
pub(crate) struct WorkerRegistry {
    workers: Mutex<BTreeMap<WorkerId, RespWorker>>,
    is_loaded: watch::Sender<bool>,
}

impl WorkerRegistry {
    /// The shard was restored: all else that was known is gone with the former one.
    pub(crate) fn restore<'a>(
        &self,
        registered: impl Iterator<Item = (&'a WorkerId, &'a Arc<Registration>)>,
    ) {
        let restored = registered.map(|(worker, own)| {
            // What was taken in once can be read; a worker that cannot offers nothing of its own.
            let abilities = abilities(worker, own.metadata.get()).unwrap_or_default();
            (worker.clone(), RespWorker::registered(Arc::clone(own), abilities))
        });
        *self.workers.lock() = restored.collect();
        self.is_loaded.send_replace(true);
    }

    /// Waits until it is known who is registered.
    pub(crate) async fn until_loaded(&self) {
        let mut is_loaded = self.is_loaded.subscribe();
        is_loaded.wait_for(|is_loaded| *is_loaded).await.expect("the sender lives with self");
    }

    /// Workers registered, or were forgotten.
    pub(crate) fn apply(&self, members: Vec<(WorkerId, Option<Arc<Registration>>)>) {
        let mut workers = self.workers.lock();
        for (worker, registration) in members {
            match registration {
                Some(own) => workers.entry(worker).or_default().registration = Some(own),
                None => {
                    workers.remove(&worker);
                }
            }
        }
    }

    /// Looks at a worker, and says whether it was unknown before.
    pub(crate) fn with<T>(
        &self,
        worker: &WorkerId,
        look: impl FnOnce(&mut RespWorker) -> T,
    ) -> (T, bool) {
        let mut workers = self.workers.lock();
        if let Some(known) = workers.get_mut(worker) {
            return (look(known), false);
        }
        (look(workers.entry(worker.clone()).or_default()), true)
    }

    /// Looks at a worker that is known.
    pub(crate) fn known<T>(
        &self,
        worker: &WorkerId,
        look: impl FnOnce(&mut RespWorker) -> T,
    ) -> Option<T> {
        self.workers.lock().get_mut(worker).map(look)
    }

    /// Walks over the workers, by name.
    pub(crate) fn each(&self, mut look: impl FnMut(&WorkerId, &RespWorker)) {
        self.workers.lock().iter().for_each(|(worker, known)| look(worker, known));
    }

    /// Whether another credential registered a worker that lives.
    pub(crate) fn is_anothers(&self, worker: &WorkerId, credential: &str, now: Timestamp) -> bool {
        let is_anothers = self.known(worker, |known| {
            known.registration.as_ref().is_some_and(|own| own.credential != credential)
                && known.is_alive(now)
        });
        is_anothers == Some(true)
    }

    /// A worker was heard of.
    pub(crate) fn touch(&self, worker: &WorkerId, now: Timestamp) {
        self.known(worker, |known| known.last_seen = now);
    }

    /// The lease that a job of this worker is held by, as far as it is remembered.
    pub(crate) fn held(&self, worker: &WorkerId, job: &str) -> Option<HeldJob> {
        self.known(worker, |known| known.held(job).cloned()).flatten()
    }

    pub(crate) fn let_go(&self, worker: &WorkerId, task: TaskId) {
        self.known(worker, |known| known.let_go(task));
    }

    /// What a worker said of itself.
    pub(crate) fn metadata(&self, worker: &WorkerId) -> Option<Bytes> {
        let text = |own: &Arc<Registration>| Bytes::copy_from_slice(own.metadata.get().as_bytes());
        self.known(worker, |known| known.registration.as_ref().map(text)).flatten()
    }
}
