//! Pausing a queue, for every door.

use coordinator::{Answer, Command, Pause, Refusal};
use model::{QueueName, TenantId};
use serde_json::json;
use store::{Note, NoteKind, StoreError};

use crate::app::App;
use crate::handle::{AskError, CoordinatorHandle};

/// Why a queue goes on as before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PauseError {
    /// The pause cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody answered.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The coordinator refused.
    #[error("refused")]
    Refused(Refusal),
}

/// Pauses a queue, or lets it go on. It is kept first: a restart does not end a pause.
pub(crate) async fn set(
    app: &App,
    handle: &CoordinatorHandle,
    tenant: &TenantId,
    queue: QueueName,
    pause: Option<Pause>,
) -> Result<(), PauseError> {
    let json = pause.as_ref().map(|pause| {
        json!({ "by": pause.by, "at": pause.at.as_millis() }).to_string()
    });
    let (kind, key) = (NoteKind::Pause, queue.to_string());
    app.store.put_note(Note { kind, tenant: tenant.to_string(), key, json }).await?;
    match handle.ask(|ticket| Command::SetPause { ticket, queue, pause }).await? {
        Answer::PauseSet => Ok(()),
        Answer::Refused(refusal) => Err(PauseError::Refused(refusal)),
        _ => Err(PauseError::Ask(AskError::Unavailable)),
    }
}
