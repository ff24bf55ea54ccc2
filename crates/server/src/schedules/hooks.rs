//! Webhooks: whoever knows a secret may start one workflow.
//!
//! A webhook is a document of its tenant, under the digest of its secret. A call knows no tenant;
//! the store finds it by the digest in the documents themselves, so a webhook is usable exactly as
//! long as it is durable, and no crash can separate the two.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::{TenantId, Timestamp};
use parking_lot::Mutex;
use protocol::error_code::ErrorCode;
use shard::documents::{Entry, HOOKS_MAX, HookHead, NewDocument, Written};
use shard::report_key::hex;

use crate::app::App;
use crate::auth::{digest_of, random_hex};
use crate::handle::{AskError, ShardHandle};
use crate::wire_words::problem::ApiError;

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

/// The same words for a webhook that never was and for one of another tenant.
fn unknown() -> ApiError {
    ApiError::new(ErrorCode::HookNotFound, "no webhook with this secret")
}

fn no_randomness() -> ApiError {
    ApiError::internal("the system gives no random bytes")
}

/// Keeps a new one and gives its id and its secret, which is shown this once. What is kept of it is
/// a digest.
pub(crate) async fn add(
    handle: &ShardHandle,
    mut head: HookHead,
    (by, at): (String, Timestamp),
) -> Result<(String, String), ApiError> {
    let secret = random_hex::<SECRET_BYTES>().ok_or_else(no_randomness)?;
    head.hook_id = random_hex::<HOOK_ID_BYTES>().ok_or_else(no_randomness)?;
    let token = format!("{PREFIX}{secret}");
    let (hook_id, digest) = (head.hook_id.clone(), hex(&digest_of(&token)));
    let (at_ms, body) = (at.as_millis(), Bytes::new());
    let new = NewDocument { hash: String::new(), by, at_ms, head, body };
    match handle.change(move |documents| documents.hooks.put(&digest, Some(0), new)).await? {
        Written::Saved(_) => Ok((hook_id, token)),
        Written::Full => {
            let message = format!("{HOOKS_MAX} webhooks are kept already");
            Err(ApiError::new(ErrorCode::LimitSchedules, message))
        }
        // The same secret twice, or a body that is too large: webhooks have none.
        Written::Same(_) | Written::Conflict(_) | Written::TooLarge(_) => Err(no_randomness()),
    }
}

/// Forgets one.
pub(crate) async fn remove(
    handle: &ShardHandle,
    calls: &HookCalls,
    hook_id: &str,
) -> Result<(), ApiError> {
    let hook_id = hook_id.to_owned();
    let removed = handle.change(move |documents| {
        let hooks = &mut documents.hooks;
        let found = hooks.newest_first().find(|(_, hook)| hook.head.hook_id == hook_id);
        let digest = found.map(|(digest, _)| digest.clone())?;
        hooks.remove(&digest).then_some(digest)
    });
    let digest = removed.await?.ok_or_else(unknown)?;
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
pub(crate) async fn call(app: &App, token: &str) -> Result<(TenantId, Hook), ApiError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(unknown());
    }
    let digest = hex(&digest_of(token));
    let tenant = app.store.tenant_of_hook(digest.clone()).await?.ok_or_else(unknown)?;
    let (handle, key) = (app.directory.of(&tenant).await?, digest.clone());
    let look = move |shard: &shard::Shard| shard.documents().hooks.get(&key).cloned();
    let hook = handle.look(look).await?.ok_or_else(unknown)?;
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
    fn count(&self, digest: String, now: Instant) -> Result<(), ApiError> {
        let mut calls = self.calls.lock();
        let (since, count) = calls.entry(digest).or_insert((now, 0));
        if now.duration_since(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        if *count >= HOOK_CALLS_PER_MINUTE_MAX {
            let again_in = MINUTE.saturating_sub(now.duration_since(*since));
            let message =
                format!("the webhook was called {HOOK_CALLS_PER_MINUTE_MAX} times within a minute");
            let error = ApiError::new(ErrorCode::LimitOverloaded, message);
            return Err(ApiError { again_in: Some(again_in), ..error });
        }
        *count += 1;
        Ok(())
    }

    fn forget(&self, digest: &str) {
        self.calls.lock().remove(digest);
    }
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
        assert!(matches!(refused, Err(error) if error.again_in == Some(half)));
        count("other", now).expect("another one");
        count("one", now + MINUTE).expect("the minute is over");
    }
}
