//! Queues that people paused: remembered as notes, told to the coordinator after each restart.

use coordinator::{Answer, Command, Pause, Refusal};
use model::{QueueName, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Note, NoteKind, Store, StoreError};

use crate::app::App;
use crate::handle::{AskError, CoordinatorHandle};

/// What the note of a paused queue says; its key is the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PauseNote {
    /// Who paused it.
    pub(crate) by: String,
    /// When, as text.
    pub(crate) at: String,
}

/// The queues of a tenant that are paused. A note that cannot be read still pauses its queue: to
/// grant what a person held back is the worse mistake.
pub(crate) async fn of_tenant(
    store: &dyn Store,
    tenant: &TenantId,
) -> Result<Vec<(QueueName, Pause)>, StoreError> {
    let notes = store.notes(NoteKind::Pause).await?;
    let own = notes.iter().filter(|note| note.tenant == tenant.as_str());
    let paused = own.filter_map(|note| {
        let pause = read(note.json.as_deref().unwrap_or_default());
        Some((note.key.parse().ok()?, pause))
    });
    Ok(paused.collect())
}

fn read(json: &str) -> Pause {
    let note: Option<PauseNote> = serde_json::from_str(json).ok();
    let at = note.as_ref().and_then(|note| note.at.parse::<Timestamp>().ok()).unwrap_or_default();
    Pause { by: note.map_or_else(|| "someone".to_owned(), |note| note.by), at }
}

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
    let words = |pause: &Pause| PauseNote { by: pause.by.clone(), at: pause.at.to_string() };
    let json = pause
        .as_ref()
        .map(|pause| serde_json::to_string(&words(pause)).expect("two texts are JSON"));
    let (kind, key) = (NoteKind::Pause, queue.to_string());
    let note = Note { kind, tenant: tenant.to_string(), key, json };
    app.store.put_note(note.clone()).await?;
    match handle.ask(|ticket| Command::SetPause { ticket, queue, pause }).await? {
        Answer::PauseSet => Ok(()),
        Answer::Refused(refusal) => {
            // What was refused must not come true with the next restart.
            app.store.put_note(Note { json: None, ..note }).await?;
            Err(PauseError::Refused(refusal))
        }
        _ => Err(PauseError::Ask(AskError::Unavailable)),
    }
}

#[cfg(test)]
mod tests {
    use store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn pauses_come_back_with_their_words() {
        let store = MemoryStore::default();
        let at = Timestamp::from_millis(1_790_000_000_000);
        let note = PauseNote { by: "ada".to_owned(), at: at.to_string() };
        let json = serde_json::to_string(&note).expect("JSON");
        for (tenant, key, json) in
            [("acme", "nightly", json.as_str()), ("acme", "odd", "{}"), ("bolt", "other", "{}")]
        {
            let (tenant, key, json) = (tenant.into(), key.into(), Some(json.into()));
            store.put_note(Note { kind: NoteKind::Pause, tenant, key, json }).await.expect("kept");
        }
        let tenant = "acme".parse().expect("valid");
        let found = of_tenant(&store, &tenant).await.expect("reads");
        let someone = Pause { by: "someone".to_owned(), at: Timestamp::default() };
        let expected = [("nightly", Pause { by: "ada".to_owned(), at }), ("odd", someone)];
        let expected = expected.map(|(queue, pause)| (queue.parse().expect("valid"), pause));
        assert_eq!(found, expected);
    }
}
