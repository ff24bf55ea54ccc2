//! What a launcher is told, and what it says if it fails.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::profile::Level;

/// Everything that a launcher does before it becomes a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) level: Level,
    pub(super) limits: Limits,
    /// Whom it becomes.
    pub(super) user: Option<u32>,
    /// The program's own folder.
    pub(super) folder: PathBuf,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) read_write: Vec<PathBuf>,
    pub(super) no_network: bool,
    /// Where it says what failed.
    pub(super) fault: PathBuf,
    /// Whether it only tries the bounds.
    pub(super) is_probe: bool,
}

/// Why a launcher did not become its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runner) enum Fault {
    /// The bounds cannot be had.
    Bounds(String),
    /// The program did not take over; the system's number for why.
    Exec(i32),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounds(reason) => formatter.write_str(reason),
            Self::Exec(errno) => io::Error::from_raw_os_error(*errno).fmt(formatter),
        }
    }
}

impl Fault {
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Says it as well as it can: who started us sees our end in any case.
    pub(super) fn write(&self, file: &mut File) {
        let _ = file.write_all(&serde_json::to_vec(self).unwrap_or_default());
    }
}
