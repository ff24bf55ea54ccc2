//! Schedules over HTTP: runs that the clock starts, once for each time.

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};

use crate::flows::{chain, id};
use crate::support::TestServer;

const PATH: &str = "/api/v1/schedules";
/// A time that does not come while a test runs.
const RARELY: &str = "0 0 1 1 *";
const EVERY_SECOND: &str = "* * * * * *";

#[tokio::test]
async fn a_schedule_is_kept_shown_changed_and_forgotten() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": "0 3 * * MON-FRI",
        "timezone": "Europe/Berlin", "inputs": {"a": 1}, "name": "nightly"});
    let made = server.post(PATH, &body).await.expect(201);
    let own = own(&made);
    assert_eq!(made["nextRuns"].as_array().map(Vec::len), Some(5));
    assert_eq!((&made["overlap"], &made["paused"]), (&json!("skip"), &json!(false)));
    let server = server.restart().await;
    let seen = server.get(&own).await.expect(200);
    assert_eq!((&seen["cron"], &seen["inputs"]), (&body["cron"], &body["inputs"]));
    let changed = patch(&server, &own, &json!({"cron": "0 4 * * *", "overlap": "queue"})).await;
    assert_eq!((&changed["cron"], &changed["overlap"]), (&json!("0 4 * * *"), &json!("queue")));
    assert_eq!(changed["name"], "nightly", "what is not given stays");
    let paused = server.post(&format!("{own}/pause"), &json!({})).await.expect(200);
    assert_eq!((&paused["paused"], &paused["nextRuns"]), (&json!(true), &json!([])));
    let resumed = server.post(&format!("{own}/resume"), &json!({})).await.expect(200);
    assert_eq!(resumed["nextRuns"].as_array().map(Vec::len), Some(5));
    assert_eq!(server.get(PATH).await.expect(200)["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.call(Method::DELETE, &own, None).await.status.as_u16(), 204);
    server.get(&own).await.refused(404, "E.SCHEDULE.NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn the_clock_starts_runs_and_a_run_that_goes_on_is_not_overtaken() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": EVERY_SECOND});
    let own = own(&server.post(PATH, &body).await.expect(201));
    server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == 1).await;
    let seen = server.until(&own, |seen| seen["lastRun"]["problem"].is_string()).await;
    assert_eq!(seen["lastRun"]["problem"], "run 1 still went on");
    let run = server.run("1").await;
    assert_eq!(
        run["startedBy"],
        format!("schedule {}", seen["scheduleId"].as_str().expect("an id"))
    );
    assert!(run["inputs"]["scheduledFor"].is_string(), "{run}");
    assert_eq!(
        server.get("/api/v1/runs").await.expect(200)["items"].as_array().map(Vec::len),
        Some(1)
    );
    server.complete_next(json!({})).await;
    server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == 2).await;
    server.stop().await;
}

#[tokio::test]
async fn an_overlap_is_queued_or_ends_the_run_before_or_is_allowed() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": EVERY_SECOND, "overlap": "cancel"});
    let own = own(&server.post(PATH, &body).await.expect(201));
    let is_ended = |run: &Value| run["number"] == 1 && run["status"] == "cancelled";
    server
        .until("/api/v1/runs", |runs| {
            runs["items"].as_array().is_some_and(|items| items.iter().any(is_ended))
        })
        .await;
    patch(&server, &own, &json!({"overlap": "allow"})).await;
    server
        .until("/api/v1/runs?status=queued,running", |runs| {
            runs["items"].as_array().is_some_and(|items| items.len() >= 3)
        })
        .await;
    patch(&server, &own, &json!({"overlap": "queue"})).await;
    let newest = |runs: &Value| runs["items"][0]["number"].as_u64().expect("a number");
    let before = newest(&server.get("/api/v1/runs").await.expect(200));
    server.post(&format!("/api/v1/runs/{before}/cancel"), &json!({})).await;
    let after = server.until("/api/v1/runs", |runs| newest(runs) > before).await;
    assert!(newest(&after) > before);
    server.stop().await;
}

#[tokio::test]
async fn a_time_that_passed_while_the_server_was_down_is_taken_up_once() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": EVERY_SECOND, "overlap": "allow"});
    let own = own(&server.post(PATH, &body).await.expect(201));
    server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == 1).await;
    let due = server.get(&own).await.expect(200)["lastRun"]["dueAt"].clone();
    let server = server.restart().await;
    let seen = server.until(&own, |seen| seen["lastRun"]["dueAt"] != due).await;
    assert!(seen["lastRun"]["runId"].is_string(), "{seen}");
    let runs = server.get("/api/v1/runs?limit=200").await.expect(200);
    let moments: Vec<_> =
        runs["items"].as_array().expect("a list").iter().map(|run| run["runId"].clone()).collect();
    let mut unique = moments.clone();
    unique.dedup();
    assert_eq!(moments, unique);
    server.stop().await;
}

#[tokio::test]
async fn a_schedule_runs_now_and_takes_up_the_past_once() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": RARELY, "paused": true});
    let own = own(&server.post(PATH, &body).await.expect(201));
    let now = server.post(&format!("{own}/run"), &json!({})).await.expect(202);
    assert_eq!((&now["number"], &now["existed"]), (&json!(1), &json!(false)));
    patch(&server, &own, &json!({"cron": "0 * * * *", "inputs": {"b": 2}})).await;
    let hours = json!({"from": "2026-01-31T03:00:00Z", "to": "2026-01-31T05:00:00Z"});
    let path = format!("{own}/backfill");
    let made = server.post(&path, &hours).await.expect(202);
    let numbers: Vec<_> =
        made["runs"].as_array().expect("a list").iter().map(|run| run["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(2), Some(3), Some(4)]);
    assert_eq!(
        server.run("3").await["inputs"],
        json!({"b": 2, "scheduledFor": "2026-01-31T04:00:00.000Z"})
    );
    patch(&server, &own, &json!({"inputs": {"b": 3}})).await;
    let again = server.post(&path, &hours).await.expect(202);
    assert!(again["runs"].as_array().expect("a list").iter().all(|run| run["existed"] == true));
    for (from, to, code) in [
        ("2026-01-31T05:00:00Z", "2026-01-31T03:00:00Z", "E.REQUEST.INVALID"),
        ("2026-01-31T05:00:00Z", "9999-01-31T03:00:00Z", "E.REQUEST.INVALID"),
        ("yesterday", "2026-01-31T03:00:00Z", "E.REQUEST.INVALID"),
        ("2025-01-31T05:00:00Z", "2026-01-31T03:00:00Z", "E.LIMIT.BATCH"),
    ] {
        server.post(&path, &json!({"from": from, "to": to})).await.refused(422, code);
    }
    assert_eq!(
        server.get("/api/v1/runs").await.expect(200)["items"].as_array().map(Vec::len),
        Some(4)
    );
    server.stop().await;
}

#[tokio::test]
async fn a_schedule_that_makes_no_sense_is_refused() {
    let server = TestServer::locked().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let with = |key: &str, value: Value| {
        let mut body = json!({"workflowId": id(900), "cron": RARELY});
        body[key] = value;
        body
    };
    for wrong in [
        with("cron", json!("hourly")),
        with("cron", json!("0 0 30 2 *")),
        with("timezone", json!("Mars/Olympus")),
        with("overlap", json!("maybe")),
        with("inputs", json!([])),
        with("name", json!("x".repeat(257))),
        with("crn", json!("* * * * *")),
    ] {
        server.post(PATH, &wrong).await.refused(422, "E.REQUEST.INVALID");
    }
    for unknown in [
        with("workflowId", json!(id(1))),
        with("workflowId", json!("one")),
        with("version", json!(9)),
    ] {
        server.post(PATH, &unknown).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    }
    assert_eq!(server.get(PATH).await.expect(200)["items"], json!([]));
    let own = own(&server.post(PATH, &with("paused", json!(true))).await.expect(201));
    let answer = server.call(Method::PATCH, &own, Some(r#"{"cron":"never"}"#)).await;
    answer.refused(422, "E.REQUEST.INVALID");
    assert_eq!(server.get(&own).await.expect(200)["cron"], RARELY);
    let other = server.token("other", Role::Admin).await;
    for (method, path) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::POST, "/pause"),
        (Method::POST, "/resume"),
        (Method::POST, "/run"),
    ] {
        let answer = server.call_as(Some(&other), method, &format!("{own}{path}"), None).await;
        answer.refused(404, "E.SCHEDULE.NOT_FOUND");
    }
    server.stop().await;
}

fn own(made: &Value) -> String {
    format!("{PATH}/{}", made["scheduleId"].as_str().expect("an id"))
}

async fn patch(server: &TestServer, own: &str, body: &Value) -> Value {
    server.call(Method::PATCH, own, Some(&body.to_string())).await.expect(200)
}
