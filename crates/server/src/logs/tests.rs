//! What the hub promises: nothing lost, nothing doubled, nothing without bound.

mod bounds;
mod broken_disk;
mod following;
mod model_log;
mod resume;
mod torn;

use std::path::Path;

use model::{LeaseId, ShardId, TaskId};
use protocol::session::codec::OpenObject;
use protocol::session::payload::exec::{Channel, Chunk, Feedback};
use serde_json::value::RawValue;

use super::{FeedbackHub, LogContent, LogEntry, LogLimits};

fn task(number: u64) -> TaskId {
    TaskId::of(ShardId::new(1).expect("fits"), number)
}

fn lease(number: u64, epoch: u32) -> LeaseId {
    LeaseId { task: task(number), epoch }
}

/// The smallest logs that there are, so that tests come to their bounds soon.
fn small() -> LogLimits {
    LogLimits { task_bytes_max: 64 * 1024, ..LogLimits::default() }
}

fn open(folder: &Path) -> FeedbackHub {
    FeedbackHub::open(folder.to_owned(), small()).expect("a hub")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}

/// A frame with one chunk; bytes that are no text go as base64.
fn said(channel: Channel, position: Option<u64>, bytes: &[u8]) -> Feedback {
    use base64::Engine as _;
    let text = String::from_utf8(bytes.to_vec()).ok();
    let metadata = position.map(|offset| {
        let raw = RawValue::from_string(format!("{{\"offset\":{offset}}}")).expect("JSON");
        OpenObject::new(raw).expect("an object")
    });
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    let data_base64 = text.is_none().then_some(data);
    let chunk = Chunk { channel, index: None, mime_type: None, text, data_base64, metadata };
    Feedback { chunks: Some(vec![chunk]), ..silence() }
}

fn silence() -> Feedback {
    Feedback {
        run_id: "run".to_owned(),
        task_id: "task".to_owned(),
        stage: None,
        progress: None,
        message: None,
        chunks: None,
        metrics: None,
        metadata: None,
    }
}

/// Takes one chunk of standard output.
fn take(hub: &FeedbackHub, lease: LeaseId, position: Option<u64>, bytes: &[u8]) {
    block_on(hub.take(lease, said(Channel::Stdout, position, bytes), None)).expect("taken");
}

/// Page after page until nothing follows; pages join without holes.
fn read_all(hub: &FeedbackHub, task: TaskId, offset: u64, bytes_max: usize) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    let mut offset = offset;
    loop {
        let page = hub.read(task, offset, bytes_max).expect("readable");
        for entry in &page.entries {
            assert_eq!(entry.offset, offset, "entries join");
            assert!(entry.next_offset > entry.offset, "entries hold something");
            offset = entry.next_offset;
        }
        if page.entries.is_empty() {
            return entries;
        }
        assert_eq!(page.next_offset, offset);
        entries.extend(page.entries);
    }
}

/// What was said, without what was dropped.
fn bytes_of(entries: &[LogEntry]) -> Vec<u8> {
    let said = entries.iter().filter_map(|entry| match &entry.content {
        LogContent::Said { bytes, .. } => Some(bytes),
        LogContent::Dropped => None,
    });
    said.flat_map(|bytes| bytes.to_vec()).collect()
}

fn dropped_of(entries: &[LogEntry]) -> u64 {
    let dropped = entries.iter().filter(|entry| entry.content == LogContent::Dropped);
    dropped.map(|entry| entry.next_offset - entry.offset).sum()
}
