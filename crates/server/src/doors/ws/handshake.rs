//! Who may open a session, and who may go on with one.

use std::sync::Arc;
use std::time::Duration;

use model::{TenantId, Timestamp};
use protocol::error_code::ErrorCode;
use protocol::rest::tokens::Role;
use protocol::session::payload::control::{AuthMode, Handshake, Resume};
use protocol::session::server_session::SessionAccept;
use protocol::session::token::Bearer;
use shard::sessions::{ClaimError, LinkId, SessionClaim, SessionRecord, TOKEN_LIFETIME};
use shard::worker_link::{Applicant, Authenticate, Opening, Refusal, UNKNOWN_SESSION};

use crate::app::App;
use crate::auth::Caller;
use crate::handle::ShardHandle;

/// When a worker whose identity changes hands too often may try again.
const TAKEOVER_PAUSE: Duration = Duration::from_secs(20);
/// When a worker may try again while the store is in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// An instance id, in bytes.
const INSTANCE_ID_BYTES_MAX: usize = 128;

pub(super) fn trouble(what: &str) -> Refusal {
    Refusal { retry_after: Some(TROUBLE_PAUSE), ..Refusal::new(ErrorCode::SessionDenied, what) }
}

/// Judges a handshake.
pub(super) fn authenticate(app: &App, asked: Authenticate) -> Result<Applicant, Refusal> {
    let Authenticate { tenant, sender_id, boot_id, handshake } = asked;
    let (caller, token_id) = identify(app, &handshake)?;
    if caller.tenant.as_str() != tenant {
        let own_tenant = &caller.tenant;
        let reason = format!("the credential is for tenant {own_tenant}, the frame for another");
        return Err(Refusal::new(ErrorCode::SessionTenantMismatch, reason));
    }
    let worker = handshake.worker;
    if let Some(own) = caller.bound_elsewhere(&worker.worker_name) {
        let reason = format!("the token was made for worker {own}; start the worker as {own}");
        return Err(Refusal::new(ErrorCode::AuthForbidden, reason));
    }
    let instance_id = worker.worker_instance_id.unwrap_or_else(|| sender_id.clone());
    if instance_id.len() > INSTANCE_ID_BYTES_MAX {
        let reason = format!("worker_instance_id must be at most {INSTANCE_ID_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorCode::RequestInvalid, reason));
    }
    Ok(Applicant {
        tenant: caller.tenant,
        token_id,
        instance_id,
        sender_id,
        boot_id,
        name: worker.worker_name,
        bound: caller.worker,
        version: worker.version,
        hostname: worker.hostname,
    })
}

fn identify(app: &App, handshake: &Handshake) -> Result<(Caller, Option<String>), Refusal> {
    if handshake.auth.mode == AuthMode::Mtls {
        // A fingerprint in a frame proves nothing; a certificate would show on the connection.
        let reason = "this server takes the auth mode `token` alone";
        return Err(Refusal::new(ErrorCode::AuthModeUnsupported, reason));
    }
    let token = handshake.auth.token.as_deref().filter(|token| !token.is_empty());
    let Some((caller, token_id)) = app.auth.identify_token(token, app.clock.now()) else {
        return Err(match token {
            None => Refusal::new(ErrorCode::AuthMissingToken, "the handshake carries no token"),
            Some(_) => Refusal::new(ErrorCode::AuthInvalidToken, "the token is not valid here"),
        });
    };
    match caller.role {
        Role::Worker | Role::Admin => Ok((caller, token_id)),
        other => {
            let reason = format!("a {} token opens no session; it takes worker", other.word());
            Err(Refusal::new(ErrorCode::AuthForbidden, reason))
        }
    }
}

/// Judges a session token; gives the claim that it proves.
pub(super) fn check_resume(
    app: &App,
    tenant: &str,
    instance_id: &str,
    resume: &Resume,
) -> Result<(TenantId, SessionClaim), Refusal> {
    let unknown = || Refusal::new(ErrorCode::SessionUnknown, UNKNOWN_SESSION);
    let now = app.clock.now();
    let tenant: TenantId = tenant.parse().map_err(|_| unknown())?;
    let session_id = &resume.session_id;
    let bearer = Bearer { session_id, worker_instance_id: instance_id, tenant: tenant.as_str() };
    if !app.session_keys.verify(&resume.session_token, bearer, now) {
        return Err(unknown());
    }
    let claim = SessionClaim {
        instance_id: instance_id.to_owned(),
        // The session was opened under its name, which is the token's.
        given_name: String::new(),
        bound: None,
        resumes: Some(session_id.clone()),
        token_id: None,
        revoked: None,
    };
    Ok((tenant, claim))
}

/// A session goes on only while the credential that opened it is good.
pub(super) fn check_credential(app: &App, record: Option<&SessionRecord>) -> Result<(), Refusal> {
    let token_id = record.and_then(|record| record.token_id.as_deref());
    if token_id.is_some_and(|token_id| !app.auth.is_live(token_id, app.clock.now())) {
        return Err(Refusal::new(ErrorCode::AuthInvalidToken, "the worker's token was revoked"));
    }
    Ok(())
}

pub(super) fn not_claimed(error: ClaimError) -> Refusal {
    let reason = match error {
        ClaimError::NameTaken(worker) => {
            format!("a worker named {worker} is connected from another data folder")
        }
        ClaimError::OtherWorker(worker) => {
            let reason =
                format!("this instance id is worker {worker}'s; use a data folder of its own");
            return Refusal::new(ErrorCode::AuthForbidden, reason);
        }
        ClaimError::TooManyTakeovers => {
            "two processes seem to share one instance id; give each its own data folder".to_owned()
        }
        ClaimError::OtherCredential(_) => {
            let reason = "a worker with this instance id is connected with another token";
            return Refusal::new(ErrorCode::SessionDenied, reason);
        }
        ClaimError::UnknownSession => {
            return Refusal::new(ErrorCode::SessionUnknown, UNKNOWN_SESSION);
        }
        ClaimError::TableFull => "as many workers are connected as this server takes".to_owned(),
    };
    Refusal { retry_after: Some(TAKEOVER_PAUSE), ..Refusal::new(ErrorCode::SessionDenied, reason) }
}

/// Makes a session durable, and signs its token.
pub(super) async fn accept(
    app: Arc<App>,
    tenant: TenantId,
    (handle, link): (ShardHandle, LinkId),
    opening: Opening,
) -> Result<(SessionAccept, Box<SessionRecord>), Refusal> {
    let now = app.clock.now();
    let (record, opened) = match opening {
        Opening::New(record) => {
            let opened = handle.open_session(link, Some(record.clone())).await;
            (record, opened)
        }
        Opening::Resumed(record) => (record, handle.open_session(link, None).await),
    };
    if !opened.map_err(|error| trouble(&error.to_string()))? {
        return Err(trouble("another connection of this worker took over"));
    }
    Ok((sign(&app, &tenant, &record, now), record))
}

fn sign(app: &App, tenant: &TenantId, record: &SessionRecord, now: Timestamp) -> SessionAccept {
    let expires_at = now.after(TOKEN_LIFETIME);
    let bearer = Bearer {
        session_id: &record.session_id,
        worker_instance_id: &record.instance_id,
        tenant: tenant.as_str(),
    };
    SessionAccept {
        session_id: record.session_id.clone(),
        session_token: app.session_keys.issue(bearer, now, expires_at),
        worker_instance_id: record.instance_id.clone(),
        expires_at: Some(expires_at),
    }
}
