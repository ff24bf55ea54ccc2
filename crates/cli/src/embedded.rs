//! Everything that this binary asks of the server crate.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use model::{TenantId, Timestamp, WorkerId};
use protocol::rest::tokens::{CreatedToken, Role, TokenInfo};
use server::app::{Options, Server, StartError};
use server::auth::{Auth, Caller, TokenError};
use store::{SqliteStore, Store, StoreError, TokenRow};

use crate::failure::{ExitCode, Failure, Result};
use crate::format;

/// A server inside this process.
pub(crate) struct EmbeddedServer {
    server: Server,
}

impl EmbeddedServer {
    pub(crate) async fn start(options: Options) -> Result<Self> {
        let data = options.data_dir.clone();
        let started = Server::start(options).await;
        let server = started.map_err(|error| start_failure(&error, &data))?;
        server.until_ready().await;
        Ok(Self { server })
    }

    pub(crate) fn http_addr(&self) -> SocketAddr {
        self.server.http_addr()
    }

    pub(crate) fn resp_addr(&self) -> Option<SocketAddr> {
        self.server.resp_addr()
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

/// A token to make.
#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    pub(crate) tenant: TenantId,
    pub(crate) role: Role,
    /// The one worker that it speaks for.
    pub(crate) worker_id: Option<WorkerId>,
    pub(crate) name: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Makes a token in a data folder that no server has open.
pub(crate) async fn create_token(data: &Path, token: NewToken) -> Result<CreatedToken> {
    let auth = async { Auth::load(Arc::new(SqliteStore::open(data)?)).await };
    let auth = auth.await.map_err(|error| store_failure(&error, data))?;
    let NewToken { tenant, role, worker_id, name, expires_at } = token;
    let bearer = Caller { tenant, role, worker: worker_id };
    let created = auth.create(bearer, name, expires_at, format::now()).await;
    let (token, row) = created.map_err(|error| token_failure(&error, data))?;
    Ok(CreatedToken { token, info: info(row) })
}

/// Fails with `Conflict` while a server has the folder open.
pub(crate) fn check_unused(data: &Path) -> Result<()> {
    SqliteStore::open(data).map(drop).map_err(|error| store_failure(&error, data))
}

/// Whether any token opens the server of this folder.
pub(crate) async fn has_tokens(data: &Path) -> Result<bool> {
    let store = SqliteStore::open(data).map_err(|error| store_failure(&error, data))?;
    let tokens = store.tokens().await.map_err(|error| store_failure(&error, data))?;
    Ok(tokens.iter().any(|token| token.revoked_at.is_none()))
}

fn info(row: TokenRow) -> TokenInfo {
    TokenInfo {
        token_id: row.token_id,
        tenant: row.tenant.to_string(),
        role: Role::from_word(&row.role).unwrap_or(Role::Viewer),
        worker_id: row.worker.map(|worker| worker.to_string()),
        name: row.name,
        created_at: row.created_at.to_string(),
        expires_at: row.expires_at.map(|moment| moment.to_string()),
        revoked_at: row.revoked_at.map(|moment| moment.to_string()),
    }
}

fn start_failure(error: &StartError, data: &Path) -> Failure {
    match error {
        StartError::Store(error) => store_failure(error, data),
        StartError::Logs(error) => {
            Failure::new(ExitCode::Failed, error, "check the folder, its owner and the disk")
        }
        StartError::Listen { address, source } => Failure::new(
            ExitCode::Conflict,
            format!("cannot listen on {address}: {source}"),
            "choose another address with --http or --resp, like --http 127.0.0.1:8090",
        ),
        StartError::ListenUnix { path, source } => Failure::new(
            ExitCode::Conflict,
            format!("cannot listen on {}: {source}", path.display()),
            "choose another path with --resp-unix",
        ),
        StartError::Tls(error) => Failure::usage(
            error.to_string(),
            "check resp_tls_cert and resp_tls_key: PEM files, the chain first",
        ),
        StartError::DevBeyondLoopback { address } => beyond_loopback(*address),
    }
}

/// `astra dev` has no login.
pub(crate) fn beyond_loopback(address: SocketAddr) -> Failure {
    Failure::usage(
        format!(
            "`astra dev` has no login, so it listens on this machine only; {address} is not it"
        ),
        "use 127.0.0.1, or `astra server start` with tokens to serve others",
    )
}

fn token_failure(error: &TokenError, data: &Path) -> Failure {
    match error {
        TokenError::Unknown => {
            Failure::new(ExitCode::NotFound, error, "list tokens with `astra token list`")
        }
        TokenError::TooMany(_) => Failure::new(ExitCode::Conflict, error, "revoke some first"),
        TokenError::NoWorker(_) => {
            Failure::new(ExitCode::Validation, error, "use --role worker, or leave --worker-id out")
        }
        TokenError::NoRandomness => Failure::new(ExitCode::Failed, error, ""),
        TokenError::Store(error) => store_failure(error, data),
    }
}

fn store_failure(error: &StoreError, data: &Path) -> Failure {
    match error {
        StoreError::InUse(_) => Failure::new(
            ExitCode::Conflict,
            error,
            format!(
                "ask the server that has {} open (--server and --token), or stop it first",
                data.display()
            ),
        ),
        StoreError::Unavailable(_) => {
            Failure::new(ExitCode::Failed, error, "check the folder, its owner and the disk")
        }
        StoreError::Damaged(_) => {
            Failure::new(ExitCode::Failed, error, "bring the folder back from a backup")
        }
    }
}
