//! Tokens: make, list, revoke. A token makes tokens of its own tenant only.

use axum::http::StatusCode;
use protocol::error_code::ErrorCode;
use protocol::rest::tokens::{CreateToken, CreatedToken, Role, SessionKey, TokenInfo, Tokens};
use store::TokenRow;

use super::auth_layer::Asker;
use super::convert::{moment, prose, text};
use super::request::{Json, PathName};
use crate::auth::{Caller, TOKEN_NAME_CHARS_MAX, TokenError};
use crate::wire_words::problem::{Answer, ApiError, json, ok};

/// List tokens
///
/// Without their secrets, which nobody has but their bearers.
#[utoipa::path(
    get, path = "/api/v1/tokens", operation_id = "list_tokens",
    responses((status = 200, body = Tokens, description = "Oldest first."))
)]
pub(super) async fn list(Asker { app, caller, .. }: Asker) -> Answer {
    let tokens = app.auth.list(&caller.tenant).iter().map(info).collect::<Result<_, _>>()?;
    ok(&Tokens { tokens })
}

/// Make a token
///
/// The answer is the only time that the token is shown.
#[utoipa::path(
    post, path = "/api/v1/tokens", operation_id = "create_token", request_body = CreateToken,
    responses(
        (status = 201, body = CreatedToken, description = "The token, and what is kept of it."),
        (status = 429, description = "E.LIMIT.TOKENS")
    )
)]
pub(super) async fn create(
    Asker { app, caller, .. }: Asker,
    Json(body): Json<CreateToken>,
) -> Answer {
    prose(&"name", body.name.as_deref().unwrap_or_default(), TOKEN_NAME_CHARS_MAX)?;
    let now = app.clock.now();
    let expires_at = body.expires_at.map(|text| moment(&"expires_at", &text)).transpose()?;
    if expires_at.is_some_and(|end| end <= now) {
        return Err(ApiError::invalid("expires_at", "lies in the past"));
    }
    let worker = body.worker_id.map(|name| text(&"", &name)).transpose()?;
    let bearer = Caller { tenant: caller.tenant, role: body.role, worker };
    let (token, row) = app.auth.create(bearer, body.name, expires_at, now).await?;
    Ok(json(StatusCode::CREATED, &CreatedToken { token, info: info(&row)? }))
}

/// Revoke a token
///
/// It opens nothing from here on. Revoking it again changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/tokens/{token_id}", operation_id = "revoke_token",
    responses((status = 200, body = TokenInfo, description = "The token is revoked."))
)]
pub(super) async fn revoke(Asker { app, caller, .. }: Asker, path: PathName) -> Answer {
    let row = app.auth.revoke(&caller.tenant, path.as_str(), app.clock.now()).await?;
    // Another server that has the tenant finds out when it renews the session.
    if let Some(handle) = app.directory.find(&caller.tenant) {
        handle.credential_gone(row.token_id.clone());
    }
    ok(&info(&row)?)
}

/// Change the key that signs session tokens
///
/// Sessions go on: tokens that earlier keys signed stay good until they end.
#[utoipa::path(
    post, path = "/api/v1/session-keys", operation_id = "rotate_session_key",
    responses((status = 201, body = SessionKey, description = "The new key signs from here on."))
)]
pub(super) async fn rotate_session_key(Asker { app, caller, .. }: Asker) -> Answer {
    let key_id = app.session_keys.rotate(app.clock.now()).await?;
    tracing::info!(tenant = %caller.tenant, key_id, "session tokens are signed by a new key");
    Ok(json(StatusCode::CREATED, &SessionKey { key_id }))
}

fn info(row: &TokenRow) -> Result<TokenInfo, ApiError> {
    let role = Role::from_word(&row.role)
        .ok_or_else(|| ApiError::internal("a token has a role that this version does not know"))?;
    Ok(TokenInfo {
        token_id: row.token_id.clone(),
        tenant: row.tenant.to_string(),
        role,
        worker_id: row.worker.as_ref().map(ToString::to_string),
        name: row.name.clone(),
        created_at: row.created_at.to_string(),
        expires_at: row.expires_at.map(|moment| moment.to_string()),
        revoked_at: row.revoked_at.map(|moment| moment.to_string()),
    })
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        let code = match error {
            TokenError::TooMany(_) => ErrorCode::LimitTokens,
            TokenError::Unknown => ErrorCode::TokenNotFound,
            TokenError::NoWorker(_) => ErrorCode::RequestInvalid,
            TokenError::NoRandomness => ErrorCode::Internal,
            TokenError::Store(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}
