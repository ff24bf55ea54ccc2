//! The cell in which the programs of one attempt are held, and its folder: made empty, gone afterwards,
//! and gone too after a worker was killed.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::runner::tools::Environment;
use crate::sandbox::launch::{Fault, LAUNCH, Orders, PROBE_ANSWER};
use crate::sandbox::profile::{Level, Limits, Profile, cpu_seconds};

/// The first of the numbers that nobody hands out to people, services or containers; programs of
/// a worker that runs as root get one of their own.
const USERS_FIRST: u32 = 0x7000_0000;
/// How many of them one worker uses in turn; no worker does more at the same time.
const USERS_PER_WORKER: u32 = 1024;

/// Makes cells. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    profile: Profile,
    root: ScratchRoot,
}

/// Counts the users that were given to programs, over all sandboxes of this process.
static N_USERS: AtomicU32 = AtomicU32::new(0);

/// Where the programs of one attempt are held. Its folder goes with it.
#[derive(Debug)]
pub struct Cell {
    shared: Arc<Shared>,
    scratch: Scratch,
    user: Option<u32>,
}

/// Bounds that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel does not offer what was asked for, or the launcher is not there.
    #[error("the sandbox {level} cannot be had on this machine: {reason}")]
    Unavailable { level: Level, reason: String },
    /// A path that is to be seen is not there.
    #[error("{} cannot be shown in the sandbox: {source}", .path.display())]
    Path { path: PathBuf, source: io::Error },
    /// There is no room for the folders of programs.
    #[error("no folder for programs in {}: {source}", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

impl Sandbox {
    /// A sandbox that has been tried: what the kernel lacks is an error, never a weaker sandbox.
    /// `None` where no bounds are wanted.
    pub fn open(mut profile: Profile) -> Result<Option<Self>, SandboxError> {
        if profile.level == Level::Off {
            return Ok(None);
        }
        for path in profile.read_only.iter_mut().chain(&mut profile.read_write) {
            let found = path.canonicalize().and_then(|found| match found.to_str() {
                Some(_) => Ok(found),
                None => Err(io::Error::other("its name is no text")),
            });
            *path = found.map_err(|source| SandboxError::Path { path: path.clone(), source })?;
        }
        let folder = std::env::temp_dir();
        let root = folder.canonicalize().and_then(|folder| ScratchRoot::open(&folder));
        let root = root.map_err(|source| SandboxError::Folder { folder, source })?;
        let sandbox = Self { shared: Arc::new(Shared { profile, root }) };
        sandbox.probe()?;
        Ok(Some(sandbox))
    }

    /// How much it holds.
    pub fn level(&self) -> Level {
        self.shared.profile.level
    }

    /// A cell with an empty folder.
    pub(crate) fn enter(&self) -> io::Result<Cell> {
        let user = next_user();
        let scratch = self.shared.root.scratch(user)?;
        Ok(Cell { shared: Arc::clone(&self.shared), scratch, user })
    }

    /// Does everything that a launcher does, except for starting a program.
    fn probe(&self) -> Result<(), SandboxError> {
        let level = self.level();
        let unavailable = |reason: String| SandboxError::Unavailable { level, reason };
        let cell = self.enter().map_err(|error| unavailable(error.to_string()))?;
        let mut command = Command::new(&self.shared.profile.launcher);
        command.arg(LAUNCH).arg(cell.orders(None, true)).stdin(Stdio::null());
        let ended = command.output().map_err(|error| unavailable(error.to_string()))?;
        match cell.take_fault() {
            Some(fault) => Err(unavailable(fault.to_string())),
            None if ended.stdout == PROBE_ANSWER.as_bytes() => Ok(()),
            None => Err(unavailable(format!("the launcher ended with {}", ended.status))),
        }
    }
}

/// A user that owns nothing, if this process is root: limits on processes and the right to signal
/// go by user, and root is above them.
fn next_user() -> Option<u32> {
    let n_user = N_USERS.fetch_add(1, Ordering::Relaxed) % USERS_PER_WORKER;
    let worker = (std::process::id() & 0xFFFF) * USERS_PER_WORKER;
    let user = USERS_FIRST + worker + n_user;
    // The root of a container without such users is a plain user outside, and below the limits.
    let is_known = ["/proc/self/uid_map", "/proc/self/gid_map"]
        .iter()
        .all(|map| std::fs::read_to_string(map).is_ok_and(|map| is_mapped(&map, user)));
    (rustix::process::geteuid().is_root() && is_known).then_some(user)
}

/// Whether a map of users, lines of first inside, first outside and count, knows this one.
fn is_mapped(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u32> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if user.checked_sub(first).is_some_and(|n| n < count))
    })
}

impl Cell {
    /// The folder that its programs may write to.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// What its programs are told about where they are. What a task says about it does not count.
    pub(crate) fn tell(&self, environment: &mut Environment) {
        for name in ["TMPDIR", "HOME"] {
            environment.insert(name.into(), self.folder().into());
        }
    }

    /// Starts `program` under the name `name`, within bounds. Arguments follow.
    pub(crate) fn command(
        &self,
        program: &Path,
        name: &OsStr,
        time: Option<Duration>,
    ) -> tokio::process::Command {
        // What an earlier program left there says nothing about this one.
        self.scratch.forget_fault();
        let mut command = tokio::process::Command::new(&self.shared.profile.launcher);
        command.arg(LAUNCH).arg(self.orders(time, false)).arg(program).arg(name);
        command
    }

    /// Why a launcher did not become its program.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        Fault::read(self.scratch.fault())
    }

    /// Removes the folder, off the threads that others wait for.
    pub(crate) async fn close(self: Arc<Self>) {
        // Whoever dropped the run before has done the same by dropping the cell.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    fn orders(&self, time: Option<Duration>, is_probe: bool) -> String {
        let Profile { level, read_only, read_write, no_network, memory_bytes, .. } =
            &self.shared.profile;
        let orders = Orders {
            level: *level,
            limits: Limits::new(time.map(cpu_seconds), *memory_bytes, self.user.is_some()),
            user: self.user,
            folder: self.folder().to_owned(),
            read_only: read_only.clone(),
            read_write: read_write.clone(),
            no_network: *no_network,
            fault: self.scratch.fault().to_owned(),
            is_probe,
        };
        serde_json::to_string(&orders).expect("paths were checked to be text")
    }
}

/// How the folders of workers begin.
const PREFIX: &str = "astra-sandbox-";
/// The file that a living worker holds locked, in its folder.
const LOCK: &str = "lock";
/// Others may pass through, for programs may have a user of their own, but not look around.
const PASSABLE: u32 = 0o711;

/// The folder of a worker, in which each attempt has its own.
#[derive(Debug)]
pub(super) struct ScratchRoot {
    folder: TempDir,
    _lock: File,
}

/// The folder of an attempt.
#[derive(Debug)]
pub(super) struct Scratch {
    outer: TempDir,
    /// What programs see of it.
    folder: PathBuf,
    fault: PathBuf,
}

impl ScratchRoot {
    /// Makes the folder inside of `parent`, and removes those of workers that are no more.
    pub(super) fn open(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // The file is locked when it gets its name, so that nobody finds it without its owner.
        let unnamed = folder.path().join("new");
        let lock = File::create(&unnamed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(unnamed, folder.path().join(LOCK))?;
        fs::set_permissions(folder.path(), Permissions::from_mode(PASSABLE))?;
        if folder.path().to_str().is_none() {
            return Err(io::Error::other("its name is no text"));
        }
        Ok(Self { folder, _lock: lock })
    }

    /// An empty folder that belongs to `user`.
    pub(super) fn scratch(&self, user: Option<u32>) -> io::Result<Scratch> {
        let outer = tempfile::Builder::new().prefix("a").tempdir_in(self.folder.path())?;
        fs::set_permissions(outer.path(), Permissions::from_mode(PASSABLE))?;
        let (folder, fault) = (outer.path().join("work"), outer.path().join("fault"));
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        if user.is_some() {
            chown(&folder, user, user)?;
        }
        Ok(Scratch { outer, folder, fault })
    }
}

impl Scratch {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn fault(&self) -> &Path {
        &self.fault
    }

    pub(super) fn forget_fault(&self) {
        let _ = fs::remove_file(&self.fault);
    }
}

impl Drop for Scratch {
    /// What a program made unreadable stands in the way of removing the rest.
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.folder).is_err() {
            unlock(&self.folder);
        }
        if let Err(error) = fs::remove_dir_all(self.outer.path()) {
            tracing::warn!(%error, folder = %self.outer.path().display(), "a folder remains");
        }
    }
}

fn unlock(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_folder).for_each(|entry| unlock(&entry.path()));
}

/// Removes what killed workers of this user left behind. Who is alive holds a lock.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_named && is_own && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// One that is just being made has no lock yet, and is left alone.
fn is_left(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_may_not_know_our_users() {
        assert!(is_mapped("         0          0 4294967295\n", USERS_FIRST));
        assert!(is_mapped("0 1000 1\n1 100000 4000000000\n", USERS_FIRST));
        assert!(!is_mapped("0 1000 1\n1 100000 65536\n", USERS_FIRST));
        assert!(!is_mapped("", USERS_FIRST) && !is_mapped("garbage", 0));
    }

    #[test]
    fn what_a_killed_worker_left_is_removed_and_the_living_keep_theirs() {
        let parent = tempfile::tempdir().expect("folder");
        let alive = ScratchRoot::open(parent.path()).expect("opened");
        let dead = parent.path().join(format!("{PREFIX}dead"));
        fs::create_dir_all(dead.join("aX/work/deep")).expect("created");
        File::create(dead.join(LOCK)).expect("created");
        let others = parent.path().join("others");
        fs::create_dir(&others).expect("created");
        let second = ScratchRoot::open(parent.path()).expect("opened");
        assert!(!dead.exists() && others.exists() && alive.folder.path().exists());
        drop((alive, second));
        assert_eq!(fs::read_dir(parent.path()).expect("read").count(), 1, "only the others'");
    }

    #[test]
    fn a_folder_is_empty_closed_to_others_and_gone_afterwards() {
        let parent = tempfile::tempdir().expect("folder");
        let root = ScratchRoot::open(parent.path()).expect("opened");
        let scratch = root.scratch(None).expect("made");
        let folder = scratch.folder().to_owned();
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 0);
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700);
        fs::create_dir(folder.join("closed")).expect("made");
        fs::write(folder.join("closed/file"), "x").expect("written");
        fs::set_permissions(folder.join("closed"), Permissions::from_mode(0o000)).expect("set");
        drop(scratch);
        assert!(!folder.exists());
    }
}
