//! Who gets in: the matrix of roles and routes, tenants apart, dev mode on this machine only.

use hyper::Method;
use hyper::header::{HOST, ORIGIN};
use protocol::rest::tokens::Role;
use serde_json::json;

use crate::support::{TestServer, lease_path};

/// Every route that asks for a token, and who may use it: admin, client, worker, viewer.
const MATRIX: [(&str, &str, [bool; 4]); 71] = [
    ("POST", "/api/v1/tasks", [true, true, false, false]),
    ("GET", "/api/v1/tasks", [true, true, false, true]),
    ("GET", "/api/v1/tasks/x", [true, true, true, true]),
    ("POST", "/api/v1/tasks/x/cancel", [true, true, false, false]),
    ("POST", "/api/v1/tasks/x/requeue", [true, true, false, false]),
    ("GET", "/api/v1/tasks/x/explain", [true, true, false, true]),
    ("GET", "/api/v1/tasks/x/log", [true, true, true, true]),
    ("POST", "/api/v1/leases", [true, false, true, false]),
    ("POST", "/api/v1/leases/x/heartbeat", [true, false, true, false]),
    ("POST", "/api/v1/leases/x/complete", [true, false, true, false]),
    ("POST", "/api/v1/leases/x/fail", [true, false, true, false]),
    ("POST", "/api/v1/reports", [true, false, true, false]),
    ("GET", "/api/v1/workers", [true, true, false, true]),
    ("GET", "/api/v1/workers/x", [true, true, false, true]),
    ("POST", "/api/v1/workers/x/commands", [true, true, false, false]),
    ("POST", "/api/workers/register", [true, false, true, false]),
    ("POST", "/api/workers/heartbeat", [true, false, true, false]),
    ("POST", "/api/v1/session-keys", [true, false, false, false]),
    ("GET", "/api/v1/queues", [true, true, false, true]),
    ("POST", "/api/v1/plans", [true, true, false, false]),
    ("GET", "/api/v1/plans", [true, true, false, true]),
    ("GET", "/api/v1/plans/x", [true, true, false, true]),
    ("DELETE", "/api/v1/plans/x", [true, true, false, false]),
    ("POST", "/api/v1/actions", [true, true, false, false]),
    ("GET", "/api/v1/actions", [true, true, false, true]),
    ("GET", "/api/v1/actions/x", [true, true, false, true]),
    ("POST", "/api/v1/actions/x/cancel", [true, true, false, false]),
    ("POST", "/api/v1/jobs", [true, true, false, false]),
    ("GET", "/api/v1/queues/x/tasks", [true, true, false, true]),
    ("POST", "/api/v1/queues/x/pause", [true, true, false, false]),
    ("POST", "/api/v1/queues/x/resume", [true, true, false, false]),
    ("POST", "/api/v1/queues/x/requeue", [true, true, false, false]),
    ("POST", "/api/v1/queues/x/purge", [true, true, false, false]),
    ("GET", "/api/v1/tokens", [true, false, false, false]),
    ("POST", "/api/v1/tokens", [true, false, false, false]),
    ("DELETE", "/api/v1/tokens/x", [true, false, false, false]),
    ("POST", "/api/v1/runs", [true, true, false, false]),
    ("GET", "/api/v1/runs", [true, true, false, true]),
    ("GET", "/api/v1/runs/x", [true, true, false, true]),
    ("POST", "/api/v1/runs/x/cancel", [true, true, false, false]),
    ("GET", "/api/v1/runs/x/definition", [true, true, false, true]),
    ("POST", "/api/v1/runs/x/retry", [true, true, false, false]),
    ("POST", "/api/v1/scheduler/runs/x/rebind", [true, true, false, false]),
    ("POST", "/api/v1/runs/x/nodes/x/signal", [true, true, false, false]),
    ("GET", "/api/v1/runs/x/nodes/x/explain", [true, true, false, true]),
    ("POST", "/api/v1/workflows", [true, true, false, false]),
    ("GET", "/api/v1/workflows", [true, true, false, true]),
    ("POST", "/api/v1/workflows/validate", [true, true, false, false]),
    ("GET", "/api/v1/workflows/x", [true, true, false, true]),
    ("DELETE", "/api/v1/workflows/x", [true, true, false, false]),
    ("GET", "/api/v1/workflows/x/versions", [true, true, false, true]),
    ("GET", "/api/v1/workflows/x/diff", [true, true, false, true]),
    ("POST", "/api/v1/workflows/x/restore", [true, true, false, false]),
    ("POST", "/api/v1/schedules", [true, true, false, false]),
    ("GET", "/api/v1/schedules", [true, true, false, true]),
    ("GET", "/api/v1/schedules/x", [true, true, false, true]),
    ("PATCH", "/api/v1/schedules/x", [true, true, false, false]),
    ("DELETE", "/api/v1/schedules/x", [true, true, false, false]),
    ("POST", "/api/v1/schedules/x/pause", [true, true, false, false]),
    ("POST", "/api/v1/schedules/x/resume", [true, true, false, false]),
    ("POST", "/api/v1/schedules/x/run", [true, true, false, false]),
    ("POST", "/api/v1/schedules/x/backfill", [true, true, false, false]),
    ("POST", "/api/v1/hooks", [true, true, false, false]),
    ("GET", "/api/v1/hooks", [true, true, false, true]),
    ("DELETE", "/api/v1/hooks/x", [true, true, false, false]),
    ("GET", "/api/v1/resources", [true, true, false, true]),
    ("GET", "/api/v1/resources/x", [true, true, true, true]),
    ("GET", "/api/v1/resources/x/download", [true, true, true, true]),
    // The stream itself would not end.
    ("GET", "/api/v1/events?types=nonsense", [true, true, false, true]),
    ("POST", "/api/v1/events/tickets", [true, true, false, true]),
    ("GET", "/metrics", [true, true, true, true]),
];

#[tokio::test]
async fn each_role_may_do_what_the_table_says_and_no_more() {
    let server = TestServer::locked().await;
    for (position, role) in Role::ALL.into_iter().enumerate() {
        let token = server.token("default", role).await;
        for (method, path, allowed) in MATRIX {
            let method: Method = method.parse().expect("a method");
            let answer = server.call_as(Some(&token), method.clone(), path, None).await;
            let is_forbidden = answer.status == 403;
            assert_eq!(is_forbidden, !allowed[position], "{} {method} {path}", role.word());
            if is_forbidden {
                answer.refused(403, "E.AUTH.FORBIDDEN");
            }
            assert_ne!(answer.status, 401);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn the_matrix_covers_every_route_that_asks_for_a_token() {
    let server = TestServer::locked().await;
    for (method, path, _) in MATRIX {
        let method: Method = method.parse().expect("a method");
        server.call_as(None, method, path, None).await.refused(401, "E.AUTH.INVALID_TOKEN");
    }
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let documented: usize = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .filter(|(path, _)| !["/healthz", "/readyz", "/hooks/{token}"].contains(&path.as_str()))
        .map(|(_, item)| item.as_object().expect("methods").len())
        .sum();
    assert_eq!(MATRIX.len(), documented);
    server.stop().await;
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = TestServer::locked().await;
    for path in ["/healthz", "/readyz", "/", "/api/v1/openapi.json"] {
        assert_eq!(server.call_as(None, Method::GET, path, None).await.status, 200, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_foreign_task_and_an_unknown_one_are_the_same() {
    let server = TestServer::locked().await;
    let id = server.submit(json!({"type": "a"})).await;
    let theirs = server.token("theirs", Role::Admin).await;
    let their_body = json!({"type": "a"}).to_string();
    let submitted =
        server.call_as(Some(&theirs), Method::POST, "/api/v1/tasks", Some(&their_body)).await;
    let their_id = submitted.expect(201)["tasks"][0]["task_id"].as_str().expect("id").to_owned();
    for (method, verb) in
        [("GET", ""), ("POST", "/cancel"), ("POST", "/requeue"), ("GET", "/explain")]
    {
        let look = async |id: &str| {
            let method = method.parse().expect("a method");
            server.call_as(Some(&theirs), method, &format!("/api/v1/tasks/{id}{verb}"), None).await
        };
        let foreign = look(&id).await;
        foreign.refused(404, "E.TASK.NOT_FOUND");
        for unknown in ["x", "00000000-0000-0000-0000-000000000000", "%ff", &"y".repeat(2000)] {
            let answer = look(unknown).await;
            assert_eq!((answer.status, &answer.text), (foreign.status, &foreign.text), "{unknown}");
        }
        assert_ne!(look(&their_id).await.status, 404, "{verb}");
    }
    let shown = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(shown["state"], "QUEUED", "nothing happened to it");
    server.stop().await;
}

#[tokio::test]
async fn a_foreign_lease_is_an_unknown_task() {
    let server = TestServer::locked().await;
    server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    let theirs = server.token("theirs", Role::Worker).await;
    let complete = json!({"worker_id": "w1", "result": 1}).to_string();
    let fail = json!({"worker_id": "w1", "reason": "x"}).to_string();
    let beat = json!({"worker_id": "w1"}).to_string();
    for (verb, body) in [("complete", &complete), ("fail", &fail), ("heartbeat", &beat)] {
        let path = lease_path(&lease, verb);
        let answer = server.call_as(Some(&theirs), Method::POST, &path, Some(body)).await;
        assert_eq!(answer.expect(200), json!({"verdict": "REJECTED", "reason": "unknown_task"}));
        let path = format!("/api/v1/leases/nonsense/{verb}");
        let answer = server.call_as(Some(&theirs), Method::POST, &path, Some(body)).await;
        assert_eq!(answer.expect(200), json!({"verdict": "REJECTED", "reason": "malformed"}));
    }
    let own = server.post(&lease_path(&lease, "complete"), &json!({"worker_id": "w1"})).await;
    assert_eq!(own.expect(200)["verdict"], "COMMITTED", "the holder still decides");
    server.stop().await;
}

#[tokio::test]
async fn dev_mode_takes_no_token_or_the_word_but_nothing_else() {
    let server = TestServer::dev().await;
    let look = async |token| server.call_as(token, Method::GET, "/api/v1/tokens", None).await;
    look(None).await.expect(200);
    look(Some("dev-token")).await.expect(200);
    look(Some("something")).await.refused(401, "E.AUTH.INVALID_TOKEN");
    server.stop().await;
}

#[tokio::test]
async fn dev_mode_refuses_other_hosts_and_origins() {
    let server = TestServer::dev().await;
    let address = server.address();
    let port = address.rsplit(':').next().expect("a port");
    let host_here = format!("localhost:{port}");
    let origin_here = format!("http://{address}");
    let ask = async |path: &str, host: Option<&str>, origin: Option<&str>| {
        let mut request = server.request(Method::GET, path);
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                request.headers_mut().insert(name, value.parse().expect("a header"));
            }
        }
        server.send(request).await
    };
    for path in ["/", "/healthz", "/api/v1/tasks", "/api/v1/nothing"] {
        ask(path, Some("evil.example"), None).await.refused(403, "E.AUTH.HOST");
        ask(path, Some(&format!("evil.example:{port}")), None).await.refused(403, "E.AUTH.HOST");
        ask(path, None, Some("http://evil.example")).await.refused(403, "E.AUTH.HOST");
        ask(path, None, Some("null")).await.refused(403, "E.AUTH.HOST");
    }
    ask("/api/v1/tasks", Some(&host_here), None).await.expect(200);
    ask("/api/v1/tasks", None, Some(&origin_here)).await.expect(200);
    server.stop().await;
}
