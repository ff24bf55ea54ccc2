//! Webhooks: whoever knows a secret may start one workflow.
//!
//! A webhook is a document of its tenant, under the digest of its secret. A call knows no tenant;
//! the store finds it by the digest in the documents themselves, so a webhook is usable exactly as
//! long as it is durable, and no crash can separate the two.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::{digest, rand};
use bytes::Bytes;
use model::{TenantId, Timestamp};
use parking_lot::Mutex;
use shard::documents::{Entry, HOOKS_MAX, HookHead, NewDocument, Written};
use store::StoreError;

use crate::app::App;
use crate::handle::{AskError, ShardHandle};

/// Limit: the body of a webhook's call.
pub(crate) const HOOK_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Limit: calls of one webhook in a minute.
const HOOK_CALLS_PER_MINUTE_MAX: u32 = 600;
const MINUTE: Duration = Duration::from_mins(1);
const SECRET_BYTES: usize = 32;
const HOOK_ID_BYTES: usize = 8;
const PREFIX: &str = "hook_";
/// A longer text cannot be one of ours, and is not even looked up.
const TOKEN_BYTES_MAX: usize = 128;

/// A webhook.
pub(crate) type Hook = Arc<Entry<HookHead>>;

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
    /// The shard did not answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps a new one and gives its id and its secret, which is shown this once. What is kept of it is
/// a digest.
pub(crate) async fn add(
    handle: &ShardHandle,
    mut head: HookHead,
    (by, at): (String, Timestamp),
) -> Result<(String, String), HookError> {
    let token = format!("{PREFIX}{}", random_hex::<SECRET_BYTES>()?);
    head.hook_id = random_hex::<HOOK_ID_BYTES>()?;
    let (hook_id, digest) = (head.hook_id.clone(), digest_of(&token));
    let (at_ms, body) = (at.as_millis(), Bytes::new());
    let new = NewDocument { hash: String::new(), by, at_ms, head, body };
    match handle.change(move |documents| documents.hooks.put(&digest, Some(0), new)).await? {
        Written::Saved(_) => Ok((hook_id, token)),
        Written::Full => Err(HookError::Full),
        // The same secret twice, or a body that is too large: webhooks have none.
        Written::Same(_) | Written::Conflict(_) | Written::TooLarge(_) => {
            Err(HookError::NoRandomness)
        }
    }
}

/// Forgets one.
pub(crate) async fn remove(
    handle: &ShardHandle,
    calls: &HookCalls,
    hook_id: &str,
) -> Result<(), HookError> {
    let hook_id = hook_id.to_owned();
    let removed = handle.change(move |documents| {
        let hooks = &mut documents.hooks;
        let found = hooks.newest_first().find(|(_, hook)| hook.head.hook_id == hook_id);
        let digest = found.map(|(digest, _)| digest.clone())?;
        hooks.remove(&digest).then_some(digest)
    });
    let digest = removed.await?.ok_or(HookError::Unknown)?;
    calls.forget(&digest);
    Ok(())
}

/// A tenant's, oldest first.
pub(crate) async fn list(handle: &ShardHandle) -> Result<Vec<Hook>, AskError> {
    let look = |shard: &shard::Shard| {
        let hooks = shard.documents().hooks.newest_first();
        hooks.map(|(_, hook)| Arc::clone(hook)).collect()
    };
    let mut hooks: Vec<Hook> = handle.look(look).await?;
    hooks.sort_by(|a, b| (a.at_ms, &a.head.hook_id).cmp(&(b.at_ms, &b.head.hook_id)));
    Ok(hooks)
}

/// The webhook of a secret, if it may be called right now. The digest is looked up, not the secret:
/// how long that takes says nothing about a secret.
pub(crate) async fn call(app: &App, token: &str) -> Result<(TenantId, Hook), HookError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(HookError::Unknown);
    }
    let digest = digest_of(token);
    let tenant = app.store.tenant_of_hook(digest.clone()).await?.ok_or(HookError::Unknown)?;
    let (handle, key) = (app.directory.of(&tenant).await?, digest.clone());
    let look = move |shard: &shard::Shard| shard.documents().hooks.get(&key).cloned();
    let hook = handle.look(look).await?.ok_or(HookError::Unknown)?;
    app.hook_calls.count(digest, Instant::now())?;
    Ok((tenant, hook))
}

/// Limits how often each webhook is called.
#[derive(Default)]
pub(crate) struct HookCalls {
    /// Calls since a minute began, by digest.
    calls: Mutex<HashMap<String, (Instant, u32)>>,
}

impl HookCalls {
    fn count(&self, digest: String, now: Instant) -> Result<(), HookError> {
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

    fn forget(&self, digest: &str) {
        self.calls.lock().remove(digest);
    }
}

fn digest_of(token: &str) -> String {
    hex(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
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
    use super::*;

    #[test]
    fn a_hook_that_is_called_too_often_rests_for_a_while() {
        let (calls, now) = (HookCalls::default(), Instant::now());
        let count = |hook: &str, now| calls.count(hook.to_owned(), now);
        for _ in 0..HOOK_CALLS_PER_MINUTE_MAX {
            count("one", now).expect("few enough");
        }
        let half = MINUTE / 2;
        let refused = count("one", now + half);
        assert!(matches!(refused, Err(HookError::TooOften { again_in }) if again_in == half));
        count("other", now).expect("another one");
        count("one", now + MINUTE).expect("the minute is over");
    }
}
