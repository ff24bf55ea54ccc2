//! Tokens: who may do what.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

model::words! {
    /// What the bearer of a token may do.
    Role {
        /// Everything, tokens included.
        Admin = "admin",
        /// Submit, look at, stop and requeue tasks.
        Client = "client",
        /// Ask for leases, give heartbeats, report.
        Worker = "worker",
        /// Look, change nothing.
        Viewer = "viewer",
    }
}

/// The key that signs session tokens from here on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionKey {
    /// Names the key. Tokens of the keys before it stay good until they end.
    pub key_id: String,
}

/// `POST /tokens`.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What its bearer may do.
    pub role: Role,
    /// The one worker that it speaks for, with the role `worker`. Default: any worker.
    pub worker_id: Option<String>,
    /// A note for people.
    pub name: Option<String>,
    /// When it ends (RFC 3339). Default: never.
    pub expires_at: Option<String>,
}

/// `201` of `POST /tokens`: the only time that the token itself is shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// What to send as `Authorization: Bearer ...`.
    pub token: String,
    /// What is kept of it.
    pub info: TokenInfo,
}

/// `GET /tokens`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// Oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// A token, without its secret.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// Names it, for `revoke`.
    pub token_id: String,
    /// The tenant that it belongs to.
    pub tenant: String,
    /// What its bearer may do.
    pub role: Role,
    /// The one worker that it speaks for; absent if it speaks for any.
    pub worker_id: Option<String>,
    /// A note for people.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When it ends.
    pub expires_at: Option<String>,
    /// When it was revoked.
    pub revoked_at: Option<String>,
}
