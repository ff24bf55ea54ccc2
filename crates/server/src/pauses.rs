//! Queues that people paused: remembered as notes, told to the coordinator after each restart.

use coordinator::Pause;
use model::{QueueName, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use store::{NoteKind, Store, StoreError};

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

#[cfg(test)]
mod tests {
    use store::{MemoryStore, Note};

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
