//! Middlewares: calls of the next in line, over lost connections and with few slots.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Scene, Sent, Wish};

const MOMENT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_middleware_calls_the_next_in_line_and_gives_what_it_made_of_it() {
    let mut scene = Scene::start().await;
    dispatch(&scene, "l-1", "core.loop", &json!({ "items": ["a", "b"] }), 0);
    for (index, item) in ["a", "b"].into_iter().enumerate() {
        let request = scene.answer().await;
        assert_eq!(request.kind, "biz.exec.next.request");
        assert_eq!(request.corr, "l-1", "by which the server finds the caller");
        let payload = &request.payload;
        assert_eq!(payload["requestId"], format!("next-{index}"));
        assert_eq!((&payload["runId"], &payload["nodeId"]), (&json!("r"), &json!("host")));
        assert_eq!((&payload["middlewareId"], &payload["chainIndex"]), (&json!("n"), &json!(0)));
        assert_eq!(payload["payload"], json!({ "index": index, "item": item }));
        respond(&scene, &request, &json!({ "result": { "got": item } }));
    }
    let result = scene.answer().await;
    assert_eq!(result.payload["status"], "SUCCEEDED");
    let items = json!([{ "got": "a" }, { "got": "b" }]);
    assert_eq!(result.payload["result"], json!({ "count": 2, "items": items }));
}

#[tokio::test]
async fn a_bad_end_of_the_next_in_line_has_its_code() {
    let mut scene = Scene::start().await;
    dispatch(&scene, "l-1", "core.retry", &json!({ "attempts": 1 }), 0);
    let request = scene.answer().await;
    let error = json!({ "code": "next_failed", "message": "it broke" });
    let trace = json!({ "status": "failed", "code": "E.HOST" });
    respond(&scene, &request, &json!({ "error": error, "trace": trace }));
    let result = scene.answer().await;
    assert_eq!(result.payload["status"], "FAILED");
    assert_eq!(result.payload["error"], json!({ "code": "E.HOST", "message": "it broke" }));
    dispatch(&scene, "l-2", "core.retry", &json!({}), 0);
    let request = scene.answer().await;
    let error = json!({ "code": "next_cancelled", "message": "stopped" });
    respond(&scene, &request, &json!({ "error": error }));
    assert_eq!(scene.answer().await.payload["status"], "CANCELLED");
    dispatch(&scene, "l-3", "core.retry", &json!({}), 0);
    let request = scene.answer().await;
    let error = json!({ "code": "next_skipped", "message": "nothing to do" });
    respond(&scene, &request, &json!({ "error": error }));
    assert_eq!(scene.answer().await.payload["status"], "SKIPPED");
}

#[tokio::test]
async fn a_call_without_an_answer_is_made_again_under_its_name() {
    for wish in [|| Wish::Cut, || Wish::Forget] {
        let mut scene = Scene::start().await;
        dispatch(&scene, "l-1", "core.retry", &json!({}), 0);
        let first = scene.answer().await;
        scene.wish(wish());
        scene.until_session().await;
        let second = scene.answer().await;
        assert_eq!(first.payload, second.payload);
        respond(&scene, &second, &json!({ "result": {} }));
        respond(&scene, &second, &json!({ "result": {} }));
        let result = scene.answer().await;
        assert_eq!(result.payload["result"], json!({ "attempts": 1 }));
        scene.check_silence(MOMENT).await;
    }
}

#[tokio::test]
async fn a_lost_lease_ends_the_wait() {
    let mut scene = Scene::start_with(|options| options.offer.slots = 1).await;
    dispatch(&scene, "l-1", "core.retry", &json!({}), 0);
    let request = scene.answer().await;
    scene.cancel("l-1");
    scene.check_silence(MOMENT).await;
    respond(&scene, &request, &json!({ "result": {} }));
    scene.dispatch("l-2", "core.sleep", &json!({ "ms": 1 }));
    assert_eq!(scene.answer().await.corr, "l-2", "the slot is free, and nothing else is said");
}

#[tokio::test]
async fn one_slot_is_enough_for_a_chain() {
    let mut scene = Scene::start_with(|options| options.offer.slots = 1).await;
    let mut requests = Vec::new();
    for (index, lease) in ["l-0", "l-1", "l-2"].into_iter().enumerate() {
        dispatch(&scene, lease, "core.retry", &json!({}), index);
        requests.push(scene.answer().await);
    }
    scene.dispatch("l-3", "core.sleep", &json!({ "ms": 10 }));
    assert_eq!(scene.answer().await.corr, "l-3");
    for request in requests.into_iter().rev() {
        respond(&scene, &request, &json!({ "result": {} }));
        let result = scene.answer().await;
        assert_eq!(
            (result.payload["status"].as_str(), result.corr),
            (Some("SUCCEEDED"), request.corr)
        );
    }
}

#[tokio::test]
async fn who_comes_back_waits_for_a_slot_and_goes_before_what_has_not_begun() {
    let mut scene = Scene::start_with(|options| options.offer.slots = 1).await;
    dispatch(&scene, "l-0", "core.loop", &json!({ "times": 2 }), 0);
    let request = scene.answer().await;
    scene.dispatch("l-1", "core.sleep", &json!({ "ms": 200 }));
    respond(&scene, &request, &json!({ "result": {} }));
    assert_eq!(scene.answer().await.corr, "l-1", "the slot is taken");
    let request = scene.answer().await;
    assert_eq!((request.kind.as_str(), request.corr.as_str()), ("biz.exec.next.request", "l-0"));
    scene.dispatch("l-2", "core.sleep", &json!({ "ms": 100 }));
    scene.dispatch("l-3", "core.sleep", &json!({ "ms": 1 }));
    let refused = scene.answer().await;
    assert_eq!((refused.kind.as_str(), refused.corr.as_str()), ("biz.exec.error", "l-3"));
    respond(&scene, &request, &json!({ "result": {} }));
    assert_eq!(scene.answer().await.corr, "l-2");
    assert_eq!(scene.answer().await.corr, "l-0");
}

#[tokio::test]
async fn a_worker_that_leaves_gives_back_who_waits() {
    let mut scene = Scene::start().await;
    dispatch(&scene, "l-1", "core.retry", &json!({}), 0);
    assert_eq!(scene.answer().await.kind, "biz.exec.next.request");
    scene.worker.handle.drain(Duration::from_millis(50)).await;
    let given_back = scene.answer().await;
    assert_eq!(given_back.payload["code"], "E.RUNNER.CANCELLED");
    scene.worker.handle.ended().await.expect("in order");
}

fn dispatch(scene: &Scene, lease: &str, node_type: &str, parameters: &Value, index: usize) {
    let chain = json!({
        "host_node_id": "host", "middleware_chain": ["n", "m", "o"], "chain_index": index,
    });
    scene.dispatch_more(lease, node_type, parameters, &chain);
}

fn respond(scene: &Scene, request: &Sent, more: &Value) {
    let mut payload = json!({
        "requestId": request.payload["requestId"], "runId": "r", "nodeId": "host",
        "middlewareId": "n",
    });
    let keys = payload.as_object_mut().expect("an object");
    keys.extend(more.as_object().expect("an object").clone());
    let id = format!("response-{}", request.payload["requestId"]);
    scene.send("biz.exec.next.response", &id, &payload);
}
