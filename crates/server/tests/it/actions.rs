//! Actions and jobs over HTTP: made of plans, counted, stopped.

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn an_action_is_a_job_for_each_input_and_is_counted_to_its_end() {
    let server = with_plan().await;
    let action = json!({"action_id": "a1", "plan_id": "p1", "inputs": ["x", {"text": "y"}, 3]});
    let made = server.post("/api/v1/actions", &action).await.expect(201);
    assert_eq!(made["jobs_created"], 3);
    let again = server.post("/api/v1/actions", &action).await.expect(200);
    assert_eq!(again, made, "the same action again is the same jobs");
    let shown = server.get("/api/v1/actions/a1").await.expect(200);
    assert_eq!((&shown["state"], &shown["counts"]["queued"]), (&json!("QUEUED"), &json!(3)));
    let ids: Vec<_> = jobs(&shown).iter().map(|job| job["task_id"].clone()).collect();
    assert_eq!(json!(ids), made["job_ids"], "in the order of the inputs");

    let lease = lease(&server, "w1").await;
    assert_eq!(lease["parameters"]["input"], "x");
    assert_eq!(server.get("/api/v1/actions/a1").await.expect(200)["state"], "RUNNING");
    complete(&server, &lease).await;
    let lease = self::lease(&server, "w1").await;
    let failed = json!({"worker_id": "w1", "reason": "no such file", "retryable": false});
    server.post(&lease_path(&lease, "fail"), &failed).await.expect(200);
    complete(&server, &self::lease(&server, "w1").await).await;

    let server = server.restart().await;
    let shown = server.get("/api/v1/actions/a1").await.expect(200);
    assert_eq!(shown["state"], "FAILED");
    let counts = json!({"total": 3, "waiting": 0, "queued": 0, "running": 0, "completed": 2,
        "failed": 1, "dead": 0, "stopped": 0});
    assert_eq!(shown["counts"], counts);
    assert_eq!(jobs(&shown)[1]["reason"], "no such file");
    assert_eq!(jobs(&shown)[0]["worker_id"], "w1");
    let list = server.get("/api/v1/actions").await.expect(200);
    assert_eq!((&list["total"], &list["actions"][0]["counts"]), (&json!(1), &counts));
    assert!(list["actions"][0].get("jobs").is_none());
    server.stop().await;
}

#[tokio::test]
async fn another_action_under_a_name_is_refused() {
    let server = with_plan().await;
    let action = json!({"action_id": "a1", "plan_id": "p1", "inputs": [1]});
    server.post("/api/v1/actions", &action).await.expect(201);
    let other = json!({"action_id": "a1", "plan_id": "p1", "inputs": [2]});
    server.post("/api/v1/actions", &other).await.refused(409, "E.ACTION.CONFLICT");
    let server = server.restart().await;
    server.post("/api/v1/actions", &other).await.refused(409, "E.ACTION.CONFLICT");
    server.post("/api/v1/actions", &action).await.expect(200);
    assert_eq!(
        server.get("/api/v1/tasks").await.expect(200)["tasks"].as_array().map(Vec::len),
        Some(1)
    );
    server.stop().await;
}

#[tokio::test]
async fn an_action_is_stopped_with_all_its_open_jobs() {
    let server = with_plan().await;
    let action = json!({"action_id": "a1", "plan_id": "p1", "inputs": [1, 2, 3]});
    server.post("/api/v1/actions", &action).await.expect(201);
    let done = lease(&server, "w1").await;
    complete(&server, &done).await;
    let held = lease(&server, "w1").await;
    let stopped = server.post("/api/v1/actions/a1/cancel", &json!({})).await.expect(200);
    assert_eq!(stopped["stopped"], 2);
    assert_eq!(stopped["action"]["state"], "STOPPED");
    assert_eq!(stopped["action"]["counts"]["completed"], 1);
    let late = server.post(&lease_path(&held, "complete"), &json!({"worker_id": "w1"})).await;
    assert_eq!(late.expect(200)["verdict"], "CANCELLED");
    let again = server.post("/api/v1/actions/a1/cancel", &json!({})).await.expect(200);
    assert_eq!(again["stopped"], 0);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_an_action_or_a_job_is_named() {
    let server = with_plan().await;
    let check = async |path: &str, body: Value, status: u16, code: &str, message: &str| {
        let answer = server.post(path, &body).await;
        answer.refused(status, code);
        assert!(answer.message().contains(message), "{}", answer.text);
    };
    let invalid = "E.REQUEST.INVALID";
    let actions = "/api/v1/actions";
    let unknown = json!({"action_id": "a", "plan_id": "nope"});
    check(actions, unknown, 404, "E.PLAN.NOT_FOUND", "nope").await;
    check(actions, json!({"plan_id": "p1"}), 422, invalid, "action_id").await;
    check(actions, json!({"action_id": "a b", "plan_id": "p1"}), 422, invalid, "action_id").await;
    let not_a_list = json!({"action_id": "a", "plan_id": "p1", "inputs": 7});
    check(actions, not_a_list, 422, invalid, "inputs").await;
    let many = json!({"action_id": "a", "plan_id": "p1", "inputs": vec![1; 1_001]});
    check(actions, many, 422, invalid, "inputs has 1001 entries").await;
    let stray = json!({"action_id": "a", "plan_id": "p1", "input": 7});
    check(actions, stray, 422, invalid, "input: unknown field").await;
    let priority = json!({"action_id": "a", "plan_id": "p1", "priority": 2_000});
    check(actions, priority, 422, invalid, "priority").await;
    let jobs = "/api/v1/jobs";
    check(jobs, json!({"plan_id": "nope"}), 404, "E.PLAN.NOT_FOUND", "nope").await;
    check(jobs, json!({"command": "a;b"}), 422, invalid, "command").await;
    check(jobs, json!({"command": "ls", "priority": "high"}), 422, invalid, "priority").await;
    check(jobs, json!({"command": "ls", "queue": "a b"}), 422, invalid, "queue").await;
    check(jobs, json!([]), 422, invalid, "must be a JSON object").await;
    check(jobs, json!(["j1"]), 422, invalid, "must be a JSON object").await;
    let orphan = json!({"command": "ls", "after": ["nobody"]});
    check(jobs, orphan, 404, "E.TASK.NOT_FOUND", "nobody").await;
    assert_eq!(server.get("/api/v1/tasks").await.expect(200)["tasks"], json!([]));
    for path in ["/api/v1/actions/nope", "/api/v1/actions/%ff"] {
        server.get(path).await.refused(404, "E.ACTION.NOT_FOUND");
    }
    server.post("/api/v1/actions/nope/cancel", &json!({})).await.refused(404, "E.ACTION.NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn a_job_is_a_task_and_its_name_is_used_once() {
    let server = with_plan().await;
    let job = json!({"job_id": "j1", "command": "ls", "args": ["-l"], "queue": "q1"});
    let made = server.post("/api/v1/jobs", &job).await.expect(201);
    assert_eq!((&made["type"], &made["queue"]), (&json!("plan.step"), &json!("q1")));
    assert_eq!(made["parameters"]["tasks"][0]["args"], json!(["-l"]));
    let again = server.post("/api/v1/jobs", &job).await.expect(200);
    assert_eq!(again["task_id"], made["task_id"]);
    let other = json!({"job_id": "j1", "command": "ls"});
    server.post("/api/v1/jobs", &other).await.refused(409, "E.TASK.IDEMPOTENCY");
    let free = json!({"job_id": "j2", "anything": {"at": "all"}});
    let free = server.post("/api/v1/jobs", &free).await.expect(201);
    assert_eq!(free["type"], "job");
    assert_eq!(free["parameters"], json!({"job_id": "j2", "anything": {"at": "all"}}));
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_sees_no_action_of_another() {
    let server = TestServer::locked().await;
    server.post("/api/v1/plans", &plan()).await.expect(201);
    server.post("/api/v1/actions", &json!({"action_id": "a1", "plan_id": "p1"})).await.expect(201);
    let theirs = server.token("theirs", Role::Admin).await;
    let ask =
        async |method: Method, path: &str| server.call_as(Some(&theirs), method, path, None).await;
    ask(Method::GET, "/api/v1/actions/a1").await.refused(404, "E.ACTION.NOT_FOUND");
    ask(Method::POST, "/api/v1/actions/a1/cancel").await.refused(404, "E.ACTION.NOT_FOUND");
    assert_eq!(ask(Method::GET, "/api/v1/actions").await.expect(200)["total"], 0);
    let own = server.get("/api/v1/actions/a1").await.expect(200);
    assert_eq!(own["state"], "QUEUED", "nothing happened to it");
    server.stop().await;
}

async fn with_plan() -> TestServer {
    let server = TestServer::dev().await;
    server.post("/api/v1/plans", &plan()).await.expect(201);
    server
}

fn plan() -> Value {
    json!({"plan_id": "p1", "tasks": [{"task_number": 1, "command": "sort"},
        {"task_number": 2, "command": "uniq", "input_from_task": 1}]})
}

fn jobs(action: &Value) -> &Vec<Value> {
    action["jobs"].as_array().expect("a list")
}

async fn lease(server: &TestServer, worker: &str) -> Value {
    let tools = ["sort", "uniq"];
    let request = json!({"worker_id": worker, "tools": tools, "max": 1, "wait_ms": 20_000});
    server.post("/api/v1/leases", &request).await.expect(200)["leases"][0].clone()
}

async fn complete(server: &TestServer, lease: &Value) {
    let answer = server.post(&lease_path(lease, "complete"), &json!({"worker_id": "w1"})).await;
    assert_eq!(answer.expect(200)["verdict"], "COMMITTED");
}
