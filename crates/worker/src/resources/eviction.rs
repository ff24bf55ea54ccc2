//! The files that are kept, and which go: by their time, or because room is short. No clock and no disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::Timestamp;
use protocol::session::codec::OpenObject;
use protocol::session::payload::resource::Artifact;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Bytes of files that are kept, unless the worker is told otherwise.
pub const DISK_BYTES_MAX_DEFAULT: u64 = 20 << 30;
/// How long something is kept that nobody uses, unless its maker says otherwise.
pub const TTL_DEFAULT: Duration = Duration::from_hours(1);
/// How often what nobody needs is thrown away.
pub const GC_EVERY_DEFAULT: Duration = Duration::from_mins(1);

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of files.
    pub disk_bytes_max: u64,
    /// How long something is kept whose maker does not say.
    pub ttl: Duration,
    /// How often what nobody needs is thrown away.
    pub gc_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            disk_bytes_max: DISK_BYTES_MAX_DEFAULT,
            ttl: TTL_DEFAULT,
            gc_every: GC_EVERY_DEFAULT,
        }
    }
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

/// A file that is kept; a row of the index.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub id: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// What it belongs to.
    pub scope: Option<String>,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Whether the file goes with the resource: it lies in the registry's own folder.
    pub is_owned: bool,
    /// Whatever else is known about it.
    pub metadata: Option<OpenObject>,
    /// Since when it is kept.
    #[serde(with = "millis")]
    pub created_at: Timestamp,
    /// When it was used last.
    #[serde(with = "millis")]
    pub used_at: Timestamp,
    /// How long it is kept after its last use.
    pub ttl_ms: u64,
    /// It is not thrown away before this, unless room is short.
    #[serde(with = "millis")]
    pub expires_at: Timestamp,
}

mod millis {
    use model::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.as_millis())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(from).map(Timestamp::from_millis)
    }
}

impl Resource {
    /// How a result speaks of it.
    pub fn artifact(&self, worker_name: &str, inline: bool) -> Artifact {
        Artifact {
            resource_id: self.id.clone(),
            worker_name: worker_name.to_owned(),
            resource_type: self.resource_type.clone(),
            size_bytes: Some(self.bytes),
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
    bytes: u64,
}

impl ResourceTable {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, kept: BTreeMap::new(), bytes: 0 }
    }

    /// Keeps something; what nobody uses makes room for it.
    pub(crate) fn add(&mut self, resource: Resource) -> Result<Vec<Resource>, KeepError> {
        if self.kept.contains_key(&resource.id) {
            return Err(KeepError::Taken(resource.id));
        }
        let (bytes, bytes_max) = (resource.bytes, self.limits.disk_bytes_max);
        let busy = || self.kept.values().filter(|kept| !kept.is_idle());
        if busy().count() >= RESOURCES_MAX {
            return Err(KeepError::TooMany);
        }
        let busy_bytes: u64 = busy().map(|kept| kept.resource.bytes).sum();
        if busy_bytes.saturating_add(bytes) > bytes_max {
            return Err(KeepError::Full { bytes, bytes_max });
        }
        let mut gone = self.evict(bytes_max - bytes);
        while self.kept.len() >= RESOURCES_MAX {
            gone.extend(self.evict_one());
        }
        self.bytes += bytes;
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
        touch(&mut kept.resource, now);
        Some(kept.resource.clone())
    }

    /// Someone is done with it.
    pub(crate) fn release(&mut self, now: Timestamp, id: &str) -> Option<Resource> {
        let kept = self.kept.get_mut(id).filter(|kept| !kept.is_idle())?;
        kept.n_users -= 1;
        touch(&mut kept.resource, now);
        let goes = kept.is_idle() && kept.is_doomed;
        if goes { self.remove(id) } else { None }
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
        let bytes_max = self.limits.disk_bytes_max;
        if self.bytes > share(bytes_max, HIGH_PERCENT) {
            gone.extend(self.evict(share(bytes_max, LOW_PERCENT)));
        }
        gone
    }

    /// What is there, by name.
    pub(crate) fn list(&self) -> impl Iterator<Item = &Resource> {
        self.kept.values().filter(|kept| !kept.is_doomed).map(|kept| &kept.resource)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many someone works with.
    pub(crate) fn n_busy(&self) -> usize {
        self.kept.values().filter(|kept| !kept.is_idle()).count()
    }

    /// Throws away what is idle, least lately used first, until no more than `bytes` are taken.
    fn evict(&mut self, bytes: u64) -> Vec<Resource> {
        let mut gone = Vec::new();
        while self.bytes > bytes
            && let Some(one) = self.evict_one()
        {
            gone.push(one);
        }
        gone
    }

    fn evict_one(&mut self) -> Option<Resource> {
        let idle = self.kept.values().filter(|kept| kept.is_idle());
        let oldest = idle.min_by_key(|kept| (kept.resource.used_at, &kept.resource.id))?;
        let id = oldest.resource.id.clone();
        self.remove(&id)
    }

    fn remove_where(&mut self, goes: impl Fn(&Kept) -> bool) -> Vec<Resource> {
        let ids: Vec<String> =
            self.kept.iter().filter(|(_, kept)| goes(kept)).map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: &str) -> Option<Resource> {
        let resource = self.kept.remove(id)?.resource;
        self.bytes -= resource.bytes;
        Some(resource)
    }
}

fn touch(resource: &mut Resource, now: Timestamp) {
    resource.used_at = resource.used_at.max(now);
    let until = now.after(Duration::from_millis(resource.ttl_ms));
    resource.expires_at = resource.expires_at.max(until);
}

fn share(whole: u64, percent: u64) -> u64 {
    whole / 100 * percent
}

#[cfg(test)]
mod tests;
