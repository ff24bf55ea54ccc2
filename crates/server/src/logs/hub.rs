//! The hub: doors bring feedback here, and readers take it or wait for more of it here.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use foldhash::fast::RandomState;
use model::{LeaseId, TaskId};
use parking_lot::Mutex;
use protocol::session::payload::exec::{Channel, Chunk, Feedback};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::timeout_at;

use super::folder::{Folder, Index, LogLimits, Losses, QUEUE_BYTES_MAX, TAKE_WITHIN};
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

    /// Takes what an attempt says of itself, and tells it those who watch the tenant. Resolves when
    /// its chunks are in the file, where they survive the end of this process. What one attempt
    /// says must be taken in its order; from the first poll on, that order is kept.
    pub async fn take(
        &self,
        lease: LeaseId,
        mut feedback: Feedback,
        watched: Option<&ShardHandle>,
    ) -> Result<(), FeedbackError> {
        self.snapshots.lock().update(lease, &feedback, self.clock.now());
        if let Some(Ok(tenant)) = watched.map(ShardHandle::tenant) {
            tenant.events.overhear(lease, &feedback, || self.snapshot(lease.task));
        }
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
    #[cfg(test)]
    pub(super) fn read(&self, task: TaskId, offset: u64, bytes_max: usize) -> io::Result<LogPage> {
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

/// All who wait, by task. There is an entry only while somebody waits.
#[derive(Debug, Default)]
pub(super) struct Followers {
    by_task: Mutex<HashMap<TaskId, watch::Sender<Seen>, RandomState>>,
}

/// What those who wait are told: not the news, only that there are some.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_settled: bool,
}

/// Waits for more of one log. It may miss how often there was more, never that there was.
#[derive(Debug)]
pub struct Follower {
    task: TaskId,
    seen: watch::Receiver<Seen>,
    followers: Arc<Followers>,
}

impl Followers {
    pub(super) fn follow(self: &Arc<Self>, task: TaskId) -> Follower {
        let mut by_task = self.by_task.lock();
        let sender = by_task.entry(task).or_insert_with(|| watch::Sender::new(Seen::default()));
        Follower { task, seen: sender.subscribe(), followers: Arc::clone(self) }
    }

    /// These logs have more.
    pub(super) fn wake(&self, tasks: impl Iterator<Item = TaskId>) {
        let by_task = self.by_task.lock();
        if by_task.is_empty() {
            return;
        }
        for sender in tasks.filter_map(|task| by_task.get(&task)) {
            sender.send_modify(|_| {});
        }
    }

    /// Nothing more is expected. Who comes later starts anew: the task may have been requeued.
    pub(super) fn settle(&self, task: TaskId) {
        if let Some(sender) = self.by_task.lock().remove(&task) {
            sender.send_modify(|seen| seen.is_settled = true);
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self, task: TaskId) -> usize {
        self.by_task.lock().get(&task).map_or(0, watch::Sender::receiver_count)
    }

    /// Nothing more will come to anyone.
    pub(super) fn stop(&self) {
        self.by_task.lock().clear();
    }
}

impl Follower {
    /// Waits until there may be more, or until nothing more is expected. `false` when the hub has
    /// stopped. May be dropped and called again.
    pub async fn changed(&mut self) -> bool {
        // Once a task is settled, its followers are let go: their end is not the hub's.
        self.seen.changed().await.is_ok() || self.is_settled()
    }

    /// Whether nothing more is expected. What came before can be read by now.
    pub fn is_settled(&self) -> bool {
        self.seen.borrow().is_settled
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut by_task = self.followers.by_task.lock();
        // This one counts as a receiver until it is gone, which is after this.
        if by_task.get(&self.task).is_some_and(|sender| sender.receiver_count() <= 1) {
            by_task.remove(&self.task);
        }
    }
}

/// A position beyond this is taken for none: nothing puts out so much, and offsets stay numbers
/// that every JSON reader can hold.
const POSITION_MAX: u64 = 1 << 48;

/// Workers pad or do not pad; both are understood.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Something that a task put out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewChunk {
    pub(super) channel: Channel,
    /// Where it stands in what its attempt put out on all channels together, if the worker says so.
    pub(super) position: Option<u64>,
    pub(super) bytes: Bytes,
}

impl NewChunk {
    /// Where the next byte of the attempt stands.
    pub(super) fn next_position(&self) -> Option<u64> {
        self.position.map(|position| position + self.bytes.len() as u64)
    }
}

/// What can be read of the chunks, and how many cannot.
pub(super) fn read_chunks(chunks: Vec<Chunk>) -> (Vec<NewChunk>, usize) {
    let n_sent = chunks.len();
    let read: Vec<_> = chunks.into_iter().filter_map(read_chunk).collect();
    let n_unreadable = n_sent - read.len();
    (read.into_iter().filter(|chunk| !chunk.bytes.is_empty()).collect(), n_unreadable)
}

fn read_chunk(chunk: Chunk) -> Option<NewChunk> {
    #[derive(Deserialize)]
    struct Place {
        offset: Option<u64>,
    }
    let bytes = match (chunk.text, chunk.data_base64) {
        (Some(text), _) => Bytes::from(text),
        (None, Some(data)) => Bytes::from(BASE64.decode(data).ok()?),
        (None, None) => Bytes::new(),
    };
    // Metadata is the worker's own; an `offset` that means something else is no place.
    let place: Option<Place> =
        chunk.metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
    let position = place.and_then(|place| place.offset).filter(|offset| *offset <= POSITION_MAX);
    Some(NewChunk { channel: chunk.channel, position, bytes })
}

#[cfg(test)]
mod tests {
    use protocol::session::codec::OpenObject;
    use serde_json::value::RawValue;

    use super::*;

    fn chunk(text: Option<&str>, data: Option<&str>, metadata: &str) -> Chunk {
        let metadata = RawValue::from_string(metadata.to_owned()).expect("JSON");
        Chunk {
            channel: Channel::Log,
            index: None,
            mime_type: None,
            text: text.map(str::to_owned),
            data_base64: data.map(str::to_owned),
            metadata: OpenObject::new(metadata),
        }
    }

    #[test]
    fn bytes_and_places_are_read() {
        let chunks = vec![
            chunk(Some("hé"), None, r#"{"offset": 7, "other": [1]}"#),
            chunk(None, Some("/wA="), r#"{"offset": "seven"}"#),
            chunk(None, Some("/wA"), r#"{"offset": 281474976710657}"#),
            chunk(None, Some("not base64!"), "{}"),
            chunk(Some(""), None, r#"{"offset": 9}"#),
            chunk(None, None, "{}"),
        ];
        let (read, n_unreadable) = read_chunks(chunks);
        assert_eq!(n_unreadable, 1);
        let read: Vec<_> = read.iter().map(|chunk| (chunk.position, &chunk.bytes[..])).collect();
        let binary = &[0xff, 0][..];
        assert_eq!(read, [(Some(7), "hé".as_bytes()), (None, binary), (None, binary)]);
    }
}
