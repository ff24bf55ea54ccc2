//! What is kept, and what goes: by its time, or because room is short. No clock and no disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::Timestamp;
use protocol::session::codec::OpenObject;
use protocol::session::payload::resource::Artifact;

/// Bytes of files that are kept, unless the worker is told otherwise.
pub const DISK_BYTES_MAX_DEFAULT: u64 = 20 << 30;
/// Bytes in memory that are kept, unless the worker is told otherwise.
pub const MEM_BYTES_MAX_DEFAULT: u64 = 8 << 30;
/// How long something is kept that nobody uses, unless its maker says otherwise.
pub const TTL_DEFAULT: Duration = Duration::from_hours(1);
/// How often what nobody needs is thrown away.
pub const GC_EVERY_DEFAULT: Duration = Duration::from_mins(1);

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of files.
    pub disk_bytes_max: u64,
    /// Bytes in memory.
    pub mem_bytes_max: u64,
    /// How long something is kept whose maker does not say.
    pub ttl: Duration,
    /// How often what nobody needs is thrown away.
    pub gc_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            disk_bytes_max: DISK_BYTES_MAX_DEFAULT,
            mem_bytes_max: MEM_BYTES_MAX_DEFAULT,
            ttl: TTL_DEFAULT,
            gc_every: GC_EVERY_DEFAULT,
        }
    }
}

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In a file.
    File {
        path: PathBuf,
        bytes: u64,
        /// Whether the file goes with the resource: it lies in the registry's own folder.
        is_owned: bool,
    },
    /// In this process, and gone with it.
    Memory {
        /// About how much it takes.
        bytes: u64,
    },
}

/// Something that is to be kept.
#[derive(Clone, Debug)]
pub struct NewResource {
    /// Its name; a new one is made up where there is none.
    pub id: Option<String>,
    /// What kind of thing it is, like `file`.
    pub resource_type: String,
    /// What it belongs to, like a run; it can be thrown away with all else of its scope.
    pub scope: Option<String>,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
    /// How long it is kept if nobody uses it; the limits say so where it does not.
    pub ttl: Option<Duration>,
}

/// Something that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name.
    pub id: String,
    /// What kind of thing it is.
    pub resource_type: String,
    /// What it belongs to.
    pub scope: Option<String>,
    /// Where it is.
    pub body: Body,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
    /// Since when it is kept.
    pub created_at: Timestamp,
    /// When it was used last.
    pub used_at: Timestamp,
    /// How long it is kept after its last use.
    pub ttl: Duration,
    /// It is not thrown away before this, unless room is short.
    pub expires_at: Timestamp,
}

impl Resource {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        match self.body {
            Body::File { bytes, .. } | Body::Memory { bytes } => bytes,
        }
    }

    /// How a result speaks of it.
    pub fn artifact(&self, worker_name: &str, inline: bool) -> Artifact {
        Artifact {
            resource_id: self.id.clone(),
            worker_name: worker_name.to_owned(),
            resource_type: self.resource_type.clone(),
            size_bytes: Some(self.bytes()),
            inline: Some(inline),
            expires_at: Some(self.expires_at.to_string()),
            metadata: self.metadata.clone(),
        }
    }
}

/// Things that are kept at most.
pub(crate) const RESOURCES_MAX: usize = 4096;
/// From this share of the room on, things go before their time, in percent.
const HIGH_PERCENT: u64 = 90;
/// Until no more than this share is taken.
const LOW_PERCENT: u64 = 80;

/// Why something is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// The name is taken.
    #[error("there is a resource {0} already")]
    Taken(String),
    /// There is no room, and nothing that could go.
    #[error("{bytes} bytes more would be more than the {bytes_max} that this worker keeps")]
    Full {
        /// The size of what is to be kept.
        bytes: u64,
        bytes_max: u64,
    },
    /// There are too many, all in use.
    #[error("this worker keeps {RESOURCES_MAX} resources at most, and all are in use")]
    TooMany,
}

#[derive(Clone, Debug)]
struct Kept {
    resource: Resource,
    /// Who works with it now.
    n_users: u32,
    /// It goes as soon as nobody works with it.
    is_doomed: bool,
}

impl Kept {
    fn is_idle(&self) -> bool {
        self.n_users == 0
    }
}

/// All that is kept. Whatever an operation gives back has gone, and its file should follow.
#[derive(Debug)]
pub(crate) struct ResourceTable {
    limits: Limits,
    kept: BTreeMap<String, Kept>,
    disk_bytes: u64,
    mem_bytes: u64,
}

impl ResourceTable {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, kept: BTreeMap::new(), disk_bytes: 0, mem_bytes: 0 }
    }

    /// Keeps something; what nobody uses makes room for it.
    pub(crate) fn add(&mut self, resource: Resource) -> Result<Vec<Resource>, KeepError> {
        if self.kept.contains_key(&resource.id) {
            return Err(KeepError::Taken(resource.id));
        }
        let (bytes, is_file) = (resource.bytes(), is_file(&resource));
        let bytes_max = self.bytes_max(is_file);
        let busy = self.kept.values().filter(|kept| !kept.is_idle());
        let (mut n_busy, mut busy_bytes) = (0, 0_u64);
        for kept in busy {
            n_busy += 1;
            let counts = self::is_file(&kept.resource) == is_file;
            busy_bytes += if counts { kept.resource.bytes() } else { 0 };
        }
        if n_busy >= RESOURCES_MAX {
            return Err(KeepError::TooMany);
        }
        if busy_bytes.saturating_add(bytes) > bytes_max {
            return Err(KeepError::Full { bytes, bytes_max });
        }
        let mut gone = self.evict(is_file, bytes_max - bytes);
        while self.kept.len() >= RESOURCES_MAX {
            gone.extend(self.evict_one(|_| true));
        }
        self.count(&resource, true);
        let kept = Kept { resource, n_users: 0, is_doomed: false };
        self.kept.insert(kept.resource.id.clone(), kept);
        Ok(gone)
    }

    /// Someone begins to work with it; it stays until it is released. `None` if it is not there.
    pub(crate) fn lease(&mut self, now: Timestamp, id: &str) -> Option<Resource> {
        let kept = self.kept.get_mut(id)?;
        let is_over = kept.is_idle() && kept.resource.expires_at <= now;
        if kept.is_doomed || is_over {
            return None;
        }
        kept.n_users += 1;
        touch(&mut kept.resource, now, None);
        Some(kept.resource.clone())
    }

    /// It is kept for longer: for so long from now on, or for its own time. Never for less.
    pub(crate) fn touch(&mut self, now: Timestamp, id: &str, ttl: Option<Duration>) -> bool {
        let Some(kept) = self.kept.get_mut(id).filter(|kept| !kept.is_doomed) else { return false };
        touch(&mut kept.resource, now, ttl);
        true
    }

    /// Someone is done with it.
    pub(crate) fn release(&mut self, now: Timestamp, id: &str) -> Option<Resource> {
        let kept = self.kept.get_mut(id).filter(|kept| !kept.is_idle())?;
        kept.n_users -= 1;
        touch(&mut kept.resource, now, None);
        let goes = kept.is_idle() && kept.is_doomed;
        if goes { self.remove(&id.to_owned()) } else { None }
    }

    /// Everything of a scope goes; what is in use goes when it no longer is.
    pub(crate) fn release_scope(&mut self, scope: &str) -> Vec<Resource> {
        let is_of_it = |kept: &&mut Kept| kept.resource.scope.as_deref() == Some(scope);
        for kept in self.kept.values_mut().filter(is_of_it) {
            kept.is_doomed = true;
        }
        self.remove_where(|kept| kept.is_doomed && kept.is_idle())
    }

    /// Throws away what is over its time, then what was not used for longest while room is short.
    pub(crate) fn gc(&mut self, now: Timestamp) -> Vec<Resource> {
        let mut gone = self.remove_where(|kept| kept.is_idle() && kept.resource.expires_at <= now);
        for is_file in [true, false] {
            let bytes_max = self.bytes_max(is_file);
            if self.bytes(is_file) > share(bytes_max, HIGH_PERCENT) {
                gone.extend(self.evict(is_file, share(bytes_max, LOW_PERCENT)));
            }
        }
        gone
    }

    /// What is there, by name.
    pub(crate) fn list(
        &self,
        scope: Option<&str>,
        resource_type: Option<&str>,
    ) -> impl Iterator<Item = &Resource> {
        let there = self.kept.values().filter(|kept| !kept.is_doomed).map(|kept| &kept.resource);
        there.filter(move |one| {
            scope.is_none_or(|scope| one.scope.as_deref() == Some(scope))
                && resource_type.is_none_or(|wanted| one.resource_type == wanted)
        })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Resource> {
        self.kept.get(id).filter(|kept| !kept.is_doomed).map(|kept| &kept.resource)
    }

    /// Bytes in files and in memory.
    pub(crate) fn bytes(&self, is_file: bool) -> u64 {
        if is_file { self.disk_bytes } else { self.mem_bytes }
    }

    /// How many someone works with.
    pub(crate) fn n_busy(&self) -> usize {
        self.kept.values().filter(|kept| !kept.is_idle()).count()
    }

    fn bytes_max(&self, is_file: bool) -> u64 {
        if is_file { self.limits.disk_bytes_max } else { self.limits.mem_bytes_max }
    }

    /// Throws away what is idle, least lately used first, until no more than `bytes` are taken.
    fn evict(&mut self, is_file: bool, bytes: u64) -> Vec<Resource> {
        let mut gone = Vec::new();
        while self.bytes(is_file) > bytes {
            match self.evict_one(|resource| self::is_file(resource) == is_file) {
                Some(one) => gone.push(one),
                None => break,
            }
        }
        gone
    }

    fn evict_one(&mut self, may_go: impl Fn(&Resource) -> bool) -> Option<Resource> {
        let idle = self.kept.values().filter(|kept| kept.is_idle() && may_go(&kept.resource));
        let oldest = idle.min_by_key(|kept| (kept.resource.used_at, &kept.resource.id))?;
        let id = oldest.resource.id.clone();
        self.remove(&id)
    }

    fn remove_where(&mut self, goes: impl Fn(&Kept) -> bool) -> Vec<Resource> {
        let ids: Vec<String> =
            self.kept.iter().filter(|(_, kept)| goes(kept)).map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: &String) -> Option<Resource> {
        let resource = self.kept.remove(id)?.resource;
        self.count(&resource, false);
        Some(resource)
    }

    fn count(&mut self, resource: &Resource, is_added: bool) {
        let bytes = resource.bytes();
        let total = if is_file(resource) { &mut self.disk_bytes } else { &mut self.mem_bytes };
        *total = if is_added { total.saturating_add(bytes) } else { *total - bytes };
    }
}

fn is_file(resource: &Resource) -> bool {
    matches!(resource.body, Body::File { .. })
}

fn touch(resource: &mut Resource, now: Timestamp, ttl: Option<Duration>) {
    resource.used_at = resource.used_at.max(now);
    let until = now.after(ttl.unwrap_or(resource.ttl));
    resource.expires_at = resource.expires_at.max(until);
}

fn share(whole: u64, percent: u64) -> u64 {
    whole / 100 * percent
}

#[cfg(test)]
mod tests;
