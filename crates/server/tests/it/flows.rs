//! Small workflows, and a worker that executes them by hand.

use serde_json::{Map, Value, json};

use crate::support::{TestServer, lease_path};

/// The id of node `n`.
pub(crate) fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// Node `n`, with what is said about it laid over.
pub(crate) fn node(n: u32, more: Value) -> Value {
    let mut node = json!({"id": id(n), "type": "core.noop", "label": format!("N{n}")});
    lay_over(&mut node, more);
    node
}

fn lay_over(value: &mut Value, more: Value) {
    let keys: Map<String, Value> = serde_json::from_value(more).expect("an object");
    value.as_object_mut().expect("an object").extend(keys);
}

/// From node to node, without data.
pub(crate) fn edge(from: u32, to: u32) -> Value {
    json!({"id": format!("{from}-{to}"), "source": {"node": id(from)}, "target": {"node": id(to)}})
}

pub(crate) fn workflow(nodes: &[Value], edges: &[Value]) -> Value {
    json!({
        "id": id(900),
        "schemaVersion": "2025-10",
        "metadata": {"name": "A small one"},
        "nodes": nodes,
        "edges": edges,
    })
}

/// Nodes 1 to `n`, one after the other; a failure is final.
pub(crate) fn chain(n: u32) -> Value {
    let once = json!({"retry": {"maxAttempts": 1}});
    let nodes: Vec<_> = (1..=n).map(|n| node(n, once.clone())).collect();
    let edges: Vec<_> = (1..n).map(|n| edge(n, n + 1)).collect();
    workflow(&nodes, &edges)
}

/// The node of a view that has this id.
#[track_caller]
pub(crate) fn node_of(run: &Value, n: u32) -> &Value {
    let nodes = run["nodes"].as_array().expect("nodes");
    nodes.iter().find(|node| node["nodeId"] == id(n)).expect("the node")
}

impl TestServer {
    /// Starts a run and gives its id.
    pub(crate) async fn start_run(&self, workflow: &Value) -> String {
        let answer = self.post("/api/v1/runs", &json!({"workflow": workflow})).await.expect(202);
        answer["runId"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn run(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/runs/{id}")).await.expect(200)
    }

    /// Takes the next task as worker `w1` and completes it with this result.
    pub(crate) async fn complete_next(&self, result: Value) -> Value {
        let lease = self.lease("w1").await;
        let report = json!({"worker_id": "w1", "result": result});
        self.post(&lease_path(&lease, "complete"), &report).await.expect(200);
        lease
    }

    /// Takes the next task as worker `w1` and fails it for good.
    pub(crate) async fn fail_next(&self, reason: &str) {
        let lease = self.lease("w1").await;
        let report =
            json!({"worker_id": "w1", "reason": reason, "code": "E.TEST", "retryable": false});
        self.post(&lease_path(&lease, "fail"), &report).await.expect(200);
    }
}
