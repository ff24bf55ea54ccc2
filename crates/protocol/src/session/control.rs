//! What the machines say beyond the payloads: the hints between our ends.

use super::envelope::Envelope;

/// Stands in for a business frame that was taken back; it says nothing and is only counted.
pub const VOID: &str = "ext.astraflow.void";

/// The flag on a resume that names the lowest number that the worker still keeps.
///
/// A server that lost its buffers learns from it where to go on. Hints travel in the reserved
/// flags because other servers refuse unknown keys in the payload.
pub const SEND_BASE_FLAG: &str = "send_base=";

/// The flag on a handshake and a resume that names the boot of the worker's machine: what ran
/// before another boot does not run any more.
pub const BOOT_FLAG: &str = "boot=";

/// The feature of a worker whose acks count frames, so that no dispatch need be named in one.
pub const COUNTED_ACKS_FEATURE: &str = "astra.acks.counted";

/// The rest of the first flag that begins so.
pub(crate) fn flag<'a>(frame: &'a Envelope, prefix: &str) -> Option<&'a str> {
    frame.flags.iter().flatten().find_map(|flag| flag.strip_prefix(prefix))
}
