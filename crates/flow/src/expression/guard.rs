//! Keeps the engine's panics where they happen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::{Error, ErrorKind};

/// What the engine gives; a panic of it is an error like any other.
///
/// The engine is not ours and has panicked before, on texts that anybody may send. It keeps nothing
/// of what it works out, so that nothing half done can be seen afterwards.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::InvalidOperation, "it cannot be worked out")))
}
