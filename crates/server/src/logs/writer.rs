//! The one thread that writes logs: it takes all that waits, writes it, then tells everyone.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use model::{LeaseId, TaskId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::folder::{Folder, Index, Losses};
use super::hub::{Followers, NewChunk};
use super::task_log::{OpenLogs, TaskLog};

/// Jobs that are written together.
const BATCH_JOBS_MAX: usize = 1024;
/// How often a disk that failed is tried again for the sake of its losses.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// A disk that stays broken is complained about this often.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);

/// What the thread is asked to do.
pub(super) enum Job {
    /// Write this.
    Append(Append),
    /// Nothing more is expected of this task; say so after all that came before.
    Settle { task: TaskId, done: oneshot::Sender<()> },
    /// Write what came before and end.
    Stop,
}

/// Chunks to write.
pub(super) struct Append {
    pub(super) lease: LeaseId,
    pub(super) at: Timestamp,
    pub(super) chunks: Vec<NewChunk>,
    pub(super) done: oneshot::Sender<Written>,
    /// Room in the queue, given back when the chunks are written.
    pub(super) room: OwnedSemaphorePermit,
}

/// Whether chunks were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// They are in the file.
    Kept,
    /// The disk did not take them.
    Lost,
}

/// What the thread shares with those who ask and read.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) folder: Folder,
    pub(super) index: Mutex<Index>,
    pub(super) losses: Mutex<Losses>,
    pub(super) followers: Arc<Followers>,
}

/// The thread's own.
pub(super) struct Writer {
    shared: Arc<Shared>,
    inbox: Receiver<Job>,
    logs: OpenLogs,
    retried_at: Instant,
    complained_at: Option<Instant>,
}

/// What became of each log of a batch.
type Outcomes = BTreeMap<TaskId, Written>;

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, inbox: Receiver<Job>) -> Self {
        let logs = OpenLogs::new();
        Self { shared, inbox, logs, retried_at: Instant::now(), complained_at: None }
    }

    /// Works until it is told to stop, or until nobody can ask any more.
    pub(super) fn run(mut self) {
        let mut is_asked = true;
        while is_asked {
            let mut jobs = Vec::new();
            is_asked = self.collect(&mut jobs);
            self.work(jobs);
            self.note_losses();
            self.remove_surplus();
            self.logs.shrink();
        }
        self.shared.followers.stop();
    }

    /// Waits for work and takes all of it; `false` when it is the last. What earlier servers left is
    /// looked through meanwhile.
    fn collect(&mut self, jobs: &mut Vec<Job>) -> bool {
        let has_more_to_read = self.shared.index.lock().read_one(&self.shared.folder);
        let first = if has_more_to_read {
            match self.inbox.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        } else {
            match self.wait() {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        };
        let mut next = Some(first);
        while let Some(job) = next {
            if matches!(job, Job::Stop) {
                return false;
            }
            jobs.push(job);
            let has_room = jobs.len() < BATCH_JOBS_MAX;
            next = if has_room { self.inbox.try_recv().ok() } else { None };
        }
        true
    }

    /// Losses wait for the disk, not for work.
    fn wait(&self) -> Result<Job, RecvTimeoutError> {
        if self.shared.losses.lock().is_empty() {
            return self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        self.inbox.recv_timeout(RETRY_EVERY)
    }

    fn work(&mut self, jobs: Vec<Job>) {
        let mut outcomes = Outcomes::new();
        for job in &jobs {
            if let Job::Append(append) = job {
                self.draft(append, &mut outcomes);
            }
        }
        self.flush(&mut outcomes);
        for job in &jobs {
            if let Job::Append(append) = job {
                self.settle_losses(append, &outcomes);
            }
        }
        self.shared.followers.wake(outcomes.keys().copied());
        for job in jobs {
            self.answer(job, &outcomes);
        }
    }

    /// Adds the chunks to their log, in memory. What follows a failure within one batch fails too,
    /// so that a log has no holes that it does not know of.
    fn draft(&mut self, append: &Append, outcomes: &mut Outcomes) {
        let task = append.lease.task;
        if outcomes.get(&task) == Some(&Written::Lost) {
            return;
        }
        let outcome = match self.try_draft(append) {
            Ok(()) => Written::Kept,
            Err(error) => self.failed(task, &error),
        };
        outcomes.insert(task, outcome);
    }

    fn try_draft(&mut self, append: &Append) -> io::Result<()> {
        let Append { lease, at, .. } = *append;
        let Shared { folder, index, .. } = &*self.shared;
        let log = self.logs.open(folder, index, lease.task)?;
        append.chunks.iter().try_for_each(|chunk| log.append(folder, lease, at, chunk))
    }

    /// Writes all logs of the batch, then lets readers see it.
    fn flush(&mut self, outcomes: &mut Outcomes) {
        let now = wall_millis();
        for (task, outcome) in outcomes.iter_mut() {
            if *outcome == Written::Lost {
                continue;
            }
            match self.logs.flush(&self.shared.folder, *task) {
                Ok(log) => publish(&self.shared.index, *task, log, now),
                Err(error) => *outcome = self.failed(*task, &error),
            }
        }
    }

    fn failed(&mut self, task: TaskId, error: &io::Error) -> Written {
        let is_time = self.complained_at.is_none_or(|at| at.elapsed() >= COMPLAIN_EVERY);
        if is_time {
            self.complained_at = Some(Instant::now());
            tracing::warn!(%task, %error, "logs cannot be written; tasks go on without");
        }
        Written::Lost
    }

    fn settle_losses(&self, append: &Append, outcomes: &Outcomes) {
        if outcomes.get(&append.lease.task) == Some(&Written::Lost) {
            self.shared.losses.lock().note(append.lease, &append.chunks);
        }
    }

    fn answer(&self, job: Job, outcomes: &Outcomes) {
        match job {
            Job::Append(append) => {
                let written = outcomes.get(&append.lease.task).copied().unwrap_or(Written::Kept);
                // Who does not wait any more need not be told.
                let _ = append.done.send(written);
                drop(append.room);
            }
            Job::Settle { task, done } => {
                self.shared.followers.settle(task);
                let _ = done.send(());
            }
            Job::Stop => {}
        }
    }

    /// Writes marks for what was lost, once the disk works again.
    fn note_losses(&mut self) {
        let leases = self.shared.losses.lock().leases();
        if leases.is_empty() || self.retried_at.elapsed() < RETRY_EVERY {
            return;
        }
        self.retried_at = Instant::now();
        for lease in leases {
            if let Err(error) = self.note_loss(lease) {
                // The others lie on the same disk.
                self.failed(lease.task, &error);
                return;
            }
            self.shared.followers.wake(std::iter::once(lease.task));
        }
    }

    fn note_loss(&mut self, lease: LeaseId) -> io::Result<()> {
        let Shared { folder, index, losses, .. } = &*self.shared;
        let loss = losses.lock().of(lease);
        let now = wall_millis();
        let at = Timestamp::from_millis(now);
        let log = self.logs.open(folder, index, lease.task)?;
        log.lose(folder, lease, at, loss.loose)?;
        log.lose_until(folder, lease, at, loss.until)?;
        let log = self.logs.flush(folder, lease.task)?;
        publish(index, lease.task, log, now);
        losses.lock().noted(lease, loss);
        Ok(())
    }

    /// Removes the oldest logs while there is too much.
    fn remove_surplus(&mut self) {
        let Shared { folder, index, .. } = &*self.shared;
        loop {
            let Some((task, segments)) = index.lock().pop_surplus(folder) else { return };
            self.logs.forget_files(task);
            for segment in segments {
                if let Err(error) = folder.remove(task, segment.base) {
                    tracing::warn!(%task, %error, "an old log cannot be removed");
                }
            }
        }
    }
}

/// Lets readers see what was written. A log whose files were removed may have got nothing new.
fn publish(index: &Mutex<Index>, task: TaskId, log: &TaskLog, now: u64) {
    let segments = &log.kept().segments;
    if !segments.is_empty() {
        index.lock().publish(task, segments, now);
    }
}

/// Milliseconds since 1970, as the file system counts them.
fn wall_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
