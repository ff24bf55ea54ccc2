//! How clients in a folder find the dev server of that folder, whatever its port.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file's name, inside the data folder.
const FILE: &str = "profile.toml";

/// Where the dev server of a folder is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Its address.
    pub(crate) url: String,
    /// Its process, so that a profile that was left behind is recognised: its port may belong to
    /// somebody else by then.
    pub(crate) pid: i32,
}

impl Profile {
    pub(crate) fn path(data: &Path) -> PathBuf {
        data.join(FILE)
    }

    pub(crate) fn read(data: &Path) -> Option<Self> {
        toml::from_str(&fs::read_to_string(Self::path(data)).ok()?).ok()
    }

    pub(crate) fn write(&self, data: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).expect("two plain fields");
        let note = "# Written by `astra dev`; clients in the folder above read it.\n";
        fs::write(Self::path(data), format!("{note}{text}"))
    }

    pub(crate) fn remove(data: &Path) {
        // Left behind, it is recognised by its process.
        let _ = fs::remove_file(Self::path(data));
    }

    /// Whether the process that wrote it is alive.
    pub(crate) fn is_current(&self) -> bool {
        match rustix::process::Pid::from_raw(self.pid) {
            // Someone else's process cannot be signalled, and is alive.
            Some(pid) => {
                !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_comes_back_and_knows_its_process() {
        let folder = tempfile::tempdir().expect("folder");
        let own = i32::try_from(std::process::id()).expect("a process number");
        let profile = Profile { url: "http://127.0.0.1:8081".into(), pid: own };
        profile.write(folder.path()).expect("written");
        assert_eq!(Profile::read(folder.path()), Some(profile.clone()));
        assert!(profile.is_current());
        assert!(!Profile { pid: i32::MAX, ..profile }.is_current());
        Profile::remove(folder.path());
        assert_eq!(Profile::read(folder.path()), None);
    }
}
