//! Who may do what: one row per method and path. What has no row is refused.

use axum::http::Method;
use protocol::rest::tokens::Role;

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

/// One row.
#[derive(Debug)]
pub(super) struct Permission {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
}

const ADMIN: Access = Access::Roles(&[Role::Admin]);
const SUBMITTERS: Access = Access::Roles(&[Role::Admin, Role::Client]);
const EXECUTORS: Access = Access::Roles(&[Role::Admin, Role::Worker]);
const READERS: Access = Access::Roles(&[Role::Admin, Role::Client, Role::Viewer]);
/// A worker may look at the task that it works on, but not through all of them.
const EVERY_ROLE: Access = Access::Roles(&Role::ALL);

/// A ticket opens this one too: a browser can send no header there.
pub(super) const EVENTS_PATH: &str = "/api/v1/events";

/// The table.
pub(super) static PERMISSIONS: &[Permission] = &[
    post("/api/v1/tasks", SUBMITTERS),
    get("/api/v1/tasks", READERS),
    get("/api/v1/tasks/{task_id}", EVERY_ROLE),
    post("/api/v1/tasks/{task_id}/cancel", SUBMITTERS),
    post("/api/v1/tasks/{task_id}/requeue", SUBMITTERS),
    get("/api/v1/tasks/{task_id}/explain", READERS),
    get("/api/v1/tasks/{task_id}/log", EVERY_ROLE),
    post("/api/v1/leases", EXECUTORS),
    post("/api/v1/leases/{lease_id}/heartbeat", EXECUTORS),
    post("/api/v1/leases/{lease_id}/complete", EXECUTORS),
    post("/api/v1/leases/{lease_id}/fail", EXECUTORS),
    post("/api/v1/reports", EXECUTORS),
    get("/api/v1/workers", READERS),
    get("/api/v1/workers/{worker_id}", READERS),
    post("/api/v1/workers/{worker_id}/commands", SUBMITTERS),
    post("/api/workers/register", EXECUTORS),
    post("/api/workers/heartbeat", EXECUTORS),
    post("/api/v1/plans", SUBMITTERS),
    get("/api/v1/plans", READERS),
    get("/api/v1/plans/{plan_id}", READERS),
    delete("/api/v1/plans/{plan_id}", SUBMITTERS),
    post("/api/v1/actions", SUBMITTERS),
    get("/api/v1/actions", READERS),
    get("/api/v1/actions/{action_id}", READERS),
    post("/api/v1/actions/{action_id}/cancel", SUBMITTERS),
    post("/api/v1/jobs", SUBMITTERS),
    post("/api/v1/runs", SUBMITTERS),
    get("/api/v1/runs", READERS),
    get("/api/v1/runs/{run_id}", READERS),
    post("/api/v1/runs/{run_id}/cancel", SUBMITTERS),
    get("/api/v1/runs/{run_id}/definition", READERS),
    post("/api/v1/runs/{run_id}/retry", SUBMITTERS),
    post("/api/v1/scheduler/runs/{run_id}/rebind", SUBMITTERS),
    post("/api/v1/runs/{run_id}/nodes/{node_id}/signal", SUBMITTERS),
    get("/api/v1/runs/{run_id}/nodes/{node_id}/explain", READERS),
    post("/api/v1/workflows", SUBMITTERS),
    get("/api/v1/workflows", READERS),
    post("/api/v1/workflows/validate", SUBMITTERS),
    get("/api/v1/workflows/{workflow_id}", READERS),
    delete("/api/v1/workflows/{workflow_id}", SUBMITTERS),
    get("/api/v1/workflows/{workflow_id}/versions", READERS),
    get("/api/v1/workflows/{workflow_id}/diff", READERS),
    post("/api/v1/workflows/{workflow_id}/restore", SUBMITTERS),
    post("/api/v1/schedules", SUBMITTERS),
    get("/api/v1/schedules", READERS),
    get("/api/v1/schedules/{schedule_id}", READERS),
    patch("/api/v1/schedules/{schedule_id}", SUBMITTERS),
    delete("/api/v1/schedules/{schedule_id}", SUBMITTERS),
    post("/api/v1/schedules/{schedule_id}/pause", SUBMITTERS),
    post("/api/v1/schedules/{schedule_id}/resume", SUBMITTERS),
    post("/api/v1/schedules/{schedule_id}/run", SUBMITTERS),
    post("/api/v1/schedules/{schedule_id}/backfill", SUBMITTERS),
    post("/api/v1/hooks", SUBMITTERS),
    get("/api/v1/hooks", READERS),
    delete("/api/v1/hooks/{hook_id}", SUBMITTERS),
    post("/hooks/{token}", Access::Secret),
    get("/api/v1/resources", READERS),
    get("/api/v1/resources/{resource_id}", EVERY_ROLE),
    get("/api/v1/resources/{resource_id}/download", EVERY_ROLE),
    get("/api/v1/queues", READERS),
    get("/api/v1/queues/{queue}/tasks", READERS),
    post("/api/v1/queues/{queue}/pause", SUBMITTERS),
    post("/api/v1/queues/{queue}/resume", SUBMITTERS),
    post("/api/v1/queues/{queue}/requeue", SUBMITTERS),
    post("/api/v1/queues/{queue}/purge", SUBMITTERS),
    get(EVENTS_PATH, READERS),
    post("/api/v1/events/tickets", READERS),
    get("/api/v1/tokens", ADMIN),
    post("/api/v1/tokens", ADMIN),
    delete("/api/v1/tokens/{token_id}", ADMIN),
    post("/api/v1/session-keys", ADMIN),
    get("/api/v1/openapi.json", Access::Anyone),
    get("/healthz", Access::Anyone),
    get("/readyz", Access::Anyone),
    get("/metrics", EVERY_ROLE),
    get("/api/v1/healthz", Access::Anyone),
    get("/api/v1/readyz", Access::Anyone),
    get("/api/v1/metrics", EVERY_ROLE),
    // The first frame proves who it is.
    get("/ws/worker", Access::Anyone),
    get("/", Access::Anyone),
    get("/assets/status.css", Access::Anyone),
    get("/assets/status.js", Access::Anyone),
];

const fn get(path: &'static str, access: Access) -> Permission {
    Permission { method: Method::GET, path, access }
}

const fn post(path: &'static str, access: Access) -> Permission {
    Permission { method: Method::POST, path, access }
}

const fn patch(path: &'static str, access: Access) -> Permission {
    Permission { method: Method::PATCH, path, access }
}

const fn delete(path: &'static str, access: Access) -> Permission {
    Permission { method: Method::DELETE, path, access }
}

/// What the table says about a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lookup {
    /// The route's row.
    Found(&'static Permission),
    /// The path has rows, but none with this method.
    WrongMethod,
    /// The path has no row at all.
    Missing,
}

/// The row for a request. `HEAD` asks for no more than `GET` does.
pub(super) fn find(method: &Method, path: &str) -> Lookup {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut of_path = PERMISSIONS.iter().filter(|row| row.path == path).peekable();
    if of_path.peek().is_none() {
        return Lookup::Missing;
    }
    of_path.find(|row| row.method == *method).map_or(Lookup::WrongMethod, Lookup::Found)
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
            Self::Anyone => "anyone".to_owned(),
            Self::Secret => "the secret in the path".to_owned(),
            Self::Roles(roles) => {
                let words: Vec<_> = roles.iter().map(|role| role.word()).collect();
                words.join(" or ")
            }
        }
    }
}

/// Who may use a route, for people.
pub fn who_may(method: &str, path: &str) -> String {
    let Ok(method) = method.parse() else { return "nobody".to_owned() };
    match find(&method, path) {
        Lookup::Found(row) if row.access == Access::Anyone => "anyone, without a token".to_owned(),
        Lookup::Found(row) => row.access.words(),
        Lookup::WrongMethod | Lookup::Missing => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::router::openapi;
    use super::*;

    /// Paths that are for people, or that speak another protocol: docs/reference/session.md.
    const UNDOCUMENTED: [&str; 8] = [
        "/ws/worker",
        "/",
        "/assets/status.css",
        "/assets/status.js",
        "/api/v1/openapi.json",
        "/api/v1/healthz",
        "/api/v1/readyz",
        "/api/v1/metrics",
    ];

    /// A ticket is a way to look, and changes nothing else.
    const TICKETS: &str = "/api/v1/events/tickets";

    #[test]
    fn every_route_has_a_row_and_every_row_a_route() {
        let documented = openapi();
        let routes: BTreeSet<(String, String)> = documented
            .paths
            .paths
            .iter()
            .flat_map(|(path, item)| {
                let item = serde_json::to_value(item).expect("JSON");
                let methods = item.as_object().expect("an object").keys().cloned();
                methods.map(move |method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
            })
            .collect();
        let rows: BTreeSet<(String, String)> = PERMISSIONS
            .iter()
            .filter(|row| !UNDOCUMENTED.contains(&row.path))
            .map(|row| (row.method.to_string(), row.path.to_owned()))
            .collect();
        assert_eq!(routes, rows);
    }

    #[test]
    fn an_admin_may_do_everything_and_a_viewer_changes_nothing() {
        for row in PERMISSIONS.iter().filter(|row| row.access != Access::Secret) {
            assert!(row.access.allows(Role::Admin), "{row:?}");
            let may_view = row.access.allows(Role::Viewer);
            assert!(row.method == Method::GET || !may_view || row.path == TICKETS, "{row:?}");
        }
    }

    #[test]
    fn what_has_no_row_is_missing() {
        assert!(matches!(find(&Method::GET, "/api/v1/secrets"), Lookup::Missing));
        assert!(matches!(find(&Method::PUT, "/api/v1/tasks"), Lookup::WrongMethod));
        assert!(matches!(find(&Method::HEAD, "/api/v1/tasks"), Lookup::Found(_)));
    }
}
