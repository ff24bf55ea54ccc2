//! What every request passes, in one layer: host, token, role; and what every answer gets.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use model::ShardId;
use protocol::error_code::ErrorCode;

use super::router::{Access, Lookup, find};
use crate::app::App;
use crate::auth::Caller;
use crate::events::Holder;
use crate::handle::ShardHandle;
use crate::wire_words::problem::ApiError;

/// The label of requests that match no route.
const UNMATCHED: &str = "unmatched";
/// Whoever needs no token, in dev mode.
const DEV_NAME: &str = "dev";
/// A ticket opens this path too: a browser can send no header there.
const EVENTS_PATH: &str = "/api/v1/events";
/// Names of this machine that no other machine's page can be served under.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The layer.
pub(super) async fn auth_layer(
    State(app): State<Arc<App>>,
    matched: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let lookup = matched.map(|path| find(request.method(), path.as_str()));
    let route = match lookup {
        Some(Lookup::Found(path, _)) => path,
        Some(Lookup::WrongMethod | Lookup::Missing) | None => UNMATCHED,
    };
    let mut response = match admit(&app, lookup, &mut request) {
        Ok(()) => answer(route, request, next).await,
        Err(refusal) => refusal.into_response(),
    };
    add_headers(response.headers_mut());
    app.metrics.observe_request(route, response.status().as_u16(), started.elapsed());
    response
}

fn admit(app: &App, lookup: Option<Lookup>, request: &mut Request) -> Result<(), ApiError> {
    if app.auth.has_dev_access() {
        check_host(request.uri(), request.headers())?;
    }
    match lookup {
        // Where there is no route, the router's own answers say so.
        Some(Lookup::Found(_, Access::Anyone | Access::Secret) | Lookup::WrongMethod) | None => {
            Ok(())
        }
        Some(Lookup::Found(path, access)) => {
            let ticket = (path == EVENTS_PATH).then(|| ticket(request.uri())).flatten();
            let holder = match ticket {
                Some(ticket) => redeem(app, ticket)?,
                None => identify(app, request.headers())?,
            };
            if !access.allows(holder.caller.role) {
                return Err(forbidden(&holder.caller, access));
            }
            request.extensions_mut().insert(holder);
            Ok(())
        }
        Some(Lookup::Missing) => {
            tracing::error!(path = %request.uri().path(), "a route has no row of permissions");
            Err(ApiError::new(ErrorCode::AuthForbidden, "nobody may do this"))
        }
    }
}

fn identify(app: &App, headers: &HeaderMap) -> Result<Holder, ApiError> {
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let found = app.auth.identify(authorization, app.clock.now());
    let (caller, token_id) = found.ok_or_else(|| {
        ApiError::new(ErrorCode::AuthInvalidToken, "no token, or one that is not valid here")
    })?;
    Ok(Holder { caller, token_id })
}

/// The ticket in a query. Ours are plain letters and digits, which are written as they are.
fn ticket(uri: &Uri) -> Option<&str> {
    let mut pairs = uri.query()?.split('&');
    let ticket = pairs.find_map(|pair| pair.strip_prefix("ticket="))?;
    (!ticket.is_empty()).then_some(ticket)
}

fn redeem(app: &App, ticket: &str) -> Result<Holder, ApiError> {
    let holder = app.tickets.redeem(ticket, app.clock.now());
    // The token may have ended since.
    holder.filter(|holder| is_live(app, holder.token_id.as_deref())).ok_or_else(|| {
        let message = "no such ticket, or one that was used or is too old";
        ApiError::new(ErrorCode::AuthInvalidToken, message)
            .with_hint("get a new one: POST /api/v1/events/tickets")
    })
}

/// Whether the token that a request came with still opens this door; without one, dev mode does.
pub(super) fn is_live(app: &App, token_id: Option<&str>) -> bool {
    token_id.is_none_or(|id| app.auth.is_live(id, app.clock.now()))
}

fn forbidden(caller: &Caller, access: Access) -> ApiError {
    let message =
        format!("a {} token may not do this; it takes {}", caller.role.word(), access.words());
    ApiError::new(ErrorCode::AuthForbidden, message)
}

/// Without tokens, the browser is the way in for strangers: a page from elsewhere that resolves
/// its own name to 127.0.0.1, or that posts here from another origin. Both show in these headers.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    let is_ours = host.is_some_and(is_loopback_name)
        && uri.authority().is_none_or(|authority| is_loopback_name(authority.as_str()));
    if !is_ours {
        return Err(ApiError::new(ErrorCode::AuthHost, "the Host header names another machine"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    if origin.is_some_and(|(_, authority)| Some(authority) == host) {
        return Ok(());
    }
    let message = "a page from another origin may not talk to a server in dev mode";
    Err(ApiError::new(ErrorCode::AuthHost, message))
}

fn is_loopback_name(authority: &str) -> bool {
    let end = if authority.starts_with('[') { authority.find(']').map(|at| at + 1) } else { None };
    let end = end.or_else(|| authority.find(':')).unwrap_or(authority.len());
    let (name, port) = authority.split_at(end);
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    is_port && LOOPBACK_NAMES.iter().any(|loopback| name.eq_ignore_ascii_case(loopback))
}

/// A panic in one request is that request's alone.
async fn answer(route: &'static str, request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        tracing::error!(route, "a handler panicked");
        ApiError::internal("the server ran into a bug of its own").into_response()
    })
}

fn add_headers(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-store"));
}

/// Who is asking, for handlers.
pub(super) struct Asker {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    /// The token that the request came with, if dev mode did not let it in.
    pub(super) token_id: Option<String>,
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        // Only the layer puts a holder here; a route that everyone may use has none.
        let Some(Holder { caller, token_id }) = parts.extensions.remove() else {
            return Err(ApiError::internal("the route asks for a caller and has none"));
        };
        Ok(Self { app: Arc::clone(app), caller, token_id })
    }
}

/// Who is asking, and the shard of their tenant.
pub(super) struct Context {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    pub(super) token_id: Option<String>,
    pub(super) handle: ShardHandle,
}

impl FromRequestParts<Arc<App>> for Context {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let Asker { app, caller, token_id } = Asker::from_request_parts(parts, app).await?;
        let handle = app.directory.of(&caller.tenant).await?;
        Ok(Self { app, caller, token_id, handle })
    }
}

impl Context {
    pub(super) fn shard(&self) -> ShardId {
        self.handle.shard()
    }

    /// What people call whoever is asking.
    pub(super) fn asker_name(&self) -> String {
        self.token_id.as_deref().map_or_else(|| DEV_NAME.to_owned(), |id| self.app.auth.name_of(id))
    }

    /// Refuses who speaks for another worker than the one that its token was made for.
    pub(super) fn speaks_for(&self, worker: &str) -> Result<(), ApiError> {
        let Some(own) = self.caller.bound_elsewhere(worker) else { return Ok(()) };
        let message = format!("the token was made for worker {own}; it cannot speak for {worker}");
        let hint = "use the worker_id that the token was made for, or another token";
        Err(ApiError::new(ErrorCode::AuthForbidden, message).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_s_names_are_loopback() {
        for good in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert!(is_loopback_name(good), "{good}");
        }
        for bad in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil", "[::1", "[::2]:80"]
        {
            assert!(!is_loopback_name(bad), "{bad}");
        }
        assert!(!is_loopback_name("localhost:80@evil.example"));
    }
}
