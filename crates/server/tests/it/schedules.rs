//! Schedules over HTTP: runs that the clock starts, once for each time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use coordinator::{ScheduleProgress, TenantChange};
use hyper::Method;
use model::Timestamp;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};
use shard::Turn;
use store::{SqliteStore, Store as _};

use crate::flows::{chain, id};
use crate::store_trouble::{Disk, disk, set, troubled};
use crate::support::TestServer;

const PATH: &str = "/api/v1/schedules";
/// A time that does not come while a test runs.
const RARELY: &str = "0 0 1 1 *";
const EVERY_SECOND: &str = "* * * * * *";
const HOUR_MS: u64 = 3_600_000;

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
    // A time that waits shows that the new rule is the one that is followed.
    server.until(&own, |seen| seen["waiting"].as_u64() > Some(1)).await;
    let newest = |runs: &Value| runs["items"][0]["number"].as_u64().expect("a number");
    let before = newest(&server.get("/api/v1/runs").await.expect(200));
    server.post(&format!("/api/v1/runs/{before}/cancel"), &json!({})).await.expect(200);
    let after = server.until("/api/v1/runs", |runs| newest(runs) > before).await;
    assert_eq!(newest(&after), before + 1, "one follows the other");
    server.stop().await;
}

#[tokio::test]
async fn of_times_that_passed_while_the_server_was_down_the_latest_is_taken_up_once() {
    let mut server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": "0 * * * *", "overlap": "allow"});
    let own = own(&server.post(PATH, &body).await.expect(201));
    assert_eq!(due_times(&server).await, []);
    let latest = Timestamp::from_millis(now_ms() / HOUR_MS * HOUR_MS);
    for round in ["it was down", "it forgot what it had done"] {
        server = server.restart_after(forget_three_hours).await;
        let seen = server.until(&own, |seen| seen["lastRun"].is_object()).await;
        assert_eq!(seen["lastRun"]["dueAt"], latest.to_string(), "{round}");
        assert_eq!(due_times(&server).await, [latest], "{round}");
    }
    server.stop().await;
}

/// The schedule is as it was three hours ago, when it had not started anything.
async fn forget_three_hours(data: PathBuf) {
    let store = SqliteStore::open(&data).expect("a store");
    let claim = store.claim("default".parse().expect("a name")).await.expect("a claim");
    let kept = store.restore(claim).await.expect("facts").settings.schedules;
    let handled = Timestamp::from_millis(now_ms() - 3 * HOUR_MS);
    let progress = Arc::new(ScheduleProgress { handled, ..ScheduleProgress::default() });
    let schedule = *kept.keys().next().expect("it is kept");
    let tenant = vec![TenantChange::ScheduleFired { schedule, progress }];
    store.commit(Turn { tenant, ..Turn::empty(claim) }).await.expect("kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_while_a_run_is_started_delays_the_run_and_makes_no_second() {
    for broken in [Disk::Full, Disk::LosesTheNextRun, Disk::LosesTheAnswerOfTheNextRun] {
        let (server, trouble) = troubled().await;
        server.post("/api/v1/workflows", &chain(1)).await.expect(201);
        let body = json!({"workflowId": id(900), "cron": EVERY_SECOND, "paused": true});
        let own = own(&server.post(PATH, &body).await.expect(201));
        if broken != Disk::Full {
            set(&trouble, broken);
        }
        server.post(&format!("{own}/resume"), &json!({})).await.expect(200);
        if broken == Disk::Full {
            set(&trouble, broken);
        }
        server.until_not_ready().await;
        if broken != Disk::Full {
            assert_eq!(disk(&trouble), Disk::Fine, "the trouble was met");
        }
        set(&trouble, Disk::Fine);
        server.until_ready().await;
        // The schedule knows its run: a later time does not overtake it.
        let seen = server.until(&own, |seen| seen["lastRun"]["problem"].is_string()).await;
        assert_eq!(seen["lastRun"]["problem"], "run 1 still went on", "{broken:?}");
        assert_eq!(due_times(&server).await.len(), 1, "{broken:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_schedule_runs_now_and_takes_up_the_past_once() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": RARELY, "paused": true});
    let own = own(&server.post(PATH, &body).await.expect(201));
    let now = server.post(&format!("{own}/run"), &json!({})).await.expect(202);
    assert_eq!((&now["number"], &now["existed"]), (&json!(1), &json!(false)));
    let hourly = json!({"cron": "0 * * * *", "inputs": {"b": 2}, "overlap": "allow"});
    patch(&server, &own, &hourly).await;
    let hours = json!({"from": "2026-01-31T03:00:00Z", "to": "2026-01-31T05:00:00Z"});
    let path = format!("{own}/backfill");
    let made = server.post(&path, &hours).await.expect(202);
    assert_eq!(made["waiting"], json!([]), "they may overlap, so none waits");
    for (hour, run) in (3..=5).zip(made["runs"].as_array().expect("a list")) {
        assert_eq!(run["existed"], false);
        let run = server.run(run["runId"].as_str().expect("an id")).await;
        let due = format!("2026-01-31T0{hour}:00:00.000Z");
        assert_eq!(run["inputs"], json!({"b": 2, "scheduledFor": due}));
        assert_eq!(run["counts"]["queued"], 1, "it waits for a worker alone: {run}");
    }
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
async fn where_runs_may_not_overlap_a_backfill_starts_them_one_after_another() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let mut due = Vec::new();
    for (hour, overlap) in [(1, "skip"), (3, "queue"), (5, "cancel")] {
        let body = json!({"workflowId": id(900), "cron": "0 * * * *", "overlap": overlap,
            "paused": true});
        let own = own(&server.post(PATH, &body).await.expect(201));
        let hours = [hour, hour + 1].map(|hour| format!("2026-01-31T0{hour}:00:00.000Z"));
        let span = json!({"from": hours[0], "to": hours[1]});
        let path = format!("{own}/backfill");
        let answer = server.post(&path, &span).await.expect(202);
        assert_eq!((&answer["runs"], &answer["waiting"]), (&json!([]), &json!(hours)));
        for hour in &hours {
            due.push(hour.parse().expect("a time"));
            let n_due = due.len();
            server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == n_due).await;
            let seen = server.until(&own, |seen| seen["lastRun"]["dueAt"] == hour.as_str()).await;
            // The shard looks at it: it must not start the other one.
            patch(&server, &own, &json!({"name": hour})).await;
            let again = server.post(&path, &span).await.expect(202);
            let n_waiting = again["waiting"].as_array().map(Vec::len);
            let kept = server.get(&own).await.expect(200)["waiting"].clone();
            assert_eq!((&seen["waiting"], &kept), (&kept, &json!(n_waiting)), "none waits twice");
            assert_eq!(again["runs"].as_array().map(Vec::len), n_waiting.map(|n| 2 - n));
            let live = server.get("/api/v1/runs?status=queued").await.expect(200);
            assert_eq!(live["items"].as_array().map(Vec::len), Some(1), "{overlap}: {live}");
            server.complete_next(json!({})).await;
        }
        assert_eq!(server.get(&own).await.expect(200)["waiting"], 0);
    }
    assert_eq!(due_times(&server).await, due);
    server.stop().await;
}

#[tokio::test]
async fn what_a_backfill_left_waiting_survives_a_restart_and_a_pause() {
    let server = TestServer::dev().await;
    server.post("/api/v1/workflows", &chain(1)).await.expect(201);
    let body = json!({"workflowId": id(900), "cron": "0 * * * *", "paused": true});
    let own = own(&server.post(PATH, &body).await.expect(201));
    let hours = ["2026-01-31T01:00:00.000Z", "2026-01-31T02:00:00.000Z"];
    let path = format!("{own}/backfill");
    server.post(&path, &json!({"from": hours[0], "to": hours[1]})).await.expect(202);
    server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == 1).await;
    server.post(&format!("{own}/resume"), &json!({})).await.expect(200);
    let server = server.restart().await;
    server.until_ready().await;
    server.complete_next(json!({})).await;
    server.until("/api/v1/runs", |runs| runs["items"][0]["number"] == 2).await;
    assert_eq!(due_times(&server).await, hours.map(|hour| hour.parse().expect("a time")));
    let long = json!({"from": "2025-01-01T00:00:00Z", "to": "2025-02-11T00:00:00Z"});
    server.post(&path, &long).await.expect(202);
    let more = json!({"from": "2025-02-12T00:00:00Z", "to": "2025-02-14T00:00:00Z"});
    server.post(&path, &more).await.refused(429, "E.LIMIT.RUNS");
    // Other times, another rule: what waited is forgotten.
    assert_eq!(patch(&server, &own, &json!({"cron": RARELY})).await["waiting"], 0);
    server.call(Method::DELETE, &format!("/api/v1/workflows/{}", id(900)), None).await;
    let all_of_2025 = json!({"from": "2025-01-01T00:00:00Z", "to": "2025-12-31T00:00:00Z"});
    server.post(&path, &all_of_2025).await.refused(404, "E.WORKFLOW.NOT_FOUND");
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

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("not that late")
}

/// The times that the runs were started for, oldest run first.
async fn due_times(server: &TestServer) -> Vec<Timestamp> {
    let runs = server.get("/api/v1/runs?limit=200").await.expect(200);
    let mut times = Vec::new();
    for run in runs["items"].as_array().expect("a list").iter().rev() {
        let run = server.run(run["runId"].as_str().expect("an id")).await;
        times.push(run["inputs"]["scheduledFor"].as_str().expect("a time").parse().expect("one"));
    }
    times
}

async fn patch(server: &TestServer, own: &str, body: &Value) -> Value {
    server.call(Method::PATCH, own, Some(&body.to_string())).await.expect(200)
}
