//! Keeps the write-ahead log short without making a commit wait.
//!
//! A checkpoint inside a commit costs it 5 to 9 ms. So a thread of its own copies the log into the
//! database while the writer goes on. It never catches up with a busy writer, and a log that is
//! not wholly copied cannot begin anew; so the writer copies the short rest itself, between two
//! transactions, and its next commit begins the log again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::queue::{Job, Queue};

/// 16 MiB in pages: the log is copied when so many of its pages are not.
const PAGES_BEFORE_COPY: i64 = 4_096;
/// The space of a log that is copied in time, with what is written during the copy.
pub(super) const LOG_BYTES_RESERVED: usize = 20 << 20;
/// 256 MiB in pages. Readers that overlap without a gap keep the log from beginning anew; beyond
/// this the writer waits for them.
const PAGES_BEFORE_WAIT: i64 = 65_536;
/// How long the writer waits for readers then. It tries again after the next copy.
const READERS_PATIENCE: Duration = Duration::from_millis(100);
/// What is left in the log of an idle writer is copied after this time.
const IDLE_BEFORE_COPY: Duration = Duration::from_secs(1);

/// How full the log is, in pages.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    written: i64,
    copied: i64,
}

/// The writer's side.
#[derive(Debug)]
pub(super) struct Checkpoints {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
    is_running: bool,
    fill: Fill,
}

impl Checkpoints {
    pub(super) fn start(connection: Connection, queue: Arc<Queue>) -> std::io::Result<Self> {
        let (requests, receiver) = channel();
        let thread = thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || copy_on_request(&connection, &receiver, &queue))?;
        Ok(Self { thread: Some((requests, thread)), is_running: false, fill: Fill::default() })
    }

    /// Called after each transaction.
    pub(super) fn after_commit(&mut self, writer: &Connection) {
        self.look(writer, "NOOP");
        if self.fill.written - self.fill.copied >= PAGES_BEFORE_COPY {
            self.request();
        }
    }

    /// Called when the background copy is over: the writer copies the rest.
    pub(super) fn on_ended(&mut self, writer: &Connection) {
        self.is_running = false;
        if self.fill.written < PAGES_BEFORE_WAIT {
            self.look(writer, "PASSIVE");
            return;
        }
        let patience = |patience| {
            if let Err(error) = writer.busy_timeout(patience) {
                tracing::warn!(%error, "cannot set how long the store waits for readers");
            }
        };
        patience(READERS_PATIENCE);
        self.look(writer, "RESTART");
        patience(super::open::BUSY_TIMEOUT);
    }

    /// How long the writer may sleep before it calls `on_idle`; `None` is for ever.
    pub(super) fn idle_patience(&self) -> Option<Duration> {
        let has_rest = self.fill.written > self.fill.copied;
        (has_rest && !self.is_running).then_some(IDLE_BEFORE_COPY)
    }

    /// Called when nothing was asked of the writer for a while.
    pub(super) fn on_idle(&mut self) {
        self.request();
    }

    /// Ends the thread; its connection is closed then.
    pub(super) fn stop(&mut self) {
        let Some((requests, thread)) = self.thread.take() else { return };
        drop(requests);
        if thread.join().is_err() {
            tracing::warn!("the checkpoint thread of the store panicked");
        }
    }

    fn request(&mut self) {
        let Some((requests, _)) = &self.thread else { return };
        // A thread that is gone stays "running": the writer then never asks again, and the log
        // grows, but nothing is lost.
        if !self.is_running {
            self.is_running = true;
            if requests.send(()).is_err() {
                tracing::warn!("the checkpoint thread of the store is gone");
            }
        }
    }

    fn look(&mut self, writer: &Connection, mode: &str) {
        match checkpoint(writer, mode) {
            Ok(fill) => self.fill = fill,
            Err(error) => tracing::warn!(%error, "the store cannot copy its log"),
        }
    }
}

fn copy_on_request(connection: &Connection, requests: &Receiver<()>, queue: &Queue) {
    while requests.recv().is_ok() {
        if let Err(error) = checkpoint(connection, "PASSIVE") {
            tracing::warn!(%error, "the store cannot copy its log");
        }
        queue.push(Job::CheckpointEnded);
    }
}

/// `NOOP` copies nothing and tells how full the log is.
fn checkpoint(connection: &Connection, mode: &str) -> Result<Fill, rusqlite::Error> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row([], |row| Ok(Fill { written: row.get(1)?, copied: row.get(2)? }))
}
