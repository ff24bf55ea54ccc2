//! The folder of logs: `<folder>/<shard>/<xx>/<task>.<base>.log`, where `xx` spreads the tasks of a
//! shard and `base` is the offset at which the file begins. Which logs there are, how much they may
//! take, and what a broken disk cost.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{fs, io};

use foldhash::fast::RandomState;
use model::{LeaseId, ShardId, TaskId};

use super::hub::NewChunk;

/// One file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The offset of its first byte of content.
    pub(super) base: u64,
    /// How much of the file counts.
    pub(super) file_bytes: u64,
}

impl Segment {
    /// What it takes on disk, roughly.
    pub(super) fn cost(&self) -> u64 {
        self.file_bytes.max(1).next_multiple_of(BLOCK_BYTES)
    }
}

/// A folder of files: one of the 256 of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Drawer {
    shard: ShardId,
    number: u8,
}

impl Drawer {
    pub(super) fn of(task: TaskId) -> Self {
        let [number, ..] = task.number().to_le_bytes();
        Self { shard: task.shard(), number }
    }
}

/// A file that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundSegment {
    pub(super) task: TaskId,
    pub(super) segment: Segment,
    /// When it was last written, in milliseconds since 1970.
    pub(super) written_at: u64,
}

/// All logs, and how much of them may be kept.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    pub(super) limits: LogLimits,
}

impl Folder {
    pub(super) fn open(path: PathBuf, limits: LogLimits) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        Ok(Self { path, limits })
    }

    /// Every drawer that there is. A shard whose folder cannot be read costs its logs alone.
    pub(super) fn drawers(&self) -> io::Result<Vec<Drawer>> {
        let mut drawers = Vec::new();
        for shard in names(&self.path)? {
            let Some(number) = shard.parse().ok().and_then(ShardId::new) else { continue };
            let found = names(&self.path.join(&shard)).unwrap_or_else(|error| {
                tracing::warn!(shard, %error, "the logs of a shard cannot be read");
                Vec::new()
            });
            for name in found {
                let parsed = u8::from_str_radix(&name, 16).ok();
                drawers.extend(parsed.map(|drawer| Drawer { shard: number, number: drawer }));
            }
        }
        Ok(drawers)
    }

    /// Every file in a drawer, in no order.
    pub(super) fn segments(&self, drawer: Drawer) -> io::Result<Vec<FoundSegment>> {
        let path = self.drawer_path(drawer);
        if !path.try_exists()? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for name in names(&path)? {
            if let Some((task, base)) = parse_name(&name) {
                let about = fs::metadata(path.join(&name))?;
                let age = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                let written_at = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                let segment = Segment { base, file_bytes: about.len() };
                found.push(FoundSegment { task, segment, written_at });
            }
        }
        Ok(found)
    }

    pub(super) fn open_to_read(&self, task: TaskId, base: u64) -> io::Result<File> {
        File::open(self.segment_path(task, base))
    }

    /// The file, cut to what counts and ready to take more.
    pub(super) fn open_to_append(&self, task: TaskId, segment: Segment) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(segment.file_bytes == 0);
        let path = self.segment_path(task, segment.base);
        let mut file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && segment.file_bytes == 0 => {
                fs::create_dir_all(self.drawer_path(Drawer::of(task)))?;
                options.open(&path)?
            }
            opened => opened?,
        };
        if file.metadata()?.len() != segment.file_bytes {
            file.set_len(segment.file_bytes)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }

    /// A file that is gone already is removed, too.
    pub(super) fn remove(&self, task: TaskId, base: u64) -> io::Result<()> {
        match fs::remove_file(self.segment_path(task, base)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn drawer_path(&self, drawer: Drawer) -> PathBuf {
        self.path.join(drawer.shard.get().to_string()).join(format!("{:02x}", drawer.number))
    }

    fn segment_path(&self, task: TaskId, base: u64) -> PathBuf {
        self.drawer_path(Drawer::of(task)).join(format!("{task}.{base}.log"))
    }
}

/// What is not ours to name is left alone.
fn parse_name(name: &str) -> Option<(TaskId, u64)> {
    let (task, base) = name.strip_suffix(".log")?.split_once('.')?;
    Some((task.parse().ok()?, base.parse().ok()?))
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

/// The files of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogFiles {
    pub(super) segments: Vec<Segment>,
    /// When the log was last written, in milliseconds since 1970.
    written_at: u64,
}

impl LogFiles {
    fn cost(&self) -> u64 {
        self.segments.iter().map(Segment::cost).sum()
    }
}

/// All logs. What earlier servers left is read a drawer at a time, when it is needed or when there
/// is time, so that a server with many logs starts at once.
#[derive(Debug)]
pub(super) struct Index {
    unread: BTreeSet<Drawer>,
    logs: HashMap<TaskId, LogFiles, RandomState>,
    by_age: BTreeSet<(u64, TaskId)>,
    cost: u64,
}

impl Index {
    pub(super) fn open(folder: &Folder) -> io::Result<Self> {
        let unread = folder.drawers()?.into_iter().collect();
        Ok(Self { unread, logs: HashMap::default(), by_age: BTreeSet::new(), cost: 0 })
    }

    /// The files of a log; none if there is no log.
    pub(super) fn segments(&mut self, folder: &Folder, task: TaskId) -> io::Result<Vec<Segment>> {
        self.read(folder, Drawer::of(task))?;
        Ok(self.logs.get(&task).map(|files| files.segments.clone()).unwrap_or_default())
    }

    /// A log was written.
    pub(super) fn publish(&mut self, task: TaskId, segments: &[Segment], written_at: u64) {
        self.remove(task);
        self.insert(task, LogFiles { segments: segments.to_vec(), written_at });
    }

    /// Reads what an earlier server left in one more drawer; `false` when all are read.
    pub(super) fn read_one(&mut self, folder: &Folder) -> bool {
        let Some(drawer) = self.unread.first().copied() else { return false };
        if let Err(error) = self.read(folder, drawer) {
            tracing::warn!(%error, ?drawer, "a folder of logs cannot be read; it is left alone");
            self.unread.remove(&drawer);
        }
        true
    }

    /// Takes out the oldest log, if there is too much. Not before all of them are known.
    pub(super) fn pop_surplus(&mut self, folder: &Folder) -> Option<(TaskId, Vec<Segment>)> {
        let limits = &folder.limits;
        let is_over = self.cost > limits.total_bytes_max || self.logs.len() > limits.logs_max;
        if !is_over || !self.unread.is_empty() {
            return None;
        }
        let (_, task) = self.by_age.first().copied()?;
        self.remove(task).map(|files| (task, files.segments))
    }

    fn read(&mut self, folder: &Folder, drawer: Drawer) -> io::Result<()> {
        if !self.unread.contains(&drawer) {
            return Ok(());
        }
        let mut found: HashMap<TaskId, LogFiles, RandomState> = HashMap::default();
        for one in folder.segments(drawer)? {
            let files = found.entry(one.task).or_default();
            files.segments.push(one.segment);
            files.written_at = files.written_at.max(one.written_at);
        }
        self.unread.remove(&drawer);
        for (task, mut files) in found {
            files.segments.sort_unstable_by_key(|segment| segment.base);
            self.insert(task, files);
        }
        Ok(())
    }

    fn insert(&mut self, task: TaskId, files: LogFiles) {
        self.cost += files.cost();
        self.by_age.insert((files.written_at, task));
        self.logs.insert(task, files);
    }

    fn remove(&mut self, task: TaskId) -> Option<LogFiles> {
        let files = self.logs.remove(&task)?;
        self.cost -= files.cost();
        self.by_age.remove(&(files.written_at, task));
        Some(files)
    }
}

/// Limit: what is kept of one task's log, on disk; then its oldest part goes.
const TASK_LOG_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Limit: what is kept of all logs together; then the oldest log goes.
const TOTAL_LOG_BYTES_MAX: usize = 4 * 1024 * 1024 * 1024;
/// Limit: logs at the same time; then the oldest one goes. Each is an entry in memory.
const LOGS_MAX: usize = 250_000;
/// Limit: one record of a log. A longer chunk becomes several entries.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// Limit: chunks that wait to be written, in bytes; further ones wait outside.
pub const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Limit: how long a frame with output waits for a slow disk.
pub const TAKE_WITHIN: Duration = Duration::from_secs(2);

/// A log is a row of files, so that its oldest part goes by removing one.
pub(super) const SEGMENTS_PER_LOG: usize = 8;
/// A smaller log would be all heads and no content.
const TASK_LOG_BYTES_MIN: u64 = 64 * 1024;
/// What a file takes on disk is a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// How much of the logs is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Of one task; see [`TASK_LOG_BYTES_MAX`]. At least 64 KiB are kept.
    pub task_bytes_max: u64,
    /// Of all tasks; see [`TOTAL_LOG_BYTES_MAX`].
    pub total_bytes_max: u64,
    /// How many logs; see [`LOGS_MAX`].
    pub logs_max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            task_bytes_max: TASK_LOG_BYTES_MAX as u64,
            total_bytes_max: TOTAL_LOG_BYTES_MAX as u64,
            logs_max: LOGS_MAX,
        }
    }
}

impl LogLimits {
    /// One file of a log.
    pub(super) fn segment_bytes_max(&self) -> u64 {
        self.task_bytes_max.max(TASK_LOG_BYTES_MIN) / SEGMENTS_PER_LOG as u64
    }

    /// The content of one record; several fit into a segment.
    pub(super) fn record_bytes_max(&self) -> usize {
        let quarter = self.segment_bytes_max() / 4;
        usize::try_from(quarter).unwrap_or(RECORD_BYTES_MAX).min(RECORD_BYTES_MAX)
    }
}

/// Attempts whose losses are remembered. Beyond it, only those that number their bytes can tell.
const ATTEMPTS_MAX: usize = 10_000;

/// What one attempt lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// It had put out so much when it last lost something; what of it is not held is lost.
    pub(super) until: u64,
    /// Lost bytes that had no position.
    pub(super) loose: u64,
}

/// What is lost and not yet noted in a log.
#[derive(Debug, Default)]
pub(super) struct Losses(HashMap<LeaseId, Loss, RandomState>);

impl Losses {
    /// These chunks could not be written.
    pub(super) fn note(&mut self, lease: LeaseId, chunks: &[NewChunk]) {
        if self.0.len() >= ATTEMPTS_MAX && !self.0.contains_key(&lease) {
            return;
        }
        let loss = self.0.entry(lease).or_default();
        for chunk in chunks {
            match chunk.next_position() {
                Some(next) => loss.until = loss.until.max(next),
                None => loss.loose += chunk.bytes.len() as u64,
            }
        }
    }

    pub(super) fn of(&self, lease: LeaseId) -> Loss {
        self.0.get(&lease).copied().unwrap_or_default()
    }

    pub(super) fn leases(&self) -> Vec<LeaseId> {
        self.0.keys().copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So much stands in the log by now.
    pub(super) fn noted(&mut self, lease: LeaseId, noted: Loss) {
        let Some(loss) = self.0.get_mut(&lease) else { return };
        loss.loose = loss.loose.saturating_sub(noted.loose);
        if loss.until <= noted.until && loss.loose == 0 {
            self.0.remove(&lease);
        }
    }
}
