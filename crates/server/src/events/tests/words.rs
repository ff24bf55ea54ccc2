//! What workers say becomes events only while somebody listens.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{LeaseId, Timestamp};
use protocol::rest::events::{CommandAnswer, EventKind};
use protocol::session::codec::OpenObject;
use protocol::session::payload::exec::{Channel, Chunk, Feedback};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::reader::LINGER_FOR;
use super::World;
use super::facts::{AT, granted, lease, run, started, step, submitted, task, worker};
use crate::logs::Snapshot;

fn raw(json: &serde_json::Value) -> OpenObject {
    let raw = RawValue::from_string(json.to_string()).expect("JSON");
    OpenObject::new(raw).expect("an object")
}

fn silence() -> Feedback {
    Feedback {
        run_id: "run".to_owned(),
        task_id: "task".to_owned(),
        stage: None,
        progress: None,
        message: None,
        chunks: None,
        metrics: None,
        metadata: None,
    }
}

fn chunk(text: &str) -> Chunk {
    Chunk {
        channel: Channel::Llm,
        index: None,
        mime_type: Some("text/plain".to_owned()),
        text: Some(text.to_owned()),
        data_base64: None,
        metadata: Some(raw(&json!({"offset": 3}))),
    }
}

fn overhear(world: &World, lease: LeaseId, feedback: &Feedback) {
    let snapshot = Snapshot {
        attempt: lease.epoch,
        at: Timestamp::from_millis(1_500),
        stage: feedback.stage.clone(),
        progress: feedback.progress,
        message: Some("epoch 1 of 4".to_owned()),
        metrics: BTreeMap::new(),
    };
    world.events.overhear(lease, feedback, || Some(snapshot));
}

fn begin(world: &World) {
    let changes = [submitted(1, Some(1)), submitted(2, None), granted(1, 1, false)];
    world.events.publish_turn(world.make(&changes, &[started(1, None)], AT));
}

#[tokio::test]
async fn a_node_tells_how_it_fares_and_what_it_puts_out() {
    let world = World::new().await;
    begin(&world);
    let mut reader = world.reader(None).await;
    let mut said = Feedback { stage: Some("train".to_owned()), progress: Some(0.25), ..silence() };
    said.chunks = Some(vec![chunk("Hel"), chunk("lo")]);
    said.metadata = Some(raw(&json!({"results": {"a/b": [1], "gone": null}, "other": 1})));
    overhear(&world, lease(2, 1), &said);
    overhear(&world, lease(1, 1), &said);
    let seen = super::next(&mut reader).await;
    assert_eq!(seen.len(), 5, "nothing is told of tasks of no run: {seen:?}");
    let state = json!({
        "kind": "node.state", "runId": run(1).to_string(), "nodeId": step(1).to_string(),
        "taskId": task(1).to_string(),
        "state": {
            "stage": "train", "progress": 0.25, "message": "epoch 1 of 4",
            "lastUpdatedAt": "1970-01-01T00:00:01.500Z",
        },
    });
    assert_eq!(seen[0].data(), &state);
    let delta = json!({
        "kind": "node.result.delta", "runId": run(1).to_string(), "nodeId": step(1).to_string(),
        "revision": 1, "sequence": 1, "operation": "append", "path": "/channels/llm",
        "payload": {"text": "Hel", "mimeType": "text/plain"},
        "chunkMeta": {"channel": "llm", "metadata": {"offset": 3}}, "terminal": false,
    });
    assert_eq!(seen[1].data(), &delta);
    assert_eq!(seen[2].data()["sequence"], 2);
    let part = |place: usize| {
        let data = seen[place].data();
        (data["operation"].clone(), data["path"].clone(), data["payload"].clone())
    };
    assert_eq!(part(3), (json!("replace"), json!("/a~1b"), json!({"value": [1]})));
    assert_eq!(part(4), (json!("remove"), json!("/gone"), json!(null)));
}

#[tokio::test]
async fn words_are_made_into_events_only_while_somebody_listens() {
    let world = World::new().await;
    begin(&world);
    let said = Feedback { progress: Some(0.5), ..silence() };
    let last = world.events.last_id();
    overhear(&world, lease(1, 1), &said);
    let command = || CommandAnswer {
        kind: EventKind::CommandAck.word().into(),
        command_id: "c1".into(),
        worker_name: "w1".into(),
        command: "drain".into(),
        error: None,
    };
    world.events.tell(EventKind::CommandAck, &worker(), command);
    assert_eq!(world.events.last_id(), last, "nobody listens");
    let mut reader = world.reader(None).await;
    overhear(&world, lease(1, 1), &said);
    world.events.tell(EventKind::CommandAck, &worker(), command);
    let seen = super::next_n(&mut reader, 2).await;
    assert_eq!(seen[0].data()["state"]["stage"], "running", "it said how far, not at what");
    assert_eq!(seen[1].envelope["scope"], json!({"tenant": "acme", "workerName": "w1"}));
    assert_eq!(seen[1].kind, "command.ack");
    let last = seen[1].id;
    drop(reader);
    overhear(&world, lease(1, 1), &said);
    assert_eq!(world.events.last_id(), last + 1, "it may come back");
    world.events.pretend_left(LINGER_FOR + Duration::from_secs(1));
    overhear(&world, lease(1, 1), &said);
    assert_eq!(world.events.last_id(), last + 1, "it has gone");
}
