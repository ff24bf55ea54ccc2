//! One thing that lives on this worker.

use std::path::PathBuf;
use std::time::Duration;

use model::Timestamp;
use protocol::session::open::OpenObject;
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
        /// Which.
        path: PathBuf,
        /// Its size.
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
