//! Webhooks: whoever knows a secret may start one workflow.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::{constant_time, digest, rand};
use model::TenantId;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use store::{Note, NoteKind, Store, StoreError};

/// Webhooks that one tenant may keep.
pub(crate) const HOOKS_MAX: usize = 1_000;
/// The body of one call.
pub(crate) const HOOK_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Calls of one webhook in a minute.
pub(crate) const HOOK_CALLS_PER_MINUTE_MAX: u32 = 600;
const MINUTE: Duration = Duration::from_mins(1);
const SECRET_BYTES: usize = 32;
const HOOK_ID_BYTES: usize = 8;
const PREFIX: &str = "hook_";
/// A longer text cannot be one of ours, and is not even looked up.
const TOKEN_BYTES_MAX: usize = 128;

/// What is kept of a webhook: the JSON of its note. The note's key is the secret's digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptHook {
    pub(crate) hook_id: String,
    pub(crate) name: Option<String>,
    pub(crate) workflow_id: String,
    pub(crate) created_ms: u64,
    pub(crate) created_by: String,
}

/// A webhook and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct OwnedHook {
    pub(crate) tenant: TenantId,
    pub(crate) hook: KeptHook,
}

/// Why a webhook is not kept, not found or not called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// There are too many.
    #[error("{HOOKS_MAX} webhooks are kept already")]
    Full,
    /// There is no such webhook.
    #[error("no webhook with this secret")]
    Unknown,
    /// It is called too often.
    #[error("the webhook was called {HOOK_CALLS_PER_MINUTE_MAX} times within a minute")]
    TooOften {
        /// When it may be called again.
        again_in: Duration,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

type Digest = [u8; 32];

/// All webhooks.
pub(crate) struct Hooks {
    store: Arc<dyn Store>,
    kept: RwLock<HashMap<Digest, OwnedHook>>,
    /// Calls since a minute began, by digest.
    calls: Mutex<HashMap<Digest, (Instant, u32)>>,
    /// Held by whoever changes something.
    changing: tokio::sync::Mutex<()>,
}

impl Hooks {
    /// Reads what was kept before.
    pub(crate) async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut kept = HashMap::new();
        for note in store.notes(NoteKind::Hook).await? {
            let Some((digest, owned)) = read(&note) else {
                tracing::error!("a webhook cannot be read");
                continue;
            };
            kept.insert(digest, owned);
        }
        let (kept, calls) = (RwLock::new(kept), Mutex::default());
        Ok(Self { store, kept, calls, changing: tokio::sync::Mutex::default() })
    }

    /// Keeps a new one and gives its secret, which is shown this once. What is kept of it is a
    /// digest.
    pub(crate) async fn add(
        &self,
        tenant: &TenantId,
        mut hook: KeptHook,
    ) -> Result<(String, KeptHook), HookError> {
        let _changing = self.changing.lock().await;
        if self.of_tenant(tenant).len() >= HOOKS_MAX {
            return Err(HookError::Full);
        }
        let token = format!("{PREFIX}{}", random_hex::<SECRET_BYTES>()?);
        hook.hook_id = random_hex::<HOOK_ID_BYTES>()?;
        let digest = digest_of(&token);
        let json = serde_json::to_string(&hook).expect("our own shapes are JSON");
        self.store.put_note(note(tenant, &digest, Some(json))).await?;
        let owned = OwnedHook { tenant: tenant.clone(), hook: hook.clone() };
        self.kept.write().insert(digest, owned);
        Ok((token, hook))
    }

    /// Forgets one.
    pub(crate) async fn remove(&self, tenant: &TenantId, hook_id: &str) -> Result<(), HookError> {
        let _changing = self.changing.lock().await;
        let is_it = |owned: &OwnedHook| owned.tenant == *tenant && owned.hook.hook_id == hook_id;
        let found = {
            let kept = self.kept.read();
            kept.iter().find(|(_, owned)| is_it(owned)).map(|(digest, _)| *digest)
        };
        let digest = found.ok_or(HookError::Unknown)?;
        self.store.put_note(note(tenant, &digest, None)).await?;
        self.kept.write().remove(&digest);
        self.calls.lock().remove(&digest);
        Ok(())
    }

    /// A tenant's, oldest first.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<KeptHook> {
        let kept = self.kept.read();
        let own = kept.values().filter(|owned| owned.tenant == *tenant);
        let mut own: Vec<KeptHook> = own.map(|owned| owned.hook.clone()).collect();
        own.sort_by(|a, b| (a.created_ms, &a.hook_id).cmp(&(b.created_ms, &b.hook_id)));
        own
    }

    /// The webhook of a secret, if it may be called right now. The digest is looked up, not the
    /// secret: how long that takes says nothing about a secret.
    pub(crate) fn call(&self, token: &str) -> Result<OwnedHook, HookError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(HookError::Unknown);
        }
        let digest = digest_of(token);
        let found = self.kept.read().get_key_value(&digest).map(|(key, hook)| (*key, hook.clone()));
        let (key, owned) = found.ok_or(HookError::Unknown)?;
        constant_time::verify_slices_are_equal(&digest, &key).map_err(|_| HookError::Unknown)?;
        self.count_call(key, Instant::now())?;
        Ok(owned)
    }

    fn count_call(&self, digest: Digest, now: Instant) -> Result<(), HookError> {
        let mut calls = self.calls.lock();
        let (since, count) = calls.entry(digest).or_insert((now, 0));
        if now.duration_since(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        if *count >= HOOK_CALLS_PER_MINUTE_MAX {
            let again_in = MINUTE.saturating_sub(now.duration_since(*since));
            return Err(HookError::TooOften { again_in });
        }
        *count += 1;
        Ok(())
    }
}

fn read(note: &Note) -> Option<(Digest, OwnedHook)> {
    let hook = serde_json::from_str(note.json.as_deref()?).ok()?;
    Some((digest_in(&note.key)?, OwnedHook { tenant: note.tenant.parse().ok()?, hook }))
}

fn note(tenant: &TenantId, digest: &Digest, json: Option<String>) -> Note {
    Note { kind: NoteKind::Hook, tenant: tenant.to_string(), key: hex(digest), json }
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    bytes
}

fn digest_in(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(digest)
}

fn random_hex<const N: usize>() -> Result<String, HookError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| HookError::NoRandomness)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_secret_is_kept_as_a_digest_and_opens_its_hook_alone() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let hooks = Hooks::load(Arc::clone(&store)).await.expect("reads");
        let tenant: TenantId = "acme".parse().expect("a name");
        let (token, hook) = hooks.add(&tenant, sample()).await.expect("kept");
        let notes = store.notes(NoteKind::Hook).await.expect("reads");
        let kept = format!("{notes:?}");
        assert!(!kept.contains(token.trim_start_matches(PREFIX)), "the secret is not kept");
        let hooks = Hooks::load(Arc::clone(&store)).await.expect("reads");
        assert_eq!(hooks.call(&token).expect("found").hook.hook_id, hook.hook_id);
        for wrong in ["", "hook_", &token[1..], &format!("{token}0"), &"x".repeat(1_000)] {
            assert!(matches!(hooks.call(wrong), Err(HookError::Unknown)), "{wrong}");
        }
        let other: TenantId = "other".parse().expect("a name");
        assert!(hooks.remove(&other, &hook.hook_id).await.is_err());
        hooks.remove(&tenant, &hook.hook_id).await.expect("removed");
        assert!(matches!(hooks.call(&token), Err(HookError::Unknown)));
        assert_eq!(store.notes(NoteKind::Hook).await.expect("reads"), []);
    }

    #[tokio::test]
    async fn a_hook_that_is_called_too_often_rests_for_a_while() {
        let hooks = Hooks::load(Arc::new(MemoryStore::default())).await.expect("reads");
        let now = Instant::now();
        for _ in 0..HOOK_CALLS_PER_MINUTE_MAX {
            hooks.count_call([7; 32], now).expect("few enough");
        }
        let half = MINUTE / 2;
        let refused = hooks.count_call([7; 32], now + half);
        assert!(matches!(refused, Err(HookError::TooOften { again_in }) if again_in == half));
        hooks.count_call([8; 32], now).expect("another one");
        hooks.count_call([7; 32], now + MINUTE).expect("the minute is over");
    }

    fn sample() -> KeptHook {
        KeptHook {
            hook_id: String::new(),
            name: None,
            workflow_id: "w".to_owned(),
            created_ms: 0,
            created_by: "ada".to_owned(),
        }
    }
}
