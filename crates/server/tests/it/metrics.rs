//! The numbers, as a scraper sees them.

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::json;

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn metrics_have_the_names_and_labels_that_are_promised() {
    let server = TestServer::dev().await;
    server.submit(json!({"type": "core.echo", "retry": {"backoff_ms": 0}})).await;
    server.submit(json!({"type": "other.type"})).await;
    let lease = server.lease("w1").await;
    let fail = json!({"worker_id": "w1", "reason": "x"});
    server.post(&lease_path(&lease, "fail"), &fail).await.expect(200);
    let again = server
        .post(
            "/api/v1/leases",
            &json!({"worker_id": "w1", "max": 1, "types": ["core.echo"], "wait_ms": 20_000}),
        )
        .await;
    let again = again.expect(200)["leases"][0].clone();
    server.post(&lease_path(&again, "complete"), &json!({"worker_id": "w1"})).await.expect(200);
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let content_type = answer.headers["content-type"].to_str().expect("text");
    assert!(content_type.starts_with("application/openmetrics-text"), "{content_type}");
    for expected in [
        r#"cmd_dispatch_total{tenant="default",node_type="core.echo"} 2"#,
        r#"cmd_retry_total{reason="failed"} 1"#,
        r#"cmd_retry_total{reason="expired"} 0"#,
        r#"result_latency_ms_bucket{le="1.0",tenant="default",node_type="core.echo"}"#,
        r#"result_latency_ms_count{tenant="default",node_type="core.echo"} 2"#,
        r#"tasks_submitted_total{tenant="default"} 2"#,
        r#"reports_total{tenant="default",verdict="COMMITTED"} 2"#,
        r#"tasks_live{tenant="default"} 1"#,
        r#"tasks_ready{tenant="default"} 1"#,
        r#"inflight_tasks{tenant="default"} 0"#,
        r#"workers{tenant="default",health="healthy"} 1"#,
        r#"http_requests_total{route="/api/v1/tasks",status="201"} 2"#,
        r#"http_request_ms_count{route="/api/v1/leases"} 2"#,
        "store_commit_ms_count ",
        "store_commit_changes_count ",
        "store_available 1",
        "process_resident_memory_bytes ",
    ] {
        assert!(answer.text.contains(expected), "{expected}\n{}", answer.text);
    }
    assert!(answer.text.ends_with("# EOF\n"));
    server.stop().await;
}

#[tokio::test]
async fn metrics_of_a_tenant_are_its_own() {
    let server = TestServer::locked().await;
    server.submit(json!({"type": "secret.project"})).await;
    server.lease("w1").await;
    let theirs = server.token("theirs", Role::Viewer).await;
    let answer = server.call_as(Some(&theirs), Method::GET, "/metrics", None).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.text.contains("default") && !answer.text.contains("secret.project"));
    assert!(answer.text.contains("store_available 1"));
    server.call_as(None, Method::GET, "/metrics", None).await.refused(401, "E.AUTH.INVALID_TOKEN");
    server.stop().await;
}
