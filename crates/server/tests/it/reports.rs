//! Reports and their verdicts.

use serde_json::json;

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn a_result_is_committed_once_and_told_again() {
    let server = TestServer::dev().await;
    let id = server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    let report = json!({"worker_id": "w1", "result": {"n": 1}});
    let committed = json!({"verdict": "COMMITTED", "task_state": "COMPLETED"});
    for _ in 0..2 {
        let answer = server.post(&lease_path(&lease, "complete"), &report).await;
        assert_eq!(answer.expect(200), committed, "a resend hears the same");
    }
    let other = json!({"worker_id": "w1", "result": {"n": 2}});
    let answer = server.post(&lease_path(&lease, "complete"), &other).await.expect(200);
    assert_eq!(
        (&answer["verdict"], &answer["reason"]),
        (&json!("REJECTED"), &json!("duplicate_report"))
    );
    let server = server.restart().await;
    let answer = server.post(&lease_path(&lease, "complete"), &report).await;
    assert_eq!(answer.expect(200), committed, "also after a restart");
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["result"], json!({"n": 1}));
    server.stop().await;
}

#[tokio::test]
async fn a_failure_is_committed_and_the_task_goes_on() {
    let server = TestServer::dev().await;
    let retry = json!({"max_attempts": 2, "backoff_ms": 0});
    let id = server.submit(json!({"type": "a", "retry": retry})).await;
    let lease = server.lease("w1").await;
    let fail = json!({"worker_id": "w1", "reason": "disk full", "code": "E.DISK"});
    let answer = server.post(&lease_path(&lease, "fail"), &fail).await.expect(200);
    assert_eq!(answer["verdict"], "COMMITTED");
    let second = server.lease("w1").await;
    assert_eq!(second["lease_id"], format!("{id}-2"));
    assert_eq!(second["attempt"], 2);
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["ended_attempts"][0]["ending"], "FAILED");
    assert_eq!(
        task["ended_attempts"][0]["error"],
        json!({"code": "E.DISK", "reason": "disk full"})
    );
    let fail = json!({"worker_id": "w1", "reason": "for good", "retryable": false});
    let answer = server.post(&lease_path(&second, "fail"), &fail).await.expect(200);
    assert_eq!(answer, json!({"verdict": "COMMITTED", "task_state": "FAILED"}));
    server.stop().await;
}

#[tokio::test]
async fn a_failure_may_leave_details_behind() {
    let server = TestServer::dev().await;
    let retry = json!({"max_attempts": 2, "backoff_ms": 0});
    let id = server.submit(json!({"type": "a", "retry": retry})).await;
    let fail = |step: u32| json!({"worker_id": "w1", "reason": "no", "details": {"step": step}});
    for step in 1..=2 {
        let lease = server.lease("w1").await;
        let answer = server.post(&lease_path(&lease, "fail"), &fail(step)).await.expect(200);
        assert_eq!(answer["verdict"], "COMMITTED");
        let other = server.post(&lease_path(&lease, "fail"), &fail(9)).await.expect(200);
        assert_eq!(other["reason"], "duplicate_report", "other details are another report");
    }
    let server = server.restart().await;
    let task = server.get(&format!("/api/v1/tasks/{id}")).await.expect(200);
    assert_eq!(task["ended_attempts"][0]["error"]["details"], json!({"step": 1}));
    assert_eq!(task["error"]["details"], json!({"step": 2}));
    let deep = "[".repeat(65) + &"]".repeat(65);
    let deep: serde_json::Value = serde_json::from_str(&deep).expect("JSON");
    let lease = format!("/api/v1/leases/{id}-1/fail");
    let body = json!({"worker_id": "w1", "reason": "no", "details": deep});
    server.post(&lease, &body).await.refused(422, "E.REQUEST.INVALID");
    server.stop().await;
}

#[tokio::test]
async fn a_report_of_a_lost_lease_is_cancelled() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "a", "lease_ttl_ms": 100})).await;
    let lost = server.lease("w1").await;
    let current = server.lease("w2").await;
    assert_eq!(current["task_id"], lost["task_id"]);
    let report = json!({"worker_id": "w1", "result": 1});
    let answer = server.post(&lease_path(&lost, "complete"), &report).await.expect(200);
    assert_eq!(
        (&answer["verdict"], &answer["reason"]),
        (&json!("CANCELLED"), &json!("superseded"))
    );
    server.stop().await;
}

#[tokio::test]
async fn many_reports_get_their_verdicts_in_order() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "a"})).await;
    server.submit(json!({"type": "a"})).await;
    let (one, two) = (server.lease("w1").await, server.lease("w1").await);
    let never = format!("{}-9", two["task_id"].as_str().expect("an id"));
    let reports = json!({"reports": [
        {"lease_id": "nonsense", "worker_id": "w1", "outcome": "complete"},
        {"lease_id": one["lease_id"], "worker_id": "w1", "outcome": "complete", "result": 1},
        {"lease_id": never, "worker_id": "w1", "outcome": "complete"},
        {"lease_id": two["lease_id"], "worker_id": "w2", "outcome": "complete"},
        {"lease_id": two["lease_id"], "worker_id": "w1", "outcome": "fail", "reason": "no",
         "retryable": false},
    ]});
    let answer = server.post("/api/v1/reports", &reports).await.expect(200);
    let verdicts: Vec<_> = answer["verdicts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["verdict"].as_str().expect("a word"), one["reason"].as_str()))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("REJECTED", Some("malformed")),
            ("COMMITTED", None),
            ("REJECTED", Some("unknown_lease")),
            ("REJECTED", Some("not_holder")),
            ("COMMITTED", None),
        ]
    );
    assert_eq!(answer["verdicts"][4]["task_state"], "FAILED");
    let nothing = server.post("/api/v1/reports", &json!({"reports": []})).await.expect(200);
    assert_eq!(nothing, json!({"verdicts": []}));
    server.stop().await;
}

#[tokio::test]
async fn a_report_sent_twice_in_one_call_gets_the_same_verdict_twice() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "a"})).await;
    let lease = server.lease("w1").await;
    let report = json!({"lease_id": lease["lease_id"], "worker_id": "w1", "outcome": "complete"});
    let mut other = report.clone();
    other["result"] = json!("other");
    let reports = json!({"reports": [report, report, other]});
    let answer = server.post("/api/v1/reports", &reports).await.expect(200);
    let committed = json!({"verdict": "COMMITTED", "task_state": "COMPLETED"});
    assert_eq!(answer["verdicts"][0], committed);
    assert_eq!(answer["verdicts"][1], committed);
    assert_eq!(answer["verdicts"][2]["reason"], "duplicate_report");
    server.stop().await;
}
