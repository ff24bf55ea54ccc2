//! Tokens: who is asking, for which tenant, in which role.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::{constant_time, digest, rand};
use model::{TenantId, Timestamp, WorkerId};
use parking_lot::RwLock;
use protocol::rest::tokens::Role;
use shard::report_key::hex;
use store::{Store, StoreError, TokenRow};

use crate::app::DEFAULT_TENANT;

/// Limit: tokens that one tenant may have, revoked ones included.
const TOKENS_PER_TENANT_MAX: usize = 10_000;
/// Limit: the note on a token, in characters.
pub const TOKEN_NAME_CHARS_MAX: usize = 256;
/// A longer `Authorization` value cannot be one of ours, and is not even looked up.
const TOKEN_TEXT_BYTES_MAX: usize = 256;
const SECRET_BYTES: usize = 32;
const TOKEN_ID_BYTES: usize = 8;
const PREFIX: &str = "astra";
/// The word that opens a server in dev mode, as no header at all does.
const DEV_TOKEN: &str = "dev-token";

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// For which tenant.
    pub tenant: TenantId,
    /// In which role.
    pub role: Role,
    /// The one worker that the token was made for; others may speak for any.
    pub worker: Option<WorkerId>,
}

impl Caller {
    /// The one worker that this caller may speak for, if another one is named.
    pub(crate) fn bound_elsewhere(&self, named: &str) -> Option<&WorkerId> {
        self.worker.as_ref().filter(|own| own.as_str() != named)
    }
}

/// Why a token could not be made or revoked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The tenant has as many tokens as it may have.
    #[error("tenant {0} has {TOKENS_PER_TENANT_MAX} tokens already")]
    TooMany(TenantId),
    /// The tenant has no such token.
    #[error("no token with this id")]
    Unknown,
    /// Only a worker can be spoken for.
    #[error("a {} token speaks for no worker; only the role worker does", .0.word())]
    NoWorker(Role),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The tokens that open this server.
pub struct Auth {
    store: Arc<dyn Store>,
    /// A snapshot: requests read it without waiting for one another.
    tokens: RwLock<Arc<HashMap<String, TokenRow>>>,
    dev_caller: Option<Caller>,
    /// Keys of single workers from the server's settings, by their digests (seed 004 section 7.1).
    worker_keys: HashMap<[u8; 32], Caller>,
}

impl Auth {
    /// Reads every token from the store.
    pub async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let rows = store.tokens().await?;
        let tokens = rows.into_iter().map(|row| (row.token_id.clone(), row)).collect();
        let tokens = RwLock::new(Arc::new(tokens));
        Ok(Self { store, tokens, dev_caller: None, worker_keys: HashMap::new() })
    }

    /// Lets requests without a token, and those with `dev-token`, in as admin of `default`. Only
    /// for a server that listens on this machine alone.
    #[must_use]
    pub(crate) fn with_dev_access(mut self) -> Self {
        let caller = Caller { tenant: default_tenant(), role: Role::Admin, worker: None };
        self.dev_caller = Some(caller);
        self
    }

    /// Lets single workers in by keys of their own, as workers of `default`.
    #[must_use]
    pub fn with_worker_keys(mut self, keys: &[(WorkerId, String)]) -> Self {
        for (worker, key) in keys {
            let (tenant, worker) = (default_tenant(), Some(worker.clone()));
            let caller = Caller { tenant, role: Role::Worker, worker };
            self.worker_keys.insert(digest_of(key), caller);
        }
        self
    }

    /// Who stands behind a key from the settings. The digest is looked up, not the key: how long
    /// that takes says nothing about a key.
    pub fn identify_worker_key(&self, key: &str) -> Option<Caller> {
        self.worker_keys.get(&digest_of(key)).cloned()
    }

    /// Whether requests without a token are let in.
    pub fn has_dev_access(&self) -> bool {
        self.dev_caller.is_some()
    }

    /// Who stands behind an `Authorization` header, and the id of the token. `None` says nothing about why: unknown,
    /// expired and revoked tokens must look the same from outside.
    pub fn identify(
        &self,
        authorization: Option<&[u8]>,
        now: Timestamp,
    ) -> Option<(Caller, Option<String>)> {
        let token = match authorization {
            None => None,
            Some(header) => Some(bearer(header)?),
        };
        self.identify_token(token, now)
    }

    /// Who stands behind a token that did not come in a header, and the id of that token.
    pub fn identify_token(
        &self,
        token: Option<&str>,
        now: Timestamp,
    ) -> Option<(Caller, Option<String>)> {
        match token {
            None | Some(DEV_TOKEN) => self.dev_caller.clone().map(|caller| (caller, None)),
            Some(token) => {
                let caller = self.find(token, now)?;
                Some((caller, split(token).map(|(token_id, _)| token_id.to_owned())))
            }
        }
    }

    /// What people call a credential: a token by its note, if it has one.
    pub(crate) fn name_of(&self, credential: &str) -> String {
        let tokens = Arc::clone(&self.tokens.read());
        let name = tokens.get(credential).and_then(|row| row.name.clone());
        name.unwrap_or_else(|| credential.to_owned())
    }

    /// Whether a token still opens doors.
    pub fn is_live(&self, token_id: &str, now: Timestamp) -> bool {
        let tokens = Arc::clone(&self.tokens.read());
        tokens.get(token_id).is_some_and(|row| is_live(row, now))
    }

    /// Whether a credential that opened a door still does. What is no token (dev access, a key from
    /// the settings) lasts as long as the process.
    pub(crate) fn is_known_live(&self, credential: &str, now: Timestamp) -> bool {
        let tokens = Arc::clone(&self.tokens.read());
        tokens.get(credential).is_none_or(|row| is_live(row, now))
    }

    fn find(&self, token: &str, now: Timestamp) -> Option<Caller> {
        let (token_id, secret) = split(token).filter(|_| token.len() <= TOKEN_TEXT_BYTES_MAX)?;
        let tokens = Arc::clone(&self.tokens.read());
        let row = tokens.get(token_id)?;
        let digest = digest_of(secret);
        constant_time::verify_slices_are_equal(&digest, &row.digest).ok()?;
        if !is_live(row, now) {
            return None;
        }
        let role = Role::from_word(&row.role)?;
        Some(Caller { tenant: row.tenant.clone(), role, worker: row.worker.clone() })
    }

    /// Makes a token that stands for `bearer`. The text is shown once; what is kept of it is a
    /// digest.
    pub async fn create(
        &self,
        bearer: Caller,
        name: Option<String>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(String, TokenRow), TokenError> {
        let Caller { tenant, role, worker } = bearer;
        if worker.is_some() && role != Role::Worker {
            return Err(TokenError::NoWorker(role));
        }
        if self.count(&tenant) >= TOKENS_PER_TENANT_MAX {
            return Err(TokenError::TooMany(tenant));
        }
        let token_id = random_hex::<TOKEN_ID_BYTES>().ok_or(TokenError::NoRandomness)?;
        let secret = random_hex::<SECRET_BYTES>().ok_or(TokenError::NoRandomness)?;
        let row = TokenRow {
            token_id: token_id.clone(),
            tenant,
            role: role.word().to_owned(),
            worker,
            digest: digest_of(&secret),
            name,
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        self.keep(row.clone()).await?;
        Ok((format!("{PREFIX}_{token_id}_{secret}"), row))
    }

    /// A tenant's tokens, oldest first.
    pub fn list(&self, tenant: &TenantId) -> Vec<TokenRow> {
        let tokens = Arc::clone(&self.tokens.read());
        let mut rows: Vec<_> =
            tokens.values().filter(|row| row.tenant == *tenant).cloned().collect();
        rows.sort_by(|a, b| (a.created_at, &a.token_id).cmp(&(b.created_at, &b.token_id)));
        rows
    }

    /// Ends a token. Revoking it again changes nothing.
    pub async fn revoke(
        &self,
        tenant: &TenantId,
        token_id: &str,
        now: Timestamp,
    ) -> Result<TokenRow, TokenError> {
        let found = self.tokens.read().get(token_id).cloned();
        let mut row = found.filter(|row| row.tenant == *tenant).ok_or(TokenError::Unknown)?;
        if row.revoked_at.is_none() {
            row.revoked_at = Some(now);
            self.keep(row.clone()).await?;
        }
        Ok(row)
    }

    /// Durable first, then believed: a token that opens a door today opens it after a crash.
    async fn keep(&self, row: TokenRow) -> Result<(), StoreError> {
        self.store.put_token(row.clone()).await?;
        let mut tokens = self.tokens.write();
        Arc::make_mut(&mut tokens).insert(row.token_id.clone(), row);
        Ok(())
    }

    fn count(&self, tenant: &TenantId) -> usize {
        self.tokens.read().values().filter(|row| row.tenant == *tenant).count()
    }
}

/// The tenant of whoever has not been told another one.
pub(crate) fn default_tenant() -> TenantId {
    DEFAULT_TENANT.parse().expect("the name follows the rule")
}

fn is_live(row: &TokenRow, now: Timestamp) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|end| end > now)
}

/// The token in `Bearer <token>`.
fn bearer(header: &[u8]) -> Option<&str> {
    if header.len() > TOKEN_TEXT_BYTES_MAX {
        return None;
    }
    let (scheme, token) = std::str::from_utf8(header).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The id and the secret in `astra_<id>_<secret>`.
fn split(token: &str) -> Option<(&str, &str)> {
    token.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')
}

pub(crate) fn digest_of(secret: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref());
    bytes
}

/// A secret of so many bytes, as text; `None` where the system gives no random bytes.
pub(crate) fn random_hex<const N: usize>() -> Option<String> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_header_is_read_strictly() {
        assert_eq!(bearer(b"Bearer abc"), Some("abc"));
        assert_eq!(bearer(b"bearer  abc"), Some("abc"));
        for wrong in [&b"Basic abc"[..], b"abc", b"Bearer\xff x", &[b'x'; 300]] {
            assert_eq!(bearer(wrong), None);
        }
    }

    #[test]
    fn a_token_is_an_id_and_a_secret() {
        assert_eq!(split("astra_1a_2b"), Some(("1a", "2b")));
        for wrong in ["", "astra", "astra_1a", "other_1a_2b", "astra1a_2b"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_differ() {
        let one = random_hex::<SECRET_BYTES>().expect("random");
        assert_eq!(one.len(), 64);
        assert_ne!(one, random_hex::<SECRET_BYTES>().expect("random"));
    }
}
