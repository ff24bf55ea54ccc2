//! The hub: doors bring feedback here, readers take it from here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use model::{LeaseId, TaskId};
use parking_lot::Mutex;
use protocol::session::payload::feedback::Feedback;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

use super::chunk::{NewChunk, read_chunks};
use super::folder::Folder;
use super::followers::{Follower, Followers};
use super::index::Index;
use super::limits::{LogLimits, QUEUE_BYTES_MAX, TAKE_WITHIN};
use super::losses::Losses;
use super::reader::{LogCursor, LogPage};
use super::snapshot::{Snapshot, Snapshots};
use super::writer::{Append, Job, Shared, Writer, Written};
use crate::clock::Clock;
use crate::handle::ShardHandle;

/// What a chunk takes in the queue beside its bytes, roughly.
const CHUNK_BYTES: usize = 256;
/// Pages that are read at the same time, so that readers leave threads to others.
const READS_MAX: usize = 8;

/// The folder of logs cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep logs in {}", folder.display())]
pub struct OpenError {
    /// The folder.
    folder: PathBuf,
    /// What the system said.
    #[source]
    source: io::Error,
}

/// Why chunks are not in the log. The task goes on: feedback decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedbackError {
    /// The disk did not take them; the log will say how much is missing.
    #[error("the disk does not take logs")]
    Unwritable,
    /// The disk takes its time; they may be written later.
    #[error("the disk did not take logs within {} s", TAKE_WITHIN.as_secs())]
    TooSlow,
    /// Some are no base64; the others are in the log.
    #[error("{0} chunks hold no base64")]
    Unreadable(usize),
    /// The hub has stopped.
    #[error("the feedback hub has stopped")]
    Stopped,
}

/// Takes feedback, keeps it within limits and gives it to readers.
#[derive(Debug)]
pub struct FeedbackHub {
    shared: Arc<Shared>,
    snapshots: Mutex<Snapshots>,
    clock: Clock,
    inbox: Sender<Job>,
    queue_room: Arc<Semaphore>,
    reads: Semaphore,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl FeedbackHub {
    /// A hub with its logs in this folder, which must be nobody else's.
    pub fn open(folder: PathBuf, limits: LogLimits) -> Result<Self, OpenError> {
        Self::try_open(folder.clone(), limits).map_err(|source| OpenError { folder, source })
    }

    fn try_open(folder: PathBuf, limits: LogLimits) -> io::Result<Self> {
        let folder = Folder::open(folder, limits)?;
        let index = Mutex::new(Index::open(&folder)?);
        let (losses, followers) = (Mutex::new(Losses::default()), Arc::new(Followers::default()));
        let shared = Arc::new(Shared { folder, index, losses, followers });
        let (inbox, jobs) = channel();
        let writer = Writer::new(Arc::clone(&shared), jobs);
        let thread = std::thread::Builder::new().name("logs".to_owned());
        let writer = thread.spawn(move || writer.run())?;
        Ok(Self {
            shared,
            snapshots: Mutex::new(Snapshots::new()),
            clock: Clock::start(),
            inbox,
            queue_room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            reads: Semaphore::new(READS_MAX),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Takes what an attempt says of itself. Resolves when its chunks are in the file, where they
    /// survive the end of this process. What one attempt says must be taken in its order; from
    /// the first poll on, that order is kept.
    pub async fn take(&self, lease: LeaseId, feedback: Feedback) -> Result<(), FeedbackError> {
        self.snapshots.lock().update(lease, &feedback, self.clock.now());
        self.keep(lease, feedback).await
    }

    /// The same for those who watch the tenant, too.
    pub async fn take_and_tell(
        &self,
        lease: LeaseId,
        feedback: Feedback,
        handle: &ShardHandle,
    ) -> Result<(), FeedbackError> {
        self.snapshots.lock().update(lease, &feedback, self.clock.now());
        if let Ok(tenant) = handle.tenant() {
            tenant.events.overhear(lease, &feedback, || self.snapshot(lease.task));
        }
        self.keep(lease, feedback).await
    }

    async fn keep(&self, lease: LeaseId, mut feedback: Feedback) -> Result<(), FeedbackError> {
        let (chunks, n_unreadable) = read_chunks(feedback.chunks.take().unwrap_or_default());
        if !chunks.is_empty() {
            self.append(lease, chunks).await?;
        }
        if n_unreadable > 0 { Err(FeedbackError::Unreadable(n_unreadable)) } else { Ok(()) }
    }

    async fn append(&self, lease: LeaseId, chunks: Vec<NewChunk>) -> Result<(), FeedbackError> {
        let deadline = (Instant::now() + TAKE_WITHIN).into();
        let n_bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len() + CHUNK_BYTES).sum();
        let Ok(room) = timeout_at(deadline, self.queue_room(n_bytes)).await else {
            self.shared.losses.lock().note(lease, &chunks);
            return Err(FeedbackError::TooSlow);
        };
        let (done, written) = oneshot::channel();
        let at = self.clock.now();
        self.send(Job::Append(Append { lease, at, chunks, done, room }))?;
        match timeout_at(deadline, written).await {
            Ok(Ok(Written::Kept)) => Ok(()),
            Ok(Ok(Written::Lost)) => Err(FeedbackError::Unwritable),
            Ok(Err(_)) => Err(FeedbackError::Stopped),
            Err(_) => Err(FeedbackError::TooSlow),
        }
    }

    /// Who comes first is served first, so that the order of one attempt is kept.
    async fn queue_room(&self, n_bytes: usize) -> OwnedSemaphorePermit {
        let n_permits = u32::try_from(n_bytes.min(QUEUE_BYTES_MAX)).expect("the queue is small");
        let room = Arc::clone(&self.queue_room).acquire_many_owned(n_permits).await;
        room.expect("the semaphore is never closed")
    }

    fn send(&self, job: Job) -> Result<(), FeedbackError> {
        self.inbox.send(job).map_err(|_| FeedbackError::Stopped)
    }

    /// How a task fares, if it said so lately.
    pub fn snapshot(&self, task: TaskId) -> Option<Snapshot> {
        self.snapshots.lock().get(task)
    }

    /// A page of a log. Blocks; see [`FeedbackHub::next_page`] for async code.
    pub fn read(&self, task: TaskId, offset: u64, bytes_max: usize) -> io::Result<LogPage> {
        LogCursor::new(task, offset).read(&self.shared, bytes_max)
    }

    /// The cursor's next page. Off the async threads.
    pub async fn next_page(
        &self,
        mut cursor: LogCursor,
        bytes_max: usize,
    ) -> io::Result<(LogCursor, LogPage)> {
        let _permit = self.reads.acquire().await.expect("the semaphore is never closed");
        let shared = Arc::clone(&self.shared);
        let read = move || cursor.read(&shared, bytes_max).map(|page| (cursor, page));
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }

    /// Wakes when a log has more. Follow first, then read: what comes between is not missed.
    pub fn follow(&self, task: TaskId) -> Follower {
        self.shared.followers.follow(task)
    }

    #[cfg(test)]
    pub(super) fn followers(&self, task: TaskId) -> usize {
        self.shared.followers.count(task)
    }

    /// Nothing more is expected of this task: its followers end after the last entry. Resolves
    /// when everything that was taken before can be read. What still comes is kept.
    pub async fn settled(&self, task: TaskId) -> Result<(), FeedbackError> {
        let settle = async {
            // In the queue behind those who wait for room.
            let room = self.queue_room(1).await;
            let (done, settled) = oneshot::channel();
            self.send(Job::Settle { task, done })?;
            drop(room);
            settled.await.map_err(|_| FeedbackError::Stopped)
        };
        let settled = tokio::time::timeout(TAKE_WITHIN, settle).await;
        settled.unwrap_or(Err(FeedbackError::TooSlow))
    }

    /// Writes what was taken and lets go of the folder. May be called twice.
    pub async fn stop(&self) {
        let _ = self.send(Job::Stop); // Refused when it has stopped already.
        let Some(writer) = self.writer.lock().take() else { return };
        let ended = tokio::task::spawn_blocking(move || writer.join()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::error!("the thread that writes logs ended badly");
        }
    }
}

impl Drop for FeedbackHub {
    /// The folder is free when the hub is gone.
    fn drop(&mut self) {
        let _ = self.send(Job::Stop);
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }
}
