//! How much of the past is kept, and how readers are held to their share.

use std::time::Duration;

/// Events of one tenant that are kept for readers that come back; then the oldest go.
pub const RING_EVENTS_MAX: usize = 50_000;
/// What they may take in memory, their JSON included; then the oldest go.
pub const RING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Connections of one tenant that read events.
pub const READERS_MAX: usize = 1_000;
/// Events that a reader looks at in one go.
pub const READ_EVENTS_MAX: usize = 4_096;
/// A reader with more than so many events before it is told the newest status of a node alone.
pub const BEHIND_EVENTS: usize = 512;
/// What a reader is sent at once.
pub const CHUNK_BYTES_MAX: usize = 128 * 1024;
/// Pages that are shared by readers at the same place: who is slower reads alone.
pub const PAGES_MAX: usize = 8;
/// What the events of one of them may take in memory; a larger one is not shared.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Written events that are held to be sent to several readers.
pub const SHARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A reader of a busy tenant waits so long before it looks again.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Looks that a reader may take at once, before it is held to its pace.
pub const LOOKS_AT_ONCE: u32 = 16;
/// How long it takes until one of them is given back.
pub const LOOK_COSTS: Duration = Duration::from_millis(4);
/// A reader that finds more than so many events waits before it looks again.
pub const FLOOD_EVENTS: usize = 64;
/// How long words of workers are kept for readers after the last one has left.
pub const LINGER_FOR: Duration = Duration::from_mins(1);
