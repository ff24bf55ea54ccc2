//! The server reads resources of this worker, part by part.
//!
//! It asks for each part when it has room for it, so a slow reader holds nothing up here. Whatever
//! else the worker has to say goes first.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::session::kind::Kind;
use protocol::session::payload::resource_read::{CHUNK_BYTES_MAX, Chunk, ReadError, ReadRequest};

use super::Link;
use crate::executor::RESOURCE_MISSING;
use crate::resources::Registry;
use crate::session::attempt::Note;

/// Parts that are read or wait to be sent at the same time.
const READS_MAX: usize = 64;
/// Parts that are on their way at the same time. Whatever is said meanwhile waits for no more than
/// these, and they never fill a session.
const CHUNKS_OUT_MAX: usize = 4;
/// More reads than the worker does at the same time.
const BUSY: &str = "E.LIMIT.OVERLOADED";
/// The disk does not do what it should.
const DISK: &str = "E.RESOURCE.UNREADABLE";

impl Link {
    pub(super) fn on_read_request(&mut self, request: ReadRequest) {
        self.n_reads += 1;
        if self.n_reads > READS_MAX {
            let why = "the worker reads as much as it can already";
            return self.on_chunk(failed(&request, BUSY, why.into()));
        }
        let (resources, notes) = (Arc::clone(&self.parts.resources), self.notes_sender.clone());
        tokio::task::spawn_blocking(move || {
            let chunk = read(&resources, &request);
            // Nobody listens when the session has ended.
            let _ = notes.send(Note::Read(Box::new(chunk)));
        });
    }

    pub(super) fn on_chunk(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// A few parts at a time, when there is nothing else to say.
    pub(super) fn speak_of_resources(&mut self) {
        while self.backlog.is_empty()
            && !self.parts.machine.is_full()
            && self.chunks_out.len() < CHUNKS_OUT_MAX
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.n_reads = self.n_reads.saturating_sub(1);
            let frame = self.namer.chunk(chunk);
            self.chunks_out.insert(frame.id.clone());
            self.post(frame);
        }
    }

    /// The session is lost, and whoever waited for parts with it.
    pub(super) fn drop_chunks(&mut self) {
        self.n_reads = self.n_reads.saturating_sub(self.chunks.len());
        self.chunks.clear();
        self.chunks_out.clear();
        self.backlog.retain(|frame| frame.kind != Kind::ResourceReadChunk.name());
    }
}

fn read(resources: &Arc<Registry>, request: &ReadRequest) -> Chunk {
    let Some(lent) = resources.lease(&request.resource_id) else {
        let why = format!("resource {} is not on this worker", request.resource_id);
        return failed(request, RESOURCE_MISSING, why);
    };
    let Some(path) = lent.path() else {
        return failed(request, RESOURCE_MISSING, "the resource is no file".into());
    };
    match read_part(path, request) {
        Ok(bytes) => {
            let end = request.offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Chunk {
                request_id: request.request_id.clone(),
                offset: request.offset,
                data: STANDARD.encode(&bytes),
                eof: end >= lent.resource().bytes(),
                error: None,
            }
        }
        Err(error) => failed(request, DISK, error.to_string()),
    }
}

fn read_part(path: &Path, request: &ReadRequest) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(request.offset))?;
    let length = request.length.min(CHUNK_BYTES_MAX);
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn failed(request: &ReadRequest, code: &str, message: String) -> Chunk {
    Chunk {
        request_id: request.request_id.clone(),
        offset: request.offset,
        data: String::new(),
        eof: true,
        error: Some(ReadError { code: code.into(), message }),
    }
}
