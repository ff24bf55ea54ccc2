//! Tokens: who may do what.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// What the bearer of a token may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, tokens included.
    Admin,
    /// Submit, look at, stop and requeue tasks.
    Client,
    /// Ask for leases, give heartbeats, report.
    Worker,
    /// Look, change nothing.
    Viewer,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Client, Self::Worker, Self::Viewer];

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Client => "client",
            Self::Worker => "worker",
            Self::Viewer => "viewer",
        }
    }

    /// The role with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
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
