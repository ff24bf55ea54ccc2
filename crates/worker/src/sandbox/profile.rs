//! What is wanted of a sandbox, and the limits that the kernel keeps for each process.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// This process's own binary, even if its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// How much programs are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As any child of the worker.
    #[default]
    Off,
    /// No new rights, limits on time, memory, files and processes, and a folder of its own that is
    /// removed afterwards. What the worker's user may read can be read.
    Basic,
    /// Also sees only system folders and what is shown to it, writes only to its own folder and
    /// what is given to it, and is refused system calls that serve attacks.
    Strict,
}

impl Level {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Basic => "basic",
            Self::Strict => "strict",
        }
    }

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Off, Self::Basic, Self::Strict].into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Everything that can be said about a sandbox.
#[derive(Clone, Debug)]
pub struct Profile {
    /// How much it holds.
    pub level: Level,
    /// What programs see besides the system, under `Strict`.
    pub read_only: Vec<PathBuf>,
    /// What programs may change besides their own folder, under `Strict`.
    pub read_write: Vec<PathBuf>,
    /// Whether programs can make no sockets, under `Strict`.
    pub no_network: bool,
    /// The address space of each process.
    pub memory_bytes: u64,
    /// The binary that knows how to launch.
    pub launcher: PathBuf,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            level: Level::Off,
            read_only: Vec::new(),
            read_write: Vec::new(),
            no_network: false,
            memory_bytes: MEMORY_BYTES,
            launcher: OWN_BINARY.into(),
        }
    }
}

/// The address space of a process, if nobody says.
pub const MEMORY_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// The least that a program can be given.
pub const MEMORY_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// The largest file that a program may write.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// How many files a process may have open.
pub const OPEN_FILES_MAX: u64 = 1024;
/// How many processes and threads a user of its own may have.
pub const PROCESSES_MAX: u64 = 512;
/// The same where the user is the worker's, all of whose processes count.
pub const PROCESSES_SHARED_MAX: u64 = 4096;
/// Processor time beyond what a program could use while it may run, so that the clock, whose end
/// can be explained, comes first.
const CPU_SECONDS_SPARE: u64 = 10;

/// What a launcher sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limits {
    cpu_seconds: Option<u64>,
    memory_bytes: u64,
    processes: u64,
}

impl Limits {
    pub(super) fn new(cpu_seconds: Option<u64>, memory_bytes: u64, has_own_user: bool) -> Self {
        let processes = if has_own_user { PROCESSES_MAX } else { PROCESSES_SHARED_MAX };
        Self { cpu_seconds, memory_bytes, processes }
    }

    /// Sets all but the memory, which the launcher itself still needs.
    pub(super) fn set(&self) -> io::Result<()> {
        if let Some(seconds) = self.cpu_seconds {
            lower(Resource::Cpu, seconds)?;
        }
        lower(Resource::Core, 0)?;
        lower(Resource::Fsize, FILE_BYTES_MAX)?;
        lower(Resource::Nofile, OPEN_FILES_MAX)?;
        lower(Resource::Nproc, self.processes)
    }

    /// Sets the rest; right before the program takes over.
    pub(super) fn set_memory(&self) -> io::Result<()> {
        lower(Resource::As, self.memory_bytes)
    }
}

/// The processor time that fits into so much time on every core.
pub(super) fn cpu_seconds(time: Duration) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    time.as_secs().saturating_add(1).saturating_mul(cores).saturating_add(CPU_SECONDS_SPARE)
}

/// A limit that is lower already stays.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |now: Option<u64>| Some(now.map_or(limit, |now| now.min(limit)));
    let lowered = Rlimit { current: least(now.current), maximum: least(now.maximum) };
    Ok(setrlimit(resource, lowered)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_ends_a_program_before_its_processor_time_does() {
        for seconds in [1, 300, 86_400] {
            assert!(cpu_seconds(Duration::from_secs(seconds)) > seconds + 5);
        }
        assert_eq!(cpu_seconds(Duration::MAX), u64::MAX, "no overflow");
    }

    #[test]
    fn a_limit_is_only_ever_lowered() {
        let before = getrlimit(Resource::Core);
        lower(Resource::Core, u64::MAX - 1).expect("allowed");
        let after = getrlimit(Resource::Core);
        assert!(after.maximum <= before.maximum.or(Some(u64::MAX)));
        assert_eq!(after.current.unwrap_or(u64::MAX) >= u64::MAX - 1, before.current.is_none());
    }
}
