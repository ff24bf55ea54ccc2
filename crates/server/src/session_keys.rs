//! The keys that sign session tokens, of no tenant: made once, kept, changed with an overlap.

use std::sync::Arc;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use model::Timestamp;
use parking_lot::RwLock;
use protocol::session::token::{Bearer, KeyRing};
use serde::{Deserialize, Serialize};
use store::{Note, NoteKind, Store, StoreError};

const SECRET_BYTES: usize = 32;

/// A key, as the store keeps it.
#[derive(Serialize, Deserialize)]
struct KeyDocument {
    /// When it was made, in milliseconds since 1970.
    made_at: u64,
    /// In base64.
    secret: String,
}

/// What signs session tokens.
pub(crate) struct SessionKeys {
    store: Arc<dyn Store>,
    ring: RwLock<KeyRing>,
}

impl SessionKeys {
    /// Reads what the store knows.
    pub(crate) async fn load(store: Arc<dyn Store>, now: Timestamp) -> Result<Self, StoreError> {
        let ring = RwLock::new(load(&store, now).await?);
        Ok(Self { store, ring })
    }

    pub(crate) fn issue(&self, bearer: Bearer<'_>, now: Timestamp, until: Timestamp) -> String {
        self.ring.read().issue(bearer, now, until)
    }

    pub(crate) fn verify(&self, token: &str, bearer: Bearer<'_>, now: Timestamp) -> bool {
        self.ring.read().verify(token, bearer, now).is_ok()
    }

    /// Signs with a new key from here on; tokens of the former ones stay good until they end.
    pub(crate) async fn rotate(&self, now: Timestamp) -> Result<String, StoreError> {
        let (_, id, secret) = make(&self.store, now).await?;
        self.ring.write().rotate(&id, &secret).map_err(|error| {
            StoreError::Unavailable(format!("the new key is not usable: {error}"))
        })?;
        Ok(id)
    }
}

/// Reads the keys, and makes the first one if there is none.
async fn load(store: &Arc<dyn Store>, now: Timestamp) -> Result<KeyRing, StoreError> {
    let notes = store.notes(NoteKind::SessionKey).await?;
    let mut keys: Vec<(u64, String, Vec<u8>)> = notes.iter().filter_map(read).collect();
    if keys.is_empty() {
        keys.push(make(store, now).await?);
    }
    keys.sort();
    let mut keys = keys.into_iter();
    let (_, id, secret) = keys.next().expect("just made sure of");
    let damaged =
        |error: protocol::session::token::KeyError| StoreError::Damaged(error.to_string());
    let mut ring = KeyRing::new(&id, &secret).map_err(damaged)?;
    for (_, id, secret) in keys {
        ring.rotate(&id, &secret).map_err(damaged)?;
    }
    Ok(ring)
}

/// A new key, kept in the store.
async fn make(
    store: &Arc<dyn Store>,
    now: Timestamp,
) -> Result<(u64, String, Vec<u8>), StoreError> {
    let mut secret = [0; SECRET_BYTES];
    let mut id = [0; 4];
    let no_random = |_| StoreError::Unavailable("the system gives no random bytes".to_owned());
    rand::fill(&mut secret).map_err(no_random)?;
    rand::fill(&mut id).map_err(no_random)?;
    let id = BASE64.encode(id);
    let document = KeyDocument { made_at: now.as_millis(), secret: BASE64.encode(secret) };
    let json = serde_json::to_string(&document).expect("texts and numbers always become JSON");
    let note = Note {
        kind: NoteKind::SessionKey,
        tenant: String::new(),
        key: id.clone(),
        json: Some(json),
    };
    store.put_note(note).await?;
    Ok((document.made_at, id, secret.to_vec()))
}

fn read(note: &Note) -> Option<(u64, String, Vec<u8>)> {
    let document: KeyDocument = serde_json::from_str(note.json.as_deref()?).ok()?;
    Some((document.made_at, note.key.clone(), BASE64.decode(&document.secret).ok()?))
}
