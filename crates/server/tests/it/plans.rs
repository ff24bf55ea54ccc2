//! Plans over HTTP: kept, listed, forgotten; and what is refused.

use std::sync::Arc;

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};
use store::SqliteStore;

use crate::support::TestServer;

#[tokio::test]
async fn a_plan_is_kept_once_and_survives_a_restart() {
    let server = TestServer::dev().await;
    let kept = server.post("/api/v1/plans", &dedupe()).await.expect(201);
    assert_eq!(
        kept["tasks"][1],
        json!({"task_number": 2, "command": "uniq", "args": [],
        "input_from_task": 1})
    );
    let again = server.post("/api/v1/plans", &dedupe()).await.expect(200);
    assert_eq!(again, kept);
    let mut other = dedupe();
    other["tasks"][1]["args"] = json!(["-c"]);
    server.post("/api/v1/plans", &other).await.refused(409, "E.PLAN.CONFLICT");
    let server = server.restart().await;
    assert_eq!(server.get("/api/v1/plans/dedupe").await.expect(200), kept);
    server.post("/api/v1/plans", &other).await.refused(409, "E.PLAN.CONFLICT");
    server.stop().await;
}

#[tokio::test]
async fn a_long_plan_is_read_from_the_store_when_it_is_used() {
    let server = TestServer::dev().await;
    let mut long = dedupe();
    long["tasks"][0]["args"] = vec!["x".repeat(1_000); 100].into();
    let kept = server.post("/api/v1/plans", &long).await.expect(201);
    let server = server.restart().await;
    assert_eq!(server.post("/api/v1/plans", &long).await.expect(200), kept);
    let job = server.post("/api/v1/jobs", &json!({"plan_id": "dedupe"})).await.expect(201);
    assert_eq!(job["parameters"]["tasks"], kept["tasks"]);
    server.post("/api/v1/plans", &dedupe()).await.refused(409, "E.PLAN.CONFLICT");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_lost_the_tenant_adds_no_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(SqliteStore::open(folder.path()).expect("opens"));
    let former = TestServer::dev_on(|_| Arc::clone(&store)).await;
    former.until_ready().await;
    let owner = TestServer::dev_on(|_| Arc::clone(&store)).await;
    let kept = owner.post("/api/v1/plans", &dedupe()).await.expect(201);
    let mut other = dedupe();
    other["tasks"][1]["args"] = json!(["-c"]);
    former.post("/api/v1/plans", &other).await.refused(503, "E.STORE.UNAVAILABLE");
    owner.stop().await;
    // It claims the tenant anew, and finds what the other one kept.
    former.until_ready().await;
    assert_eq!(former.get("/api/v1/plans/dedupe").await.expect(200), kept);
    former.post("/api/v1/plans", &other).await.refused(409, "E.PLAN.CONFLICT");
    former.stop().await;
}

#[tokio::test]
async fn of_two_plans_of_one_name_at_once_one_wins() {
    let server = TestServer::dev().await;
    let mut other = dedupe();
    other["tasks"][1]["args"] = json!(["-c"]);
    let (one, two) = (dedupe(), other);
    let (one, two) =
        tokio::join!(server.post("/api/v1/plans", &one), server.post("/api/v1/plans", &two));
    let (won, lost) = if one.status == 201 { (one, two) } else { (two, one) };
    let kept = won.expect(201);
    lost.refused(409, "E.PLAN.CONFLICT");
    assert_eq!(server.get("/api/v1/plans/dedupe").await.expect(200), kept);
    server.stop().await;
}

#[tokio::test]
async fn plans_are_listed_by_name_and_pattern_a_page_at_a_time() {
    let server = TestServer::dev().await;
    for name in ["b1", "a2", "a1", "a3"] {
        let mut plan = dedupe();
        plan["plan_id"] = name.into();
        server.post("/api/v1/plans", &plan).await.expect(201);
    }
    let check = async |query: &str, names: &[&str], total: u64| {
        let list = server.get(&format!("/api/v1/plans{query}")).await.expect(200);
        let plans = list["plans"].as_array().expect("a list");
        let shown: Vec<_> = plans.iter().map(|plan| plan["plan_id"].as_str()).collect();
        assert_eq!(shown, names.iter().map(|name| Some(*name)).collect::<Vec<_>>(), "{query}");
        assert_eq!(list["total"], total, "{query}");
    };
    check("", &["a1", "a2", "a3", "b1"], 4).await;
    check("?pattern=a*&limit=2", &["a1", "a2"], 3).await;
    check("?pattern=a*&limit=2&offset=2", &["a3"], 3).await;
    check("?offset=9", &[], 4).await;
    check("?pattern=%3F1", &["a1", "b1"], 2).await;
    for wrong in ["?limit=0", "?limit=501", "?offset=-1", "?offset=x", "?patern=a"] {
        let answer = server.get(&format!("/api/v1/plans{wrong}")).await;
        answer.refused(422, "E.REQUEST.INVALID");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_plan_is_named_with_its_field() {
    let server = TestServer::dev().await;
    let check = async |change: fn(&mut Value), message: &str| {
        let mut plan = dedupe();
        change(&mut plan);
        let answer = server.post("/api/v1/plans", &plan).await;
        answer.refused(422, "E.REQUEST.INVALID");
        assert!(answer.message().starts_with(message), "{}", answer.text);
    };
    check(|plan| plan["plan_id"] = "a b".into(), "plan_id: ").await;
    check(|plan| plan["tasks"] = json!([]), "tasks: there are 0 tasks").await;
    check(|plan| plan["tasks"][1]["task_number"] = 3.into(), "tasks[1].task_number: ").await;
    check(|plan| plan["tasks"][1]["command"] = "rm;ls".into(), "tasks[1].command: ").await;
    check(|plan| plan["tasks"][0]["args"] = json!(["a|b"]), "tasks[0].args[0]: ").await;
    check(|plan| plan["tasks"][1]["input_from_task"] = 2.into(), "tasks[1].input_from_task: ")
        .await;
    check(|plan| plan["tasks"][0]["timeout_secs"] = 0.into(), "tasks[0].timeout_secs: ").await;
    check(|plan| plan["tasks"][0]["input_from"] = 1.into(), "tasks[0].input_from: unknown field")
        .await;
    check(|plan| plan["tasks"] = "sort".into(), "tasks: invalid type").await;
    server.call(Method::POST, "/api/v1/plans", Some("{")).await.refused(400, "E.REQUEST.MALFORMED");
    assert_eq!(server.get("/api/v1/plans").await.expect(200)["total"], 0);
    server.stop().await;
}

#[tokio::test]
async fn a_plan_with_open_jobs_stays() {
    let server = TestServer::dev().await;
    server.post("/api/v1/plans", &dedupe()).await.expect(201);
    let mut other = dedupe();
    other["plan_id"] = "other".into();
    server.post("/api/v1/plans", &other).await.expect(201);
    let job = server.post("/api/v1/jobs", &json!({"plan_id": "dedupe"})).await.expect(201);
    let remove = async |name: &str| {
        server.call(Method::DELETE, &format!("/api/v1/plans/{name}"), None).await
    };
    remove("other").await.expect(200);
    remove("dedupe").await.refused(409, "E.PLAN.CONFLICT");
    server.get("/api/v1/plans/dedupe").await.expect(200);
    let path = format!("/api/v1/tasks/{}/cancel", job["task_id"].as_str().expect("an id"));
    server.post(&path, &json!({})).await.expect(200);
    assert_eq!(remove("dedupe").await.expect(200), json!({"plan_id": "dedupe"}));
    remove("dedupe").await.refused(404, "E.PLAN.NOT_FOUND");
    server.get("/api/v1/plans/dedupe").await.refused(404, "E.PLAN.NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_sees_no_plan_of_another() {
    let server = TestServer::locked().await;
    server.post("/api/v1/plans", &dedupe()).await.expect(201);
    let theirs = server.token("theirs", Role::Admin).await;
    let ask = async |method: Method, path: &str, body: Option<&str>| {
        server.call_as(Some(&theirs), method, path, body).await
    };
    let path = "/api/v1/plans/dedupe";
    ask(Method::GET, path, None).await.refused(404, "E.PLAN.NOT_FOUND");
    ask(Method::DELETE, path, None).await.refused(404, "E.PLAN.NOT_FOUND");
    let job = json!({"plan_id": "dedupe"}).to_string();
    ask(Method::POST, "/api/v1/jobs", Some(&job)).await.refused(404, "E.PLAN.NOT_FOUND");
    assert_eq!(ask(Method::GET, "/api/v1/plans", None).await.expect(200)["total"], 0);
    let mut own = dedupe();
    own["tasks"][0]["args"] = json!(["-r"]);
    let own = own.to_string();
    ask(Method::POST, "/api/v1/plans", Some(&own)).await.expect(201);
    server.get(path).await.expect(200);
    server.stop().await;
}

fn dedupe() -> Value {
    json!({"plan_id": "dedupe", "plan_description": "lines, once each", "tasks": [
        {"task_number": 1, "command": "sort"},
        {"task_number": 2, "command": "uniq", "input_from_task": 1}
    ]})
}
