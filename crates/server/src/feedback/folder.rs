//! Where logs lie: `<folder>/<shard>/<xx>/<task>.<base>.log`, where `xx` spreads the tasks of a
//! shard and `base` is the log's offset at which the file begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use model::{ShardId, TaskId};

use super::limits::{BLOCK_BYTES, LogLimits};

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
