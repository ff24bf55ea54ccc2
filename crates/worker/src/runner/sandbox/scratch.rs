//! The folders of attempts: made empty, gone afterwards, and gone too after a worker was killed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

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
