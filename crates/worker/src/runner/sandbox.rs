//! Holds programs within bounds that the kernel enforces.
//!
//! A worker cannot confine a child between fork and exec without `unsafe`, and confining itself
//! would last. So it starts its own binary again as a launcher, a process of one thread that takes
//! its [`orders`], binds itself and becomes the program. Reading order: [`profile`] is what is
//! wanted, [`scratch`] the folder of an attempt, [`orders`] what a launcher is told; [`launch`] is
//! the launcher, with [`limits`], [`files`], [`calls`] and [`exec`] as its means.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::runner::environment::Environment;
use crate::runner::sandbox::launch::{LAUNCH, PROBE_ANSWER};
use crate::runner::sandbox::limits::{Limits, cpu_seconds};
use crate::runner::sandbox::orders::{Fault, Orders};
use crate::runner::sandbox::profile::{Level, Profile};
use crate::runner::sandbox::scratch::{Scratch, ScratchRoot};

mod calls;
mod exec;
mod files;
pub mod launch;
pub mod limits;
pub(super) mod orders;
pub mod profile;
mod scratch;

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
    Unavailable {
        /// What was asked for.
        level: Level,
        /// Why not.
        reason: String,
    },
    /// A path that is to be seen is not there.
    #[error("{} cannot be shown in the sandbox: {source}", .path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no room for the folders of programs.
    #[error("no folder for programs in {}: {source}", .folder.display())]
    Folder {
        /// Where it should be.
        folder: PathBuf,
        /// Why it is not.
        source: io::Error,
    },
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
    pub(super) fn enter(&self) -> io::Result<Cell> {
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
    pub(super) fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// What its programs are told about where they are. What a task says about it does not count.
    pub(super) fn tell(&self, environment: &mut Environment) {
        for name in ["TMPDIR", "HOME"] {
            environment.insert(name.into(), self.folder().into());
        }
    }

    /// Starts `program` under the name `name`, within bounds. Arguments follow.
    pub(super) fn command(
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
    pub(super) fn take_fault(&self) -> Option<Fault> {
        Fault::read(self.scratch.fault())
    }

    /// Removes the folder, off the threads that others wait for.
    pub(super) async fn close(self: Arc<Self>) {
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
}
