//! The resources of a worker, with their files.
//!
//! What is registered survives a restart: the file is on the disk before the index names it, and
//! the index forgets it before the file goes. Files of the registry's own folder that no index
//! names are left over from a crash, and go when the next process begins.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::core::clock::now;
use crate::resources::eviction::{KeepError, Limits, NewResource, Resource, ResourceTable};

/// The folder of the files, inside the worker's.
const FOLDER: &str = "resources";
/// The index, beside that folder.
const INDEX: &str = "resources.json";
/// The longest name of a resource, a type or a scope.
const NAME_BYTES_MAX: usize = 256;

/// Why a resource cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is no room, or the name is taken.
    #[error(transparent)]
    ResourceTable(#[from] KeepError),
    /// Its name, type or scope is none.
    #[error("{0} must have 1 to {NAME_BYTES_MAX} bytes and no control characters")]
    Name(&'static str),
    /// It is no file.
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The disk does not do what it should.
    #[error("{} cannot be used: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

/// The resources of a worker.
#[derive(Debug)]
pub struct Registry {
    worker_name: String,
    folder: PathBuf,
    index: PathBuf,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: ResourceTable,
    /// Something changed that the index does not say yet, and that would be no loss.
    is_stale: bool,
}

/// What is kept, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub count: usize,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// How many someone works with.
    pub in_use: usize,
}

impl Registry {
    /// The registry of a worker's data folder, with what the process before left in it.
    pub fn open(data: &Path, worker_name: &str, limits: Limits) -> Result<Self, RegistryError> {
        let (folder, index) = (data.join(FOLDER), data.join(INDEX));
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let folder = folder.canonicalize().map_err(failed(&folder))?;
        let mut table = ResourceTable::new(limits);
        let listed = read(&index).map_err(failed(&index))?;
        let n_listed = listed.len();
        for resource in listed.into_iter().filter(is_intact) {
            // The limits may be tighter than they were.
            if let Err(error) = table.add(resource) {
                tracing::warn!(%error, "a resource of before is not kept");
            }
        }
        sweep(&folder, &table).map_err(failed(&folder))?;
        let state = Mutex::new(State { table, is_stale: false });
        let worker_name = worker_name.to_owned();
        let registry = Self { worker_name, folder, index, limits, state };
        let n_kept = registry.totals().count;
        if n_kept < n_listed {
            tracing::warn!(n_lost = n_listed - n_kept, "resources of before are gone");
            registry.save(&mut registry.state.lock())?;
        }
        Ok(registry)
    }

    /// The worker's name, by which others speak of its resources.
    pub fn worker_name(&self) -> &str {
        &self.worker_name
    }

    /// How often [`Registry::gc`] should be called.
    pub fn gc_every(&self) -> Duration {
        self.limits.gc_every
    }

    /// A path in the registry's own folder that nothing uses yet.
    pub fn new_path(&self) -> PathBuf {
        self.folder.join(Uuid::new_v4().to_string())
    }

    /// Keeps a file. One in the registry's own folder goes with the resource; any other stays.
    pub fn register_file(&self, new: NewResource, path: &Path) -> Result<Resource, RegistryError> {
        let path = path.canonicalize().map_err(failed(path))?;
        let file = File::open(&path).map_err(failed(&path))?;
        let metadata = file.metadata().map_err(failed(&path))?;
        if !metadata.is_file() {
            return Err(RegistryError::NotAFile(path));
        }
        file.sync_all().map_err(failed(&path))?;
        let (now, ttl) = (now(), new.ttl.unwrap_or(self.limits.ttl));
        let resource = Resource {
            id: new.id.unwrap_or_else(|| Uuid::new_v4().to_string()),
            resource_type: new.resource_type,
            scope: new.scope,
            is_owned: path.parent() == Some(&self.folder),
            path,
            bytes: metadata.len(),
            metadata: new.metadata,
            created_at: now,
            used_at: now,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            expires_at: now.after(ttl),
        };
        check_name("the name of a resource", &resource.id)?;
        check_name("the type of a resource", &resource.resource_type)?;
        check_name("the scope of a resource", resource.scope.as_deref().unwrap_or("-"))?;
        let mut state = self.state.lock();
        let gone = state.table.add(resource.clone())?;
        self.save(&mut state)?;
        drop(state);
        delete(&gone);
        Ok(resource)
    }

    /// Works with a resource until what is given back is dropped. `None` if there is none, or its
    /// file is gone or is not what it was.
    pub fn lease(self: &Arc<Self>, id: &str) -> Option<Lent> {
        let resource = self.state.lock().table.lease(now(), id)?;
        let lent = Lent { registry: Arc::clone(self), resource };
        is_intact(&lent.resource).then_some(lent)
    }

    fn release(&self, id: &str) {
        let mut state = self.state.lock();
        state.is_stale = true;
        if let Some(gone) = state.table.release(now(), id) {
            self.forget(state, &[gone]);
        }
    }

    /// Throws away all of a scope; what is in use goes when it no longer is.
    pub fn release_scope(&self, scope: &str) {
        let mut state = self.state.lock();
        let gone = state.table.release_scope(scope);
        if !gone.is_empty() {
            self.forget(state, &gone);
        }
    }

    /// Throws away what nobody needs.
    pub fn gc(&self) {
        let mut state = self.state.lock();
        let gone = state.table.gc(now());
        if !gone.is_empty() {
            tracing::info!(n_gone = gone.len(), "resources that nobody needs are gone");
        }
        if state.is_stale || !gone.is_empty() {
            self.forget(state, &gone);
        }
    }

    /// What is there, by name.
    pub fn list(&self) -> Vec<Resource> {
        self.state.lock().table.list().cloned().collect()
    }

    /// How much is kept.
    pub fn totals(&self) -> Totals {
        let state = self.state.lock();
        Totals {
            count: state.table.list().count(),
            disk_bytes: state.table.bytes(),
            in_use: state.table.n_busy(),
        }
    }

    /// The index forgets them before their files go.
    fn forget(&self, mut state: MutexGuard<'_, State>, gone: &[Resource]) {
        if let Err(error) = self.save(&mut state) {
            tracing::error!(%error, "the index of resources cannot be written");
        }
        drop(state);
        delete(gone);
    }

    fn save(&self, state: &mut State) -> Result<(), RegistryError> {
        write(&self.index, state.table.list().cloned().collect()).map_err(failed(&self.index))?;
        state.is_stale = false;
        Ok(())
    }
}

/// A resource that someone works with.
#[derive(Debug)]
pub struct Lent {
    registry: Arc<Registry>,
    resource: Resource,
}

impl Lent {
    /// Which.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.registry.release(&self.resource.id);
    }
}

/// Whether the file is still what was registered.
fn is_intact(resource: &Resource) -> bool {
    let found = fs::metadata(&resource.path);
    found.is_ok_and(|file| file.is_file() && file.len() == resource.bytes)
}

/// Deletes the files of the own folder that nothing names.
fn sweep(folder: &Path, table: &ResourceTable) -> io::Result<()> {
    let named: HashSet<&Path> = table.list().filter_map(owned_path).collect();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !named.contains(path.as_path()) {
            tracing::info!(path = %path.display(), "a file that no resource names is deleted");
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn owned_path(resource: &Resource) -> Option<&Path> {
    resource.is_owned.then_some(&resource.path)
}

fn delete(gone: &[Resource]) {
    for path in gone.iter().filter_map(owned_path) {
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "a file cannot be deleted");
        }
    }
}

fn check_name(what: &'static str, text: &str) -> Result<(), RegistryError> {
    let is_good = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if is_good { Ok(()) } else { Err(RegistryError::Name(what)) }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    let path = path.to_owned();
    move |source| RegistryError::Disk { path, source }
}

/// The only form of the file so far.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Index {
    version: u32,
    resources: Vec<Resource>,
}

/// Reads the index. One that cannot be read is laid aside, for the files of it are worth less than
/// the worker.
pub(super) fn read(path: &Path) -> io::Result<Vec<Resource>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice::<Index>(&text) {
        Ok(Index { version: VERSION, resources }) => Ok(resources),
        Ok(Index { version, .. }) => {
            let why = format!("{} has version {version}, not {VERSION}", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the index of resources is damaged");
            fs::rename(path, path.with_extension("damaged"))?;
            Ok(Vec::new())
        }
    }
}

/// Replaces the index: whoever reads it sees the old one or the new one, also after a crash.
pub(super) fn write(path: &Path, resources: Vec<Resource>) -> io::Result<()> {
    let index = Index { version: VERSION, resources };
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(&serde_json::to_vec(&index)?)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
