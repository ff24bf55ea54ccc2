//! Nodes of a run: words for those that wait, why they do not run, subgraphs, lists, middlewares.

use serde_json::{Value, json};

use crate::flows::{chain, edge, id, node, node_of, workflow};
use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn an_approval_waits_for_its_word() {
    let server = TestServer::dev().await;
    let approve = node(1, json!({"type": "core.approve", "parameters": {"message": "Ship it?"}}));
    let flow = workflow(&[approve, node(2, json!({}))], &[edge(1, 2)]);
    let run_id = server.start_run(&flow).await;
    let run = server.run(&run_id).await;
    assert_eq!(
        (&run["status"], &node_of(&run, 1)["status"]),
        (&json!("running"), &json!("running"))
    );
    assert_eq!(node_of(&run, 1)["reason"], "it waits for a yes or no");
    let signal = |n: u32| format!("/api/v1/runs/{run_id}/nodes/{}/signal", id(n));
    server.post(&signal(2), &json!({})).await.refused(409, "E.RUN.NOT_WAITING");
    server.post(&signal(7), &json!({})).await.refused(409, "E.RUN.NOT_WAITING");
    server.post(&signal(1), &json!({"yes": true})).await.refused(422, "E.REQUEST.INVALID");
    let bad = format!("/api/v1/runs/{run_id}/nodes/one/signal");
    server.post(&bad, &json!({})).await.refused(404, "E.RUN.NOT_FOUND");
    let yes = json!({"approved": true, "payload": {"comment": "fine"}});
    assert_eq!(server.post(&signal(1), &yes).await.expect(200), json!({"status": "ok"}));
    let run = server.run(&run_id).await;
    assert_eq!(node_of(&run, 1)["result"]["approved"], true);
    server.complete_next(json!({})).await;
    server.post(&signal(1), &yes).await.refused(409, "E.RUN.NOT_WAITING");
    server.post(&signal(7), &yes).await.refused(404, "E.RUN.NOT_FOUND");
    let run_id = server.start_run(&flow).await;
    let path = format!("/api/v1/runs/{run_id}/nodes/{}/signal", id(1));
    server.post(&path, &json!({"approved": false})).await.expect(200);
    let run = server.run(&run_id).await;
    assert_eq!(
        (&run["status"], &node_of(&run, 1)["status"]),
        (&json!("failed"), &json!("failed")),
        "{run}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_node_waits_for_its_own_event_and_gives_what_came_with_it() {
    let server = TestServer::dev().await;
    let wait = node(1, json!({"type": "core.wait_event", "parameters": {"event": "paid"}}));
    let run_id = server.start_run(&workflow(&[wait], &[])).await;
    let path = format!("/api/v1/runs/{run_id}/nodes/{}/signal", id(1));
    let signal = async |event: &str| {
        let body = json!({"event": event, "payload": {"amount": 7}});
        server.post(&path, &body).await
    };
    signal("shipped").await.refused(409, "E.RUN.NOT_WAITING");
    assert_eq!(server.run(&run_id).await["status"], "running", "it still waits");
    signal("paid").await.expect(200);
    let run = server.run(&run_id).await;
    assert_eq!(run["status"], "succeeded");
    let result = node_of(&run, 1)["result"].to_string();
    assert!(result.contains(r#""amount":7"#), "{result}");
    server.stop().await;
}

#[tokio::test]
async fn a_node_says_why_it_does_not_run() {
    let server = TestServer::dev().await;
    let run_id = server.start_run(&chain(2)).await;
    let explain =
        async |n: u32| server.get(&format!("/api/v1/runs/{run_id}/nodes/{}/explain", id(n))).await;
    let first = explain(1).await.expect(200);
    assert_eq!(
        (&first["status"], &first["reasons"][0]["code"]),
        (&json!("queued"), &json!("no_workers"))
    );
    assert!(first["taskId"].is_string());
    let second = explain(2).await.expect(200);
    assert_eq!(second["reasons"][0]["code"], "blocked_by_nodes");
    assert_eq!(second["summary"], "queued: node N1 goes first; it is queued");
    assert!(second.get("taskId").is_none());
    let lease = server.lease("w1").await;
    assert_eq!(explain(1).await.expect(200)["reasons"][0]["code"], "held_by");
    let report = json!({"worker_id": "w1", "result": {}});
    server.post(&lease_path(&lease, "complete"), &report).await.expect(200);
    assert_eq!(explain(1).await.expect(200)["summary"], "succeeded: it has succeeded");
    explain(9).await.refused(404, "E.RUN.NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn a_subgraph_s_nodes_show_where_they_stand() {
    let server = TestServer::dev().await;
    let container = json!({"type": "workflow.container", "alias": "box",
        "parameters": {"__container": {"subgraphId": id(800)}, "x": 1}});
    let mut flow = workflow(&[node(1, container), node(3, json!({}))], &[edge(1, 3)]);
    let inner = workflow(&[node(2, json!({}))], &[]);
    flow["subgraphs"] = json!([{"id": id(800), "definition": inner,
        "metadata": {"label": "Inside"}}]);
    let run_id = server.start_run(&flow).await;
    let run = server.run(&run_id).await;
    assert_eq!(node_of(&run, 1)["status"], "running");
    assert_eq!(node_of(&run, 1)["metadata"]["role"], "container");
    let mark = &node_of(&run, 2)["metadata"]["__frame"];
    assert_eq!((&mark["containerNodeId"], &mark["subgraphId"]), (&json!(id(1)), &json!(id(800))));
    assert_eq!((&mark["aliasChain"], &mark["subgraphName"]), (&json!(["box"]), &json!("Inside")));
    assert_eq!(mark["frameId"], format!("{}::{}::{}", id(900), id(1), id(800)));
    assert_eq!(run["counts"]["total"], 3);
    let why = server.get(&format!("/api/v1/runs/{run_id}/nodes/{}/explain", id(1))).await;
    assert_eq!(why.expect(200)["reasons"][0]["code"], "subgraph");
    server.complete_next(json!({})).await;
    server.complete_next(json!({})).await;
    let run = server.run(&run_id).await;
    assert_eq!((&run["status"], &run["counts"]["succeeded"]), (&json!("succeeded"), &json!(3)));
    let shown = server.get(&format!("/api/v1/runs/{run_id}/definition")).await.expect(200);
    let inside = &shown["subgraphs"][0]["definition"]["nodes"][0]["state"];
    assert_eq!(inside["stage"], "succeeded");
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_one_node_with_counts_and_a_middleware_is_a_row_of_its_own() {
    let server = TestServer::dev().await;
    let list = node(
        1,
        json!({"map": {"over": [10, 20, 30]}, "onError": "continue",
        "retry": {"maxAttempts": 1}}),
    );
    let wrapped = node(
        2,
        json!({"middlewares": [
        {"id": id(20), "type": "core.noop", "label": "Outer"}]}),
    );
    let run_id = server.start_run(&workflow(&[list, wrapped], &[edge(1, 2)])).await;
    server.complete_next(json!({})).await;
    let map = |run: &Value| node_of(run, 1)["map"].clone();
    let run = server.run(&run_id).await;
    assert_eq!(map(&run), json!({"total": 3, "done": 1, "failed": 0}));
    assert_eq!(node_of(&run, 1)["status"], "running");
    server.fail_next("odd").await;
    server.complete_next(json!({})).await;
    let run = server.run(&run_id).await;
    assert_eq!(map(&run), json!({"total": 3, "done": 3, "failed": 1}));
    assert_eq!(node_of(&run, 2)["metadata"]["middlewares"], json!([id(20)]));
    let outer = node_of(&run, 20);
    let metadata = json!({"host_node_id": id(2), "chain_index": 0, "role": "middleware"});
    assert_eq!((&outer["metadata"], &outer["status"]), (&metadata, &json!("queued")));
    assert_eq!(run["counts"]["total"], 2, "middlewares belong to their node");
    server.complete_next(json!({"from": "outer"})).await;
    let run = server.run(&run_id).await;
    assert_eq!(
        (&run["status"], &node_of(&run, 20)["status"]),
        (&json!("succeeded"), &json!("succeeded"))
    );
    assert_eq!(node_of(&run, 2)["result"], json!({"from": "outer"}));
    server.stop().await;
}

#[tokio::test]
async fn a_node_that_waits_for_an_event_says_which() {
    let server = TestServer::dev().await;
    let wait = node(1, json!({"type": "core.wait_event", "parameters": {"event": "paid"}}));
    let run_id = server.start_run(&workflow(&[wait], &[])).await;
    let run = server.run(&run_id).await;
    assert_eq!(node_of(&run, 1)["awaitedEvent"], "paid");
    assert_eq!(node_of(&run, 1)["reason"], "it waits for the event `paid`");
    let path = format!("/api/v1/runs/{run_id}/nodes/{}", id(1));
    let why = server.get(&format!("{path}/explain")).await.expect(200);
    let hint = format!("send it with `astra run signal 1 {} --event paid`", id(1));
    assert_eq!(why["reasons"][0]["hint"], json!(hint));
    let other = server.post(&format!("{path}/signal"), &json!({"event": "sent"})).await;
    other.refused(409, "E.RUN.NOT_WAITING");
    assert!(other.text.contains("does not wait for that: it waits for the event `paid`"));
    server.post(&format!("{path}/signal"), &json!({"event": "paid"})).await.expect(200);
    let run = server.run(&run_id).await;
    assert_eq!(node_of(&run, 1).get("awaitedEvent"), None);
    server.stop().await;
}
