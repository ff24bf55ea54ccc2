//! The session token: what a worker shows to go on with its session.
//!
//! `base64url(claims).base64url(HMAC-SHA256(secret, claims))`, the claims as compact JSON with
//! sorted keys. The id of the key is a claim, so that the token keeps the two parts that peers
//! know; a token without it is of the time before keys had ids, and is tried against all keys.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use model::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 4096;

/// Limit: keys that verify session tokens: the one that signs, and those before it.
pub const KEYS_MAX: usize = 8;

/// The shortest secret, in bytes.
pub const SECRET_BYTES_MIN: usize = 32;

/// Whom a token is for. The fields stand in the order of the alphabet, as they do on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    exp: u64,
    iat: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    sid: String,
    tenant: String,
    wid: String,
}

/// Whom a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bearer<'a> {
    /// The session.
    pub session_id: &'a str,
    /// Whose session it is.
    pub worker_instance_id: &'a str,
    /// Whose worker it is.
    pub tenant: &'a str,
}

/// The token does not open the session. One error for all causes, so that nobody learns from it
/// which sessions, workers or keys exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session token is not valid here")]
pub struct InvalidToken;

/// A secret that is no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It could be guessed.
    #[error("session secret has {bytes} bytes, at least {SECRET_BYTES_MIN} are needed")]
    TooShort {
        /// How many it has.
        bytes: usize,
    },
    /// Another key has the same name.
    #[error("a session key with this id is in the ring already")]
    IdTaken,
}

struct Key {
    id: String,
    hmac: hmac::Key,
}

/// The keys of a server: the newest signs, the older ones still verify.
pub struct KeyRing {
    /// Newest first.
    keys: Vec<Key>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl KeyRing {
    /// A ring with one key.
    pub fn new(id: &str, secret: &[u8]) -> Result<Self, KeyError> {
        let mut ring = Self { keys: Vec::new() };
        ring.rotate(id, secret)?;
        Ok(ring)
    }

    /// Signs with another key from here on; the oldest beyond [`KEYS_MAX`] are forgotten.
    pub fn rotate(&mut self, id: &str, secret: &[u8]) -> Result<(), KeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::TooShort { bytes: secret.len() });
        }
        if self.keys.iter().any(|key| key.id == id) {
            return Err(KeyError::IdTaken);
        }
        let key = Key { id: id.to_owned(), hmac: hmac::Key::new(hmac::HMAC_SHA256, secret) };
        self.keys.insert(0, key);
        self.keys.truncate(KEYS_MAX);
        Ok(())
    }

    /// Forgets a key: what it signed opens nothing any more. The key that signs stays.
    pub fn retire(&mut self, id: &str) {
        let mut is_newest = true;
        self.keys.retain(|key| std::mem::take(&mut is_newest) || key.id != id);
    }

    /// A token for this bearer, good from `now` until before `expires_at`.
    pub fn issue(&self, bearer: Bearer<'_>, now: Timestamp, expires_at: Timestamp) -> String {
        let key = self.keys.first().expect("a ring is never empty");
        let claims = Claims {
            exp: expires_at.as_millis() / 1000,
            iat: now.as_millis() / 1000,
            kid: Some(key.id.clone()),
            sid: bearer.session_id.to_owned(),
            tenant: bearer.tenant.to_owned(),
            wid: bearer.worker_instance_id.to_owned(),
        };
        let json = serde_json::to_vec(&claims).expect("strings and numbers are always JSON");
        let signature = hmac::sign(&key.hmac, &json);
        format!("{}.{}", BASE64.encode(&json), BASE64.encode(signature))
    }

    /// Whether a token opens this bearer's session at this moment.
    ///
    /// The signature is compared in constant time, before anything in the claims is believed.
    pub fn verify(
        &self,
        token: &str,
        bearer: Bearer<'_>,
        now: Timestamp,
    ) -> Result<(), InvalidToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(InvalidToken);
        }
        let (json, signature) = token.split_once('.').ok_or(InvalidToken)?;
        let json = BASE64.decode(json).map_err(|_| InvalidToken)?;
        let signature = BASE64.decode(signature).map_err(|_| InvalidToken)?;
        let signer = self
            .keys
            .iter()
            .find(|key| hmac::verify(&key.hmac, &json, &signature).is_ok())
            .ok_or(InvalidToken)?;
        let claims: Claims = serde_json::from_slice(&json).map_err(|_| InvalidToken)?;
        let is_good = claims.kid.as_ref().is_none_or(|kid| *kid == signer.id)
            && claims.sid == bearer.session_id
            && claims.wid == bearer.worker_instance_id
            && claims.tenant == bearer.tenant
            && now.as_millis() / 1000 < claims.exp;
        if is_good { Ok(()) } else { Err(InvalidToken) }
    }
}
