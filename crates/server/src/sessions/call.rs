//! A call of `next` that its worker waits for, whichever connection it came over.

use std::sync::Arc;

use bytes::Bytes;
use model::{LeaseId, Timestamp};

/// One call of `next`: what it takes to ask for it, and to answer it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) lease: LeaseId,
    /// The worker's own name for it.
    pub(crate) request: Arc<str>,
    pub(crate) run_id: String,
    pub(crate) node_id: String,
    pub(crate) middleware_id: String,
    /// A JSON object, or nothing.
    pub(crate) payload: Bytes,
    pub(crate) until: Option<Timestamp>,
}
