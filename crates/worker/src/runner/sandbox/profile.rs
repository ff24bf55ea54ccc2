//! What is wanted of a sandbox.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::limits::MEMORY_BYTES;

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
