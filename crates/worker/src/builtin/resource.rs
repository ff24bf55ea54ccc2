//! `core.file` leaves a file behind, `core.read_resource` looks at one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context as Digest, SHA256};
use protocol::session::codec::OpenObject;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Executed, raw, read};
use crate::core::executor::{Context, Outcome, PARAMETERS_INVALID, RESOURCE_MISSING};
use crate::resources::{NewResource, Registry};

/// The largest file that is made out of nothing.
const BYTES_MAX: u64 = 1 << 30;
/// What is read or written at once.
const PIECE_BYTES: usize = 64 << 10;
/// What a file says that goes with its run.
const RUN_SCOPE: &str = "run";
/// The disk does not do what it should.
const DISK: &str = "E.RESOURCE.DISK";
const FILE_WANTED: &str = r#"core.file wants {"text": "..."} or {"bytes": 1000}"#;
const READ_WANTED: &str = r#"core.read_resource wants {"resourceRef": {"resourceId": "..."}}"#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewFile {
    text: Option<String>,
    /// So many bytes, the same ones for the same number.
    bytes: Option<u64>,
    resource_id: Option<String>,
    #[serde(rename = "type")]
    resource_type: Option<String>,
    scope: Option<String>,
    filename: Option<String>,
    ttl_ms: Option<u64>,
    /// The result holds the text too.
    inline: Option<bool>,
}

/// Writes a file, keeps it as a resource and tells of it.
pub(super) async fn write(parameters: &RawValue, context: &Context) -> Executed {
    let mut new: NewFile = read(parameters, FILE_WANTED)?;
    let is_clear = new.text.is_some() != new.bytes.is_some();
    if !is_clear || new.bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
        return Err(Outcome::hopeless(PARAMETERS_INVALID, FILE_WANTED));
    }
    let resources = context.resources.clone().ok_or_else(nothing_kept)?;
    let scope = scope(new.scope.take(), context);
    // It waits for the disk.
    let written = tokio::task::spawn_blocking(move || write_file(&resources, new, scope)).await;
    written.unwrap_or_else(|error| Err(disk(error)))
}

fn disk(error: impl std::fmt::Display) -> Outcome {
    Outcome::passing(DISK, error.to_string())
}

/// What belongs to the run goes when the run ends.
fn scope(given: Option<String>, context: &Context) -> Option<String> {
    match given.as_deref() {
        Some(RUN_SCOPE) => context.run_id.clone().or(given),
        _ => given,
    }
}

fn write_file(resources: &Arc<Registry>, new: NewFile, scope: Option<String>) -> Executed {
    let path = resources.new_path();
    let sha256 = write_pieces(&path, &new).map_err(disk)?;
    let metadata = json!({ "sha256": sha256, "filename": new.filename });
    let resource = NewResource {
        id: new.resource_id,
        resource_type: new.resource_type.unwrap_or_else(|| "file".into()),
        scope,
        metadata: OpenObject::new(raw(&metadata)),
        ttl: new.ttl_ms.map(Duration::from_millis),
    };
    let kept = resources.register_file(resource, &path).map_err(|error| {
        // A file that nothing names would only go with the next start.
        let _ = std::fs::remove_file(&path);
        Outcome::hopeless(DISK, error.to_string())
    })?;
    let worker_name = resources.worker_name();
    let reference = json!({
        "resourceId": kept.id, "workerName": worker_name, "type": kept.resource_type,
    });
    let mut result = json!({ "resourceRef": reference, "sizeBytes": kept.bytes, "sha256": sha256 });
    let inline = new.text.filter(|_| new.inline == Some(true));
    let is_inline = inline.is_some();
    if let Some(text) = inline {
        result["text"] = text.into();
    }
    Ok(Outcome::leaving(raw(&result), vec![kept.artifact(worker_name, is_inline)]))
}

/// Writes what is asked for; gives its digest.
fn write_pieces(path: &Path, new: &NewFile) -> io::Result<String> {
    let mut file = File::create(path)?;
    let mut digest = Digest::new(&SHA256);
    if let Some(text) = &new.text {
        digest.update(text.as_bytes());
        file.write_all(text.as_bytes())?;
        return Ok(hex(digest));
    }
    let mut left = new.bytes.unwrap_or(0);
    // The same bytes for the same number, and none that a compressor could make small.
    let mut state = left | 1;
    let mut piece = vec![0; PIECE_BYTES];
    while left > 0 {
        for byte in &mut piece {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state.to_le_bytes()[3];
        }
        let length = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        digest.update(&piece[..length]);
        file.write_all(&piece[..length])?;
        left -= u64::try_from(length).unwrap_or(left);
    }
    Ok(hex(digest))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Look {
    resource_ref: Reference,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(alias = "resource_id")]
    resource_id: String,
}

/// Says how large a resource is, and what its digest is.
pub(super) async fn look(parameters: &RawValue, context: &Context) -> Executed {
    let look: Look = read(parameters, READ_WANTED)?;
    let id = look.resource_ref.resource_id;
    let resources = context.resources.clone().ok_or_else(nothing_kept)?;
    let looked = tokio::task::spawn_blocking(move || look_at(&resources, &id)).await;
    looked.unwrap_or_else(|error| Err(disk(error)))
}

fn look_at(resources: &Arc<Registry>, id: &str) -> Executed {
    let missing =
        || Outcome::hopeless(RESOURCE_MISSING, format!("resource {id} is not on this worker"));
    let lent = resources.lease(id).ok_or_else(missing)?;
    let sha256 = digest_of(&lent.resource().path).map_err(disk)?;
    let size_bytes = lent.resource().bytes;
    Ok(Outcome::done(raw(&json!({ "sizeBytes": size_bytes, "sha256": sha256 }))))
}

fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut digest, mut piece) = (Digest::new(&SHA256), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(digest)),
            length => digest.update(&piece[..length]),
        }
    }
}

fn hex(digest: Digest) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in digest.finish().as_ref() {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}

fn nothing_kept() -> Outcome {
    Outcome::hopeless(RESOURCE_MISSING, "this worker keeps no resources; start it with a session")
}

#[cfg(test)]
mod tests;
