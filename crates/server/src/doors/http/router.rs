//! All paths, and who may use them: one row each. What has no row is refused.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use protocol::error_code::ErrorCode;
use protocol::rest::tokens::Role;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use super::auth_layer::auth_layer;
use super::openapi::{about, complete, operations};
use super::{
    events, health, leases, logs, plans, queues, resources, run_starts, runs, schedules, tasks,
    tokens, workers, workflows,
};
use crate::app::App;
use crate::ui;
use crate::wire_words::problem::ApiError;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everyone, without a token: it tells nothing about any tenant.
    Anyone,
    /// Whoever knows the secret in the path, without a token: the handler looks at it.
    Secret,
    /// Bearers of a token with one of these roles.
    Roles(&'static [Role]),
}

const ADMIN: Access = Access::Roles(&[Role::Admin]);
const SUBMITTERS: Access = Access::Roles(&[Role::Admin, Role::Client]);
const EXECUTORS: Access = Access::Roles(&[Role::Admin, Role::Worker]);
const READERS: Access = Access::Roles(&[Role::Admin, Role::Client, Role::Viewer]);
/// A worker may look at the task that it works on, but not through all of them.
const EVERY_ROLE: Access = Access::Roles(&Role::ALL);

/// A handler with its method, its path and its place in the document.
type Route = fn() -> UtoipaMethodRouter<Arc<App>>;

/// What the document describes.
static ROUTES: &[(Access, Route)] = &[
    (SUBMITTERS, || routes!(tasks::submit)),
    (READERS, || routes!(tasks::list)),
    (EVERY_ROLE, || routes!(tasks::show)),
    (SUBMITTERS, || routes!(tasks::cancel)),
    (SUBMITTERS, || routes!(tasks::requeue)),
    (READERS, || routes!(tasks::explain)),
    (EVERY_ROLE, || routes!(logs::show)),
    (EXECUTORS, || routes!(leases::request)),
    (EXECUTORS, || routes!(leases::heartbeat)),
    (EXECUTORS, || routes!(leases::complete)),
    (EXECUTORS, || routes!(leases::fail)),
    (EXECUTORS, || routes!(leases::many)),
    (READERS, || routes!(workers::list)),
    (READERS, || routes!(workers::show)),
    (SUBMITTERS, || routes!(workers::command)),
    (EXECUTORS, || routes!(workers::register)),
    (EXECUTORS, || routes!(workers::heartbeat)),
    (SUBMITTERS, || routes!(plans::submit)),
    (READERS, || routes!(plans::list)),
    (READERS, || routes!(plans::show)),
    (SUBMITTERS, || routes!(plans::remove)),
    (SUBMITTERS, || routes!(plans::submit_action)),
    (READERS, || routes!(plans::list_actions)),
    (READERS, || routes!(plans::show_action)),
    (SUBMITTERS, || routes!(plans::cancel_action)),
    (SUBMITTERS, || routes!(plans::submit_job)),
    (SUBMITTERS, || routes!(run_starts::submit)),
    (READERS, || routes!(runs::list)),
    (READERS, || routes!(runs::show)),
    (SUBMITTERS, || routes!(runs::cancel)),
    (READERS, || routes!(runs::definition)),
    (SUBMITTERS, || routes!(run_starts::retry)),
    (SUBMITTERS, || routes!(runs::rebind)),
    (SUBMITTERS, || routes!(runs::signal)),
    (READERS, || routes!(runs::explain)),
    (SUBMITTERS, || routes!(workflows::submit)),
    (READERS, || routes!(workflows::list)),
    (SUBMITTERS, || routes!(workflows::validate)),
    (READERS, || routes!(workflows::show)),
    (SUBMITTERS, || routes!(workflows::remove)),
    (READERS, || routes!(workflows::versions)),
    (READERS, || routes!(workflows::diff)),
    (SUBMITTERS, || routes!(workflows::restore)),
    (SUBMITTERS, || routes!(schedules::create)),
    (READERS, || routes!(schedules::list)),
    (READERS, || routes!(schedules::show)),
    (SUBMITTERS, || routes!(schedules::change)),
    (SUBMITTERS, || routes!(schedules::remove)),
    (SUBMITTERS, || routes!(schedules::pause)),
    (SUBMITTERS, || routes!(schedules::resume)),
    (SUBMITTERS, || routes!(schedules::run)),
    (SUBMITTERS, || routes!(schedules::backfill)),
    (SUBMITTERS, || routes!(schedules::create_hook)),
    (READERS, || routes!(schedules::list_hooks)),
    (SUBMITTERS, || routes!(schedules::remove_hook)),
    (Access::Secret, || routes!(schedules::call_hook)),
    (READERS, || routes!(resources::list)),
    (EVERY_ROLE, || routes!(resources::show)),
    (EVERY_ROLE, || routes!(resources::download)),
    (READERS, || routes!(queues::list)),
    (READERS, || routes!(queues::peek)),
    (SUBMITTERS, || routes!(queues::pause)),
    (SUBMITTERS, || routes!(queues::resume)),
    (SUBMITTERS, || routes!(queues::requeue)),
    (SUBMITTERS, || routes!(queues::purge)),
    (READERS, || routes!(events::watch)),
    (READERS, || routes!(events::create_ticket)),
    (ADMIN, || routes!(tokens::list)),
    (ADMIN, || routes!(tokens::create)),
    (ADMIN, || routes!(tokens::revoke)),
    (ADMIN, || routes!(tokens::rotate_session_key)),
    (Access::Anyone, || routes!(health::healthz)),
    (Access::Anyone, || routes!(health::readyz)),
    (EVERY_ROLE, || routes!(health::metrics)),
];

/// Paths for `GET` that the document does not describe: they are for people, stand for others, or
/// speak another protocol (docs/reference/session.md).
const UNDOCUMENTED: [(Access, &str); 8] = [
    (Access::Anyone, "/api/v1/openapi.json"),
    (Access::Anyone, "/api/v1/healthz"),
    (Access::Anyone, "/api/v1/readyz"),
    (EVERY_ROLE, "/api/v1/metrics"),
    // The first frame proves who it is.
    (Access::Anyone, "/ws/worker"),
    (Access::Anyone, "/"),
    (Access::Anyone, "/assets/status.css"),
    (Access::Anyone, "/assets/status.js"),
];

/// The methods of each path, and who may use them.
static PERMISSIONS: LazyLock<HashMap<String, Vec<(Method, Access)>>> = LazyLock::new(|| {
    let mut rows: HashMap<String, Vec<(Method, Access)>> = HashMap::new();
    for (access, route) in ROUTES {
        let (_, documented, _) = route();
        for (path, mut item) in documented.paths {
            let methods = operations(&mut item).into_iter().filter(|(_, one)| one.is_some());
            rows.entry(path).or_default().extend(methods.map(|(method, _)| (method, *access)));
        }
    }
    for (access, path) in UNDOCUMENTED {
        rows.entry(path.to_owned()).or_default().push((Method::GET, access));
    }
    rows
});

/// Who may use the route of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lookup {
    /// The path, and who may use it with this method.
    Found(&'static str, Access),
    /// The path has rows, but none with this method.
    WrongMethod,
    /// The path has no row at all.
    Missing,
}

/// Looks a request up. `HEAD` asks for no more than `GET` does.
pub(super) fn find(method: &Method, path: &str) -> Lookup {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let Some((path, rows)) = PERMISSIONS.get_key_value(path) else { return Lookup::Missing };
    match rows.iter().find(|(own, _)| own == method) {
        Some((_, access)) => Lookup::Found(path, *access),
        None => Lookup::WrongMethod,
    }
}

impl Access {
    /// Whether a bearer of this role may.
    pub(super) fn allows(self, role: Role) -> bool {
        match self {
            Self::Anyone => true,
            Self::Secret => false,
            Self::Roles(roles) => roles.contains(&role),
        }
    }

    /// The roles, for a sentence.
    pub(super) fn words(self) -> String {
        match self {
            Self::Anyone => "anyone, without a token".to_owned(),
            Self::Secret => "the secret in the path".to_owned(),
            Self::Roles(roles) => {
                roles.iter().map(|role| role.word()).collect::<Vec<_>>().join(" or ")
            }
        }
    }
}

/// Who may use a route, for people.
pub fn who_may(method: &str, path: &str) -> String {
    match method.parse().map(|method| find(&method, path)) {
        Ok(Lookup::Found(_, access)) => access.words(),
        Ok(Lookup::WrongMethod | Lookup::Missing) | Err(_) => "nobody".to_owned(),
    }
}

fn documented() -> OpenApiRouter<Arc<App>> {
    let routes = ROUTES.iter().map(|(_, route)| route());
    routes.fold(OpenApiRouter::with_openapi(about()), OpenApiRouter::routes)
}

/// The document that describes the interface.
pub fn openapi() -> OpenApi {
    let (_, mut document) = documented().split_for_parts();
    complete(&mut document);
    document
}

/// Everything that is served, with the paths of a door that begins with a request of this one.
pub(super) fn router(app: Arc<App>, upgrades: Router<Arc<App>>) -> Router {
    let (router, _) = documented().split_for_parts();
    router
        .merge(ui::routes())
        .merge(health::prefixed_routes())
        .merge(upgrades)
        .merge(health::openapi_route(&openapi()))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&app), auth_layer))
        .with_state(app)
}

async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::RequestNotFound, format!("no such path: {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}", uri.path());
    ApiError::new(ErrorCode::RequestMethod, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket is a way to look, and changes nothing else.
    const TICKETS: &str = "/api/v1/events/tickets";

    #[test]
    fn an_admin_may_do_everything_and_a_viewer_changes_nothing() {
        let rows =
            PERMISSIONS.iter().flat_map(|(path, rows)| rows.iter().map(move |row| (path, row)));
        for (path, (method, access)) in rows.filter(|(_, row)| row.1 != Access::Secret) {
            assert!(access.allows(Role::Admin), "{method} {path}");
            let may_view = access.allows(Role::Viewer);
            assert!(method == Method::GET || !may_view || path == TICKETS, "{method} {path}");
        }
    }

    #[test]
    fn every_documented_route_has_one_row() {
        for (path, item) in openapi().paths.paths {
            let item = serde_json::to_value(item).expect("JSON");
            let methods =
                item.as_object().expect("an object").keys().map(|word| word.to_uppercase());
            let methods: Vec<String> = methods.collect();
            let mut rows: Vec<_> =
                PERMISSIONS[&path].iter().map(|(method, _)| method.to_string()).collect();
            rows.sort();
            let mut expected = methods;
            expected.sort();
            assert_eq!(rows, expected, "{path}");
        }
    }

    #[test]
    fn what_has_no_row_is_missing() {
        assert!(matches!(find(&Method::GET, "/api/v1/secrets"), Lookup::Missing));
        assert!(matches!(find(&Method::PUT, "/api/v1/tasks"), Lookup::WrongMethod));
        assert!(matches!(find(&Method::HEAD, "/api/v1/tasks"), Lookup::Found("/api/v1/tasks", _)));
    }
}
