//! One part of a resource, from the worker that has it.

use std::time::Duration;

use bytes::Bytes;
use model::{TenantId, WorkerId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::directory::Directory;
use crate::links::ToLink;

/// How long a worker that has gone may take to come back, in the middle of a download.
const AWAY_MAX: Duration = Duration::from_secs(15);
/// How long a worker may take for one part; it says everything else first.
const PART_WITHIN: Duration = Duration::from_mins(1);
/// The pause before a worker is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A part that someone waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) resource_id: String,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Dropped without a word where the session has no room, or is lost: then it is asked again.
    pub(crate) reply: oneshot::Sender<Result<Bytes, ReadFailure>>,
}

/// Why a part cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadFailure {
    #[error("the worker has the resource no longer")]
    Missing,
    #[error("the worker that has the resource is not connected")]
    Away,
    #[error("the worker cannot read the resource: {0}")]
    Unreadable(String),
    #[error("the worker did not send the next part in time")]
    Late,
}

/// Where a resource is.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) directory: Directory,
    pub(crate) tenant: TenantId,
    pub(crate) worker: WorkerId,
    pub(crate) resource_id: String,
}

impl Source {
    /// Reads a part, through every reconnect of its worker.
    pub(crate) async fn read(&self, offset: u64, length: u64) -> Result<Bytes, ReadFailure> {
        let (began, mut seen_at) = (Instant::now(), Instant::now());
        while began.elapsed() < PART_WITHIN {
            let (reply, answer) = oneshot::channel();
            let resource_id = self.resource_id.clone();
            let wanted = Wanted { resource_id, offset, length, reply };
            let word = ToLink::Read(Box::new(wanted));
            // Looked up for each part: a shard that is rebuilt has another handle.
            if let Some(handle) = self.directory.find(&self.tenant)
                && handle.tell_worker(self.worker.clone(), word).await
            {
                seen_at = Instant::now();
                let left = PART_WITHIN.saturating_sub(began.elapsed());
                match tokio::time::timeout(left, answer).await {
                    Ok(Ok(answer)) => return answer,
                    Ok(Err(_)) => {}
                    Err(_) => return Err(ReadFailure::Late),
                }
            } else if seen_at.elapsed() >= AWAY_MAX {
                return Err(ReadFailure::Away);
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        Err(ReadFailure::Late)
    }
}
