//! How keys are hashed.

/// Differs from process to process, so that nobody can choose keys that collide. Whatever is hashed
/// with it stands in the order in which it came, so nothing that is decided depends on it.
#[expect(clippy::disallowed_types, reason = "the order of an index map does not depend on it")]
pub(crate) type HashState = foldhash::fast::RandomState;
