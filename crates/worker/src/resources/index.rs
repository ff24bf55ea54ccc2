//! What survives the process: one JSON file that is replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Timestamp;
use protocol::session::open::OpenObject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::resource::{Body, Resource};

/// The only form of the file so far.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Index {
    version: u32,
    resources: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    id: String,
    #[serde(rename = "type")]
    resource_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    path: PathBuf,
    bytes: u64,
    is_owned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    created_at: u64,
    used_at: u64,
    ttl_ms: u64,
    expires_at: u64,
}

impl Row {
    /// `None` for what does not survive the process.
    fn of(resource: &Resource) -> Option<Self> {
        let Body::File { path, bytes, is_owned } = &resource.body else { return None };
        Some(Self {
            id: resource.id.clone(),
            resource_type: resource.resource_type.clone(),
            scope: resource.scope.clone(),
            path: path.clone(),
            bytes: *bytes,
            is_owned: *is_owned,
            metadata: resource.metadata.clone().map(OpenObject::into_raw),
            created_at: resource.created_at.as_millis(),
            used_at: resource.used_at.as_millis(),
            ttl_ms: u64::try_from(resource.ttl.as_millis()).unwrap_or(u64::MAX),
            expires_at: resource.expires_at.as_millis(),
        })
    }

    fn into_resource(self) -> Resource {
        Resource {
            id: self.id,
            resource_type: self.resource_type,
            scope: self.scope,
            body: Body::File { path: self.path, bytes: self.bytes, is_owned: self.is_owned },
            metadata: self.metadata.and_then(OpenObject::new),
            created_at: Timestamp::from_millis(self.created_at),
            used_at: Timestamp::from_millis(self.used_at),
            ttl: Duration::from_millis(self.ttl_ms),
            expires_at: Timestamp::from_millis(self.expires_at),
        }
    }
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
        Ok(index) if index.version == VERSION => {
            Ok(index.resources.into_iter().map(Row::into_resource).collect())
        }
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
pub(super) fn write<'a>(
    path: &Path,
    resources: impl Iterator<Item = &'a Resource>,
) -> io::Result<()> {
    let index = Index { version: VERSION, resources: resources.filter_map(Row::of).collect() };
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(&serde_json::to_vec(&index)?)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
