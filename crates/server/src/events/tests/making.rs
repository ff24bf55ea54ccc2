//! Which facts become which events.

use coordinator::{NodeWord, Outcome, RunWord};
use model::{Failure, ResultExtra};
use protocol::rest::events::{
    ArtifactReady, Envelope, NodeErrorData, NodeStatusData, NodeStatusWord, ResultSnapshot,
    RunStatusData,
};
use serde_json::json;

use super::facts::{
    AT, completed, ended, failed_attempt, granted, lease, node_ended, opened, run, settled,
    started, step, submitted, submitted_within, task, worker,
};
use super::{World, next, next_n};
use shard::projection::RESULT_BYTES_MAX;

#[tokio::test]
async fn a_container_begins_after_what_it_waited_for_and_before_what_is_in_it() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    world.events.publish_turn(world.make(&[submitted(1, Some(3))], &[started(3, None)], AT));
    let changes = [completed(1, "{}", None), submitted_within(5, 3, 2)];
    let frames = [opened(3, 4, 2, None), opened(3, 6, 3, Some(0)), opened(3, 6, 4, Some(1))];
    world.events.publish_turn(world.make(&changes, &frames, AT));
    let seen = next_n(&mut reader, 8).await;
    let told: Vec<_> = seen
        .iter()
        .map(|seen| {
            let data = seen.data();
            let of = |n: u64| data["nodeId"] == step(n).to_string();
            let node = (1..9).find(|n| of(*n)).map_or_else(String::new, |n| format!(" {n}"));
            format!("{}{node} {}", seen.kind, data["status"].as_str().unwrap_or_default())
        })
        .collect();
    let expected = [
        "run.status queued",
        "node.status 1 queued",
        "node.status 1 completed",
        "node.result.snapshot 1 ",
        "run.status running",
        "node.status 4 running",
        "node.status 5 queued",
        "node.status 6 running",
    ];
    assert_eq!(told, expected, "and a list begins once");
    assert!(seen[5].data().get("taskId").is_none(), "no task executes a container");
}

#[tokio::test]
async fn a_run_is_told_from_its_beginning_to_its_end() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    let turns = [
        world.make(&[submitted(1, Some(3))], &[started(3, Some("browser"))], AT),
        world.make(&[granted(1, 1, true)], &[], AT),
        world.confirmed(&worker(), &[lease(1, 1)], AT),
        world.make(
            &[completed(1, "{\"a\": 1}", Some("[{\"resource_id\":\"r1\"}]"))],
            &[ended(3, RunWord::Succeeded, None)],
            AT,
        ),
    ];
    for turn in turns {
        world.events.publish_turn(turn);
    }
    let seen = next_n(&mut reader, 9).await;
    let kinds: Vec<_> = seen
        .iter()
        .map(|seen| match seen.data()["status"].as_str() {
            Some(status) => format!("{} {status}", seen.kind),
            None => seen.kind.clone(),
        })
        .collect();
    let expected = [
        "run.status queued",
        "node.status queued",
        "run.status running",
        "node.status dispatching",
        "node.status running",
        "node.status completed",
        "node.result.snapshot",
        "artifact.ready",
        "run.status succeeded",
    ];
    assert_eq!(kinds, expected);
    assert!(seen.windows(2).all(|pair| pair[0].id < pair[1].id), "ids rise");
    assert!(seen.iter().all(|seen| !seen.is_replayed()));
    let envelope = json!({
        "version": "v1", "id": seen[3].id.to_string(), "type": "node.status",
        "occurredAt": "2026-09-21T14:13:20.000Z",
        "scope": {
            "tenant": "acme", "runId": run(3).to_string(), "workerName": "w1",
            "clientSessionId": "browser",
        },
        "data": {
            "kind": "node.status", "runId": run(3).to_string(), "nodeId": step(1).to_string(),
            "taskId": task(1).to_string(), "status": "dispatching", "workerName": "w1",
            "attempt": 1,
        },
    });
    assert_eq!(seen[3].envelope, envelope);
    let result = json!({
        "kind": "node.result.snapshot", "runId": run(3).to_string(),
        "nodeId": step(1).to_string(), "taskId": task(1).to_string(), "revision": 1,
        "format": "json", "content": {"a": 1}, "artifacts": [{"resource_id": "r1"}],
        "complete": true,
    });
    assert_eq!(seen[6].data(), &result);
    assert_eq!(seen[7].data()["artifact"], json!({"resource_id": "r1"}));
    assert_eq!(seen[8].data()["startedAt"], "2026-09-21T14:13:20.000Z");
}

#[tokio::test]
async fn what_is_sent_reads_as_the_shapes_that_clients_have() {
    fn read<D: serde::de::DeserializeOwned>(envelope: &serde_json::Value) -> D {
        let whole: Envelope<'_, D> = serde_json::from_value(envelope.clone()).expect("its shape");
        whole.data
    }
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    let failure = Some(Failure::new("E.RUNNER.FAILURE", "no luck"));
    let changes = [
        submitted(1, Some(1)),
        granted(1, 1, false),
        failed_attempt(1, 1),
        completed(1, "[1]", Some("[7]")),
    ];
    let runs = [started(1, None), ended(1, RunWord::Failed, failure)];
    world.events.publish_turn(world.make(&changes, &runs, AT));
    let seen = next_n(&mut reader, 10).await;
    let run: RunStatusData<'_> = read(&seen[9].envelope);
    assert_eq!((run.number, run.reason.as_deref()), (1, Some("no luck")));
    assert_eq!(run.node_id.as_deref(), Some(step(1).to_string().as_str()));
    let status: NodeStatusData<'_> = read(&seen[3].envelope);
    assert_eq!((status.status, status.attempt), (NodeStatusWord::Running, 1));
    let error: NodeErrorData<'_> = read(&seen[4].envelope);
    assert_eq!((error.error.code.as_ref(), error.will_retry), ("E.RUNNER.FAILURE", true));
    let result: ResultSnapshot<'_> = read(&seen[7].envelope);
    assert_eq!(result.content.expect("content").get(), "[1]");
    let artifact: ArtifactReady<'_> = read(&seen[8].envelope);
    assert_eq!(artifact.artifact.get(), "7");
}

#[tokio::test]
async fn each_end_has_its_word() {
    let skipped = Some(Box::new(ResultExtra { is_skipped: true, artifacts: None }));
    let cases = [
        (settled(1, Outcome::Completed, None, None), "completed"),
        (settled(1, Outcome::Completed, None, skipped), "skipped"),
        (settled(1, Outcome::Failed, None, None), "failed"),
        (settled(1, Outcome::Dead, None, None), "failed"),
        (settled(1, Outcome::Stopped, None, None), "cancelled"),
    ];
    for (end, expected) in cases {
        let world = World::new().await;
        let mut reader = world.reader(None).await;
        world.events.publish_turn(world.make(
            &[submitted(1, Some(1)), end],
            &[started(1, None)],
            AT,
        ));
        let seen = next_n(&mut reader, 3).await;
        let last = seen.last().expect("events");
        assert_eq!((last.kind.as_str(), &last.data()["status"]), ("node.status", &expected.into()));
        let has_error = seen.iter().any(|seen| seen.kind == "node.error");
        assert_eq!(has_error, expected == "failed");
    }
}

#[tokio::test]
async fn ends_that_no_task_tells_are_told_by_the_run() {
    let cases = [
        (NodeWord::Succeeded, "completed"),
        (NodeWord::Failed, "failed"),
        (NodeWord::Skipped, "skipped"),
        (NodeWord::Blocked, "skipped"),
        (NodeWord::Cancelled, "cancelled"),
    ];
    for (word, expected) in cases {
        let world = World::new().await;
        let mut reader = world.reader(None).await;
        let runs = [started(1, None), node_ended(1, 9, word)];
        world.events.publish_turn(world.make(&[], &runs, AT));
        let seen = next(&mut reader).await;
        let status = seen.iter().find(|seen| seen.kind == "node.status").expect("a status");
        assert_eq!(status.data()["status"], expected);
        assert_eq!(status.data()["nodeId"], step(9).to_string());
        assert_eq!(status.data()["frame"], 2, "the subgraph that it stands in");
        let has = |kind: &str| seen.iter().any(|seen| seen.kind == kind);
        assert_eq!(has("node.error"), word == NodeWord::Failed);
        assert_eq!(has("node.result.snapshot"), word == NodeWord::Succeeded);
    }
}

#[tokio::test]
async fn a_large_result_is_not_told_but_where_it_is() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    let large = format!("\"{}\"", "x".repeat(RESULT_BYTES_MAX));
    let changes = [submitted(1, Some(1)), completed(1, &large, None)];
    world.events.publish_turn(world.make(&changes, &[started(1, None)], AT));
    let seen = next_n(&mut reader, 4).await;
    let data = seen[3].data();
    assert_eq!((&data["content"], &data["complete"]), (&json!(null), &json!(false)));
    let summary = data["summary"].as_str().expect("a sentence");
    assert!(summary.contains(&format!("GET /api/v1/tasks/{}", task(1))), "{summary}");
}

#[tokio::test]
async fn a_result_with_line_breaks_stays_one_event() {
    let world = World::new().await;
    let mut reader = world.reader(None).await;
    let pretty = "{\r\n  \"a\": \"one\\ntwo\",\n\n  \"b\": [\n1\n]\n}";
    let changes = [submitted(1, Some(1)), completed(1, pretty, None)];
    world.events.publish_turn(world.make(&changes, &[started(1, None)], AT));
    let seen = next_n(&mut reader, 4).await;
    assert_eq!(seen[3].data()["content"], json!({"a": "one\ntwo", "b": [1]}));
}

#[tokio::test]
async fn plain_tasks_make_no_events() {
    let world = World::new().await;
    let make = |changes: &[coordinator::Change]| world.make(changes, &[], AT);
    let all =
        [submitted(1, None), granted(1, 1, false), failed_attempt(1, 1), completed(1, "1", None)];
    assert!(make(&all).is_empty());
    // Also beside those of a run.
    assert_eq!(world.make(&[submitted(2, Some(1))], &[started(1, None)], AT).len(), 2);
    assert!(make(&all).is_empty());
    assert_eq!(make(&[completed(2, "1", None)]).len(), 2);
    assert!(make(&[completed(2, "1", None)]).is_empty(), "what has ended is forgotten");
}
