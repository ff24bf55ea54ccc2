//! The data folder: who may use it, and how its database is opened.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::keys;
use super::migrations::{self, APPLICATION_ID};
use super::writer::{Job, Queue};
use crate::contract::StoreError;

const DATABASE_FILE: &str = "astra.db";
const LOCK_FILE: &str = "astra.lock";
/// Another program, like the `sqlite3` shell, may hold the file for a moment.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the folder's lock is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);
const LOCK_TRIED_EVERY: Duration = Duration::from_millis(10);

/// A data folder that this process owns as long as this lives.
#[derive(Clone, Debug)]
pub(super) struct DataFolder {
    database: PathBuf,
    _lock: Arc<File>,
}

impl DataFolder {
    /// Takes the folder, and makes it if it is missing.
    pub(super) fn take(folder: &Path) -> Result<Self, StoreError> {
        let cannot_use = |error: io::Error| {
            StoreError::Unavailable(format!("cannot use the folder {}: {error}", folder.display()))
        };
        create_private(folder).map_err(cannot_use)?;
        // An absolute path cannot be mistaken for a `file:` URI by SQLite.
        let folder = folder.canonicalize().map_err(cannot_use)?;
        let lock = take_lock(&folder)?;
        // The names of new files must survive a power cut as well as their content.
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(cannot_use)?;
        Ok(Self { database: folder.join(DATABASE_FILE), _lock: Arc::new(lock) })
    }

    /// The connection that writes; brings the tables to their newest form.
    pub(super) fn open_writer(&self) -> Result<Connection, StoreError> {
        self.check_files()?;
        self.prepare_writer().map_err(|error| self.name_file(error))
    }

    fn prepare_writer(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.database, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        check_owner(&connection)?;
        connection.pragma_update(None, "page_size", 4096)?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let why = format!("the file system does not carry a write-ahead log ({mode})");
            return Err(StoreError::Unavailable(why));
        }
        set_up(&connection)?;
        migrations::migrate(&mut connection)?;
        keys::report_retired(&connection)?;
        // A process that ended after a failed sync may have left log pages that the kernel shows
        // but that are not on the disk, and a later sync would not write them. Copying the log
        // into the database and syncing that makes them durable before anything builds on them.
        checkpoint_all(&connection, "RESTART")?;
        if let Err(error) = self.reserve_log(&connection) {
            tracing::warn!(%error, "cannot reserve space for the store's log; commits are slower");
        }
        Ok(connection)
    }

    /// Lengthens the log's file with zeros, which SQLite reads as "no frames". Commits then overwrite
    /// blocks that the file has already, and a sync has no new length and no new blocks to record:
    /// it takes half the time on ext4.
    fn reserve_log(&self, connection: &Connection) -> Result<(), StoreError> {
        // Whoever else has the database open, like the `sqlite3` shell, cannot write meanwhile.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let reserved = lengthen_with_zeros(&self.log_path());
        connection.execute_batch("COMMIT")?;
        reserved.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    fn log_path(&self) -> PathBuf {
        self.database.with_file_name(format!("{DATABASE_FILE}-wal"))
    }

    /// A connection that copies the log into the database beside the writer.
    pub(super) fn open_checkpointer(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.database, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        set_up(&connection)?;
        Ok(connection)
    }

    /// A connection that reads.
    pub(super) fn open_reader(&self) -> Result<Connection, StoreError> {
        let connection = self.open_checkpointer()?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// Looks at the files before SQLite does: it would start a new database in the place of a
    /// missing one, and drop the log of the old one.
    fn check_files(&self) -> Result<(), StoreError> {
        let log = self.log_path();
        let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if length(&self.database) == 0 && length(&log) > 0 {
            let (database, log) = (self.database.display(), log.display());
            return Err(StoreError::Damaged(format!(
                "{database} is missing, but its log {log} is there: bring the database back"
            )));
        }
        Ok(())
    }

    fn name_file(&self, error: StoreError) -> StoreError {
        let file = self.database.display();
        match error {
            StoreError::Damaged(why) => StoreError::Damaged(format!("{file}: {why}")),
            StoreError::Unavailable(why) => StoreError::Unavailable(format!("{file}: {why}")),
            StoreError::InUse(why) => StoreError::InUse(why),
        }
    }
}

/// Only its owner may look into a new folder: it holds what tenants submit.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn take_lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK_FILE);
    let cannot_lock =
        |error: io::Error| StoreError::Unavailable(format!("{}: {error}", path.display()));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(cannot_lock)?;
    match lock_patiently(&file) {
        Ok(()) => {
            write_holder(&mut file).map_err(cannot_lock)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(in_use(folder, &mut file)),
        Err(TryLockError::Error(error)) => Err(cannot_lock(error)),
    }
}

/// A process that is just being started shares its parent's files until it runs its own program,
/// so a lock may outlive its owner by a moment.
fn lock_patiently(file: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_TRIED_EVERY);
            }
            locked => return locked,
        }
    }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn in_use(folder: &Path, file: &mut File) -> StoreError {
    let folder = folder.display();
    let mut text = String::new();
    // The number helps a person; without it the refusal stands all the same.
    let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
    StoreError::InUse(match holder {
        Some(pid) => format!("the data folder {folder} is in use by process {pid}"),
        None => format!("the data folder {folder} is in use by another process"),
    })
}

/// A database that some other program made is left alone.
fn check_owner(connection: &Connection) -> Result<(), StoreError> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let n_tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == APPLICATION_ID || (application == 0 && n_tables == 0) {
        return Ok(());
    }
    Err(StoreError::Damaged("it is a database of another program".into()))
}

/// The settings that a connection needs each time it is opened.
fn set_up(connection: &Connection) -> Result<(), StoreError> {
    // FULL syncs the log at each commit; NORMAL would lose answered commits in a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoints inside a commit would cost it milliseconds; see `checkpoint`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -8192)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // After a peak the log gives its space back.
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

const LOG_PAGE_BYTES: usize = 4096;

/// A log that cannot be lengthened stays as it is. One that a killed process left is long already.
fn lengthen_with_zeros(log: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(log)?;
    let length = file.metadata()?.len();
    let missing = LOG_BYTES_RESERVED.saturating_sub(usize::try_from(length).unwrap_or(usize::MAX));
    if missing == 0 {
        return Ok(());
    }
    // One page at a time. A longer write makes the kernel cache the file in large folios, and each
    // later write of a page walks over all blocks of its folio: a seventh of the writer's time.
    let zeros = vec![0; missing];
    let written = zeros.chunks(LOG_PAGE_BYTES).try_for_each(|page| file.write_all(page));
    let lengthened = written.and_then(|()| file.sync_all());
    lengthened.or_else(|error| file.set_len(length).and(Err(error)))
}

/// Copies the whole log into the database, so that the next commit begins it anew; `TRUNCATE` also
/// gives its space back.
pub(super) fn checkpoint_all(connection: &Connection, mode: &str) -> Result<(), StoreError> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
    Ok(())
}

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
        queue.push(Job::Alone(Box::new(|writer| {
            writer.checkpoints.on_ended(&writer.connection);
        })));
    }
}

/// `NOOP` copies nothing and tells how full the log is.
fn checkpoint(connection: &Connection, mode: &str) -> Result<Fill, rusqlite::Error> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?;
    statement.query_row([], |row| Ok(Fill { written: row.get(1)?, copied: row.get(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test that kills a process can see a missing sync: the kernel outlives the process.
    #[test]
    fn whoever_writes_syncs_each_commit() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::take(parent.path()).expect("takes");
        let writer = folder.open_writer().expect("opens");
        let checkpointer = folder.open_checkpointer().expect("opens");
        for connection in [&writer, &checkpointer] {
            let value =
                |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            assert_eq!(value("synchronous"), Ok(2));
            assert_eq!(value("wal_autocheckpoint"), Ok(0));
        }
        let mode = writer.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        assert_eq!(mode.as_deref(), Ok("wal"));
    }
}
