//! Who may open a session, and who may go on with one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Command, DrainCause};
use model::{LeaseId, TaskId, TenantId, Timestamp, WorkerId};
use protocol::rest::tokens::Role;
use protocol::session::control::ResetCode;
use protocol::session::kind::Kind;
use protocol::session::payload::Payload;
use protocol::session::payload::control::{AuthMode, Handshake, Resume};
use protocol::session::server_session::{Grant, Session};
use protocol::session::token::Bearer;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::convert::{Registered, registered};
use super::desk::{Desk, Place};
use crate::app::App;
use crate::auth::Caller;
use crate::handle::CoordinatorHandle;
use crate::sessions::{
    Call, Carried, Claim, ClaimError, Claimed, Parting, SessionRecord, TOKEN_LIFETIME,
};

/// A connection proves who it is within this time, or is closed.
pub(crate) const OPENING_WITHIN: Duration = Duration::from_secs(5);
/// A refusal is said so late, so that nobody can try many credentials.
pub(crate) const REFUSAL_DELAY: Duration = Duration::from_secs(1);
/// When a worker whose identity changes hands too often may try again.
const TAKEOVER_PAUSE: Duration = Duration::from_secs(20);
/// When a worker may try again while the store is in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// An instance id, in bytes.
const INSTANCE_ID_BYTES_MAX: usize = 128;

/// Why a worker is turned away.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: ResetCode,
    pub(super) reason: String,
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    fn new(code: ResetCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), retry_after: None }
    }

    /// One answer for whatever is wrong with a session token, so that nobody learns which
    /// sessions, workers or keys exist.
    fn unknown_session() -> Self {
        Self::new(ResetCode::UnknownSession, "this session cannot be resumed; begin anew")
    }

    fn trouble(what: &str) -> Self {
        Self { retry_after: Some(TROUBLE_PAUSE), ..Self::new(ResetCode::Denied, what) }
    }
}

/// A worker that proved who it is.
#[derive(Clone, Debug)]
pub(super) struct Applicant {
    tenant: TenantId,
    token_id: Option<String>,
    instance_id: String,
    boot_id: Option<String>,
    name: String,
    /// The one worker that its token was made for.
    bound: Option<WorkerId>,
    version: String,
    hostname: String,
}

impl Applicant {
    /// What is kept of its session.
    fn session(
        &self,
        worker: &WorkerId,
        slots: u32,
        register: Box<RawValue>,
        now: Timestamp,
    ) -> SessionRecord {
        SessionRecord {
            session_id: Uuid::new_v4().to_string(),
            instance_id: self.instance_id.clone(),
            boot_id: self.boot_id.clone(),
            worker: worker.to_string(),
            given_name: self.name.clone(),
            hostname: self.hostname.clone(),
            version: self.version.clone(),
            token_id: self.token_id.clone(),
            accepted_at: now.as_millis(),
            slots: u64::from(slots),
            register,
        }
    }
}

/// A session that may begin.
pub(super) struct Opened {
    pub(super) grant: Grant,
    pub(super) desk: Desk,
    pub(super) mailbox: tokio::sync::mpsc::Receiver<crate::sessions::Notice>,
    /// The session from before, where it goes on.
    pub(super) session: Option<Session>,
    /// The calls of `next` that the worker waits for.
    pub(super) calls: Vec<Arc<Call>>,
}

/// What a connection carried before, if it begins anew.
pub(super) struct Former {
    pub(super) claim: u64,
    pub(super) held: BTreeMap<TaskId, LeaseId>,
    pub(super) unconfirmed: Vec<LeaseId>,
    pub(super) calls: Vec<Arc<Call>>,
}

impl Former {
    fn carried(self) -> Carried {
        let Self { held, unconfirmed, calls, .. } = self;
        Carried { session: None, held, unconfirmed, calls }
    }
}

/// Judges a handshake.
pub(super) fn admit(
    app: &App,
    tenant: &str,
    sender_id: &str,
    boot_id: Option<String>,
    payload: &RawValue,
) -> Result<Applicant, Refusal> {
    let handshake = match Payload::decode(Kind::Handshake, payload) {
        Ok(Payload::Handshake(handshake)) => handshake,
        Ok(_) => return Err(Refusal::new(ResetCode::Malformed, "not a handshake")),
        Err(error) => return Err(Refusal::new(ResetCode::Malformed, error.to_string())),
    };
    let (caller, token_id) = authenticate(app, &handshake)?;
    if caller.tenant.as_str() != tenant {
        let own_tenant = &caller.tenant;
        let reason = format!("the credential is for tenant {own_tenant}, the frame for another");
        return Err(Refusal::new(ResetCode::TenantMismatch, reason));
    }
    let worker = handshake.worker;
    if let Some(own) = caller.bound_elsewhere(&worker.worker_name) {
        let reason = format!("the token was made for worker {own}; start the worker as {own}");
        return Err(Refusal::new(ResetCode::Forbidden, reason));
    }
    let instance_id = worker.worker_instance_id.unwrap_or_else(|| sender_id.to_owned());
    if instance_id.len() > INSTANCE_ID_BYTES_MAX {
        let reason = format!("worker_instance_id must be at most {INSTANCE_ID_BYTES_MAX} bytes");
        return Err(Refusal::new(ResetCode::Malformed, reason));
    }
    Ok(Applicant {
        tenant: caller.tenant,
        token_id,
        instance_id,
        boot_id,
        name: worker.worker_name,
        bound: caller.worker,
        version: worker.version,
        hostname: worker.hostname,
    })
}

fn authenticate(app: &App, handshake: &Handshake) -> Result<(Caller, Option<String>), Refusal> {
    if handshake.auth.mode == AuthMode::Mtls {
        // A fingerprint in a frame proves nothing; a certificate would show on the connection.
        let reason = "this server takes the auth mode `token` alone";
        return Err(Refusal::new(ResetCode::ModeUnsupported, reason));
    }
    let token = handshake.auth.token.as_deref().filter(|token| !token.is_empty());
    let Some((caller, token_id)) = app.auth.identify_token(token, app.clock.now()) else {
        return Err(match token {
            None => Refusal::new(ResetCode::MissingToken, "the handshake carries no token"),
            Some(_) => Refusal::new(ResetCode::InvalidToken, "the token is not valid here"),
        });
    };
    match caller.role {
        Role::Worker | Role::Admin => Ok((caller, token_id)),
        other => {
            let reason = format!("a {} token opens no session; it takes worker", other.word());
            Err(Refusal::new(ResetCode::Forbidden, reason))
        }
    }
}

/// Opens a new session for a worker that said what it can do.
pub(super) async fn open(
    app: Arc<App>,
    applicant: Applicant,
    register: Box<RawValue>,
    former: Option<Former>,
) -> Result<Opened, Refusal> {
    let registered = read_register(&register)?;
    let now = app.clock.now();
    check_credential(&app, &applicant)?;
    let handle = coordinator(&app, &applicant.tenant).await?;
    let claim = Claim {
        tenant: &applicant.tenant,
        instance_id: &applicant.instance_id,
        given_name: &applicant.name,
        bound: applicant.bound.as_ref(),
        own: former.as_ref().map(|former| former.claim),
        is_resume: false,
    };
    let claimed = app.sessions.claim(claim, now).await.map_err(taken_over)?;
    let process = Process::of(&claimed, applicant.boot_id.as_ref());
    if process == Process::New {
        handle.tell(Command::LoseWorker { worker: claimed.worker.clone() });
    }
    let carried = match former {
        _ if process == Process::New => Carried::default(),
        Some(former) => former.carried(),
        None => claimed.carried,
    };
    stay(&handle, &claimed.worker).await;
    let record = applicant.session(&claimed.worker, registered.slots, register, now);
    if let Err(error) = app.sessions.open(&applicant.tenant, record.clone()).await {
        let parting = Parting {
            tenant: &applicant.tenant,
            instance_id: &applicant.instance_id,
            connection: claimed.connection,
            carried,
        };
        // Whoever took over meanwhile has what it needs.
        let _ = app.sessions.park(parting, now);
        return Err(Refusal::trouble(&error.to_string()));
    }
    let grant = grant(&app, &applicant.tenant, &record);
    let place = Place {
        metrics: app.metrics.ws(&applicant.tenant),
        tenant: applicant.tenant,
        instance_id: applicant.instance_id,
        worker: claimed.worker,
        connection: claimed.connection,
        session_id: record.session_id.clone(),
        handle,
    };
    let is_same = process == Process::Same;
    let desk = Desk::new(place, registered, &carried, is_same);
    let calls = if is_same { carried.calls } else { Vec::new() };
    Ok(Opened { grant, desk, mailbox: claimed.mailbox, session: None, calls })
}

/// Whether a worker that opens a session is the process that had the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// It is: what it works on is still its own.
    Same,
    /// It is not: whatever the process before worked on is lost.
    New,
    /// It does not say; its heartbeats will tell what it works on.
    Unknown,
}

impl Process {
    fn of(claimed: &Claimed, boot_id: Option<&String>) -> Self {
        let former = claimed.record.as_ref().and_then(|record| record.boot_id.as_ref());
        match former.zip(boot_id) {
            _ if claimed.is_successor => Self::New,
            Some((former, boot_id)) if former == boot_id => Self::Same,
            Some(_) => Self::New,
            None => Self::Unknown,
        }
    }
}

async fn coordinator(app: &App, tenant: &TenantId) -> Result<CoordinatorHandle, Refusal> {
    app.shards.of(tenant).await.map_err(|error| Refusal::trouble(&error.to_string()))
}

/// An identity belongs to the credential that it came with, as long as that one is good and the
/// worker is here: whoever else knows its instance id must not take its place.
fn check_credential(app: &App, applicant: &Applicant) -> Result<(), Refusal> {
    let holder = app.sessions.credential_of(&applicant.tenant, &applicant.instance_id);
    let Some(holder) = holder else { return Ok(()) };
    if applicant.token_id.as_ref() == Some(&holder) || !app.auth.is_live(&holder, app.clock.now()) {
        return Ok(());
    }
    let reason = "a worker with this instance id is connected with another token";
    Err(Refusal::new(ResetCode::Denied, reason))
}

/// Goes on with a session, if its token says so.
pub(super) async fn resume(
    app: Arc<App>,
    tenant: String,
    instance_id: String,
    payload: Resume,
    former: Option<Former>,
) -> Result<Opened, Refusal> {
    let now = app.clock.now();
    let tenant: TenantId = tenant.parse().map_err(|_| Refusal::unknown_session())?;
    let bearer = Bearer {
        session_id: &payload.session_id,
        worker_instance_id: &instance_id,
        tenant: tenant.as_str(),
    };
    let is_good = app.sessions.verify(&payload.session_token, bearer, now);
    let record = app.sessions.record(&tenant, &instance_id, &payload.session_id);
    let Some(record) = record.filter(|_| is_good) else { return Err(Refusal::unknown_session()) };
    if record.token_id.as_ref().is_some_and(|token_id| !app.auth.is_live(token_id, now)) {
        return Err(Refusal::new(ResetCode::InvalidToken, "the worker's token was revoked"));
    }
    let registered = read_register(&record.register)?;
    let claim = Claim {
        tenant: &tenant,
        instance_id: &instance_id,
        given_name: &record.given_name,
        // The session was opened under its name, which is the token's.
        bound: None,
        own: former.as_ref().map(|former| former.claim),
        is_resume: true,
    };
    let handle = coordinator(&app, &tenant).await?;
    let mut claimed = app.sessions.claim(claim, now).await.map_err(taken_over)?;
    let session = claimed.carried.session_or_restored(&record.session_id, app.session_window);
    let grant = grant(&app, &tenant, &record);
    let place = Place {
        metrics: app.metrics.ws(&tenant),
        tenant,
        instance_id,
        worker: claimed.worker,
        connection: claimed.connection,
        session_id: record.session_id.clone(),
        handle,
    };
    let desk = Desk::new(place, registered, &claimed.carried, true);
    let (session, calls) = (Some(session), claimed.carried.calls);
    Ok(Opened { grant, desk, mailbox: claimed.mailbox, session, calls })
}

pub(super) fn read_register(register: &RawValue) -> Result<Registered, Refusal> {
    match Payload::decode(Kind::Register, register) {
        Ok(Payload::Register(register)) => {
            registered(&register).map_err(|why| Refusal::new(ResetCode::Malformed, why))
        }
        Ok(_) => Err(Refusal::new(ResetCode::Malformed, "not a register")),
        Err(error) => Err(Refusal::new(ResetCode::Malformed, error.to_string())),
    }
}

/// A worker that said it would leave has come back.
async fn stay(handle: &CoordinatorHandle, worker: &WorkerId) {
    for cause in [DrainCause::Leaving, DrainCause::Pressure] {
        let worker = worker.clone();
        let command = |ticket| Command::SetDrain { ticket, worker, cause, on: false };
        // Without an answer it is drained until its next heartbeat, no longer.
        let _ = handle.ask(command).await;
    }
}

fn taken_over(error: ClaimError) -> Refusal {
    match error {
        ClaimError::NameTaken(worker) => Refusal {
            code: ResetCode::Denied,
            reason: format!("a worker named {worker} is connected from another data folder"),
            retry_after: Some(TAKEOVER_PAUSE),
        },
        ClaimError::OtherWorker(worker) => {
            let reason =
                format!("this instance id is worker {worker}'s; use a data folder of its own");
            Refusal::new(ResetCode::Forbidden, reason)
        }
        ClaimError::TooManyTakeovers => Refusal {
            code: ResetCode::Denied,
            reason: "two processes seem to share one instance id; give each its own data folder"
                .to_owned(),
            retry_after: Some(TAKEOVER_PAUSE),
        },
    }
}

fn grant(app: &App, tenant: &TenantId, record: &SessionRecord) -> Grant {
    let now = app.clock.now();
    let expires_at = now.after(TOKEN_LIFETIME);
    let bearer = Bearer {
        session_id: &record.session_id,
        worker_instance_id: &record.instance_id,
        tenant: tenant.as_str(),
    };
    Grant {
        session_id: record.session_id.clone(),
        session_token: app.sessions.issue(bearer, now, expires_at),
        worker_instance_id: record.instance_id.clone(),
        expires_at: Some(expires_at),
    }
}
