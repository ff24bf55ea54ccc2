//! A process that commits and tells what was kept, until somebody ends it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use store::SqliteStore;

const FOLDER: &str = "ASTRA_TEST_FOLDER";
const FAILPOINT: &str = "ASTRA_TEST_FAILPOINT";
/// Turns that are queued before the first is awaited.
pub(crate) const PIPELINED: u64 = 8;

/// The folder of the store, in the process that is to be ended; elsewhere there is nothing to do.
pub(crate) fn own_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// The store of that process, which ends it where the story says.
pub(crate) fn open_mortal(folder: &Path) -> SqliteStore {
    let failpoint = std::env::var(FAILPOINT).ok().filter(|text| !text.is_empty());
    let failpoint = failpoint.map(|text| text.parse().expect("a failpoint"));
    SqliteStore::open_with(folder, failpoint).expect("opens")
}

/// Says that turn `number` was kept.
pub(crate) fn tell(number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nkept {number}").and_then(|()| out.flush()).expect("tells");
}

/// This program again, with one of its tests as the process that is to be ended.
pub(crate) struct Mortal(Child);

impl Mortal {
    pub(crate) fn start(test: &str, folder: &Path, failpoint: &str) -> Self {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([test, "--exact", "--nocapture"])
            .env(FOLDER, OsStr::new(folder))
            .env(FAILPOINT, failpoint)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("starts"))
    }

    /// The same in a process whose files may not grow beyond so many blocks of 512 bytes: the system
    /// refuses the write, as a broken disk does, in the middle of a commit.
    pub(crate) fn start_limited(test: &str, folder: &Path, blocks: u32) -> Self {
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {test} --exact --nocapture"
            ))
            .arg(std::env::current_exe().expect("this program"))
            .env(FOLDER, OsStr::new(folder))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("starts"))
    }

    /// Reads what it kept, kills it once that is `enough`, and gives the last number.
    pub(crate) fn last_kept(mut self, enough: u64) -> (Option<u64>, ExitStatus) {
        let lines = BufReader::new(self.0.stdout.take().expect("piped")).lines();
        let mut last = None;
        let mut n_kept = 0;
        for line in lines {
            let line = line.expect("text");
            if let Some(number) = line.strip_prefix("kept ") {
                last = Some(number.parse().expect("a number"));
                n_kept += 1;
                if n_kept == enough {
                    self.0.kill().expect("kills with signal 9");
                }
            }
        }
        (last, self.0.wait().expect("ends"))
    }
}
