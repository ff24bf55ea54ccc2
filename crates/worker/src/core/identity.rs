//! Who a worker is, over all its restarts.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
use uuid::Uuid;

/// Where the instance id is kept, inside the data folder (seed 000 section 1).
const ID_FILE: &str = "worker_instance_id";
/// Held as long as a process uses the folder.
const LOCK_FILE: &str = "worker.lock";
/// The longest id that a server takes.
const ID_BYTES_MAX: usize = 128;

/// An instance id, which survives restarts, and a boot id, which does not: by it a server sees
/// that what ran before runs no more.
#[derive(Debug)]
pub struct Identity {
    instance_id: String,
    boot_id: String,
    folder: PathBuf,
    /// Two processes with one identity would take each other's session for ever.
    _lock: Option<File>,
    _passing: Option<TempDir>,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another process has it.
    #[error("another worker uses the data folder {}", .0.display())]
    InUse(PathBuf),
    /// The file holds something else.
    #[error("{} does not hold an instance id; remove it to begin as a new worker", .0.display())]
    Damaged(PathBuf),
    /// The folder cannot be used.
    #[error("{} cannot be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
}

impl Identity {
    /// The identity that a data folder holds; a new one if it holds none.
    pub fn open(folder: &Path) -> Result<Self, IdentityError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| IdentityError::Folder { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let lock_path = folder.join(LOCK_FILE);
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(IdentityError::InUse(folder.to_owned()));
            }
            Err(error) => return Err(failed(&lock_path)(error.into())),
        }
        let id_path = folder.join(ID_FILE);
        let instance_id = match fs::read_to_string(&id_path) {
            Ok(text) => checked(text.trim()).ok_or(IdentityError::Damaged(id_path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(folder).map_err(failed(&id_path))?
            }
            Err(error) => return Err(failed(&id_path)(error)),
        };
        let folder = folder.to_owned();
        Ok(Self { instance_id, boot_id: fresh(), folder, _lock: Some(lock), _passing: None })
    }

    /// An identity that ends with the process, for workers that are only measured.
    pub fn passing() -> io::Result<Self> {
        let passing = tempfile::tempdir()?;
        let folder = passing.path().to_owned();
        let (instance_id, boot_id) = (fresh(), fresh());
        Ok(Self { instance_id, boot_id, folder, _lock: None, _passing: Some(passing) })
    }

    /// The name that the server knows it by.
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// The name of this process.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Where the worker writes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Written beside and renamed: whoever reads sees a whole id or none.
fn create(folder: &Path) -> io::Result<String> {
    let id = fresh();
    let beside = folder.join(format!("{ID_FILE}.new"));
    let mut file = File::create(&beside)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&beside, folder.join(ID_FILE))?;
    File::open(folder)?.sync_all()?;
    Ok(id)
}

fn checked(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=ID_BYTES_MAX).contains(&text.len()) && text.chars().all(is_plain);
    fits.then(|| text.to_owned())
}

fn fresh() -> String {
    Uuid::new_v4().to_string()
}

/// This machine's name.
pub fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().trim().to_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_id_survives_and_the_boot_id_does_not() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("new/folder");
        let (first, boot) = ids(&path);
        let (second, other_boot) = ids(&path);
        assert_eq!(first, second);
        assert_ne!(boot, other_boot);
        let kept = fs::read_to_string(path.join(ID_FILE)).expect("kept");
        assert_eq!(kept.trim(), first);
    }

    #[test]
    fn a_folder_has_one_worker_at_a_time() {
        let folder = tempfile::tempdir().expect("folder");
        let first = Identity::open(folder.path()).expect("free");
        let second = Identity::open(folder.path());
        assert!(matches!(second, Err(IdentityError::InUse(_))), "{second:?}");
        drop(first);
        Identity::open(folder.path()).expect("free again");
    }

    #[test]
    fn a_damaged_id_is_not_replaced_in_silence() {
        let folder = tempfile::tempdir().expect("folder");
        for text in ["", "two words", "\u{FFFD}"] {
            fs::write(folder.path().join(ID_FILE), text).expect("written");
            let opened = Identity::open(folder.path());
            assert!(matches!(opened, Err(IdentityError::Damaged(_))), "{text:?}");
        }
    }

    fn ids(folder: &Path) -> (String, String) {
        let identity = Identity::open(folder).expect("opens");
        (identity.instance_id().into(), identity.boot_id().into())
    }
}
