//! Live events, over real sockets: from the first node to the last, across breaks and restarts.

use std::time::{Duration, Instant};

use hyper::Method;
use protocol::rest::tokens::Role;
use protocol::session::payload::exec::{Channel, Chunk, Feedback};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::flows::{chain, edge, id, node, workflow};
use crate::support::TestServer;
use crate::watching::{Watcher, stories};

const END: &str = "run.status succeeded";

#[tokio::test]
async fn a_run_is_watched_from_its_first_node_to_its_end() {
    let server = TestServer::dev().await;
    let mut watcher = Watcher::open(&server, "").await;
    let run = server.start_run(&chain(2)).await;
    server.complete_next(json!({"n": 1})).await;
    server.complete_next(json!({"n": 2})).await;
    let seen = watcher.until(END).await;
    let expected = [
        "run.status queued",
        "node.status 1 queued",
        "run.status running",
        "node.status 1 running",
        "node.status 1 completed",
        "node.result.snapshot 1",
        "node.status 2 queued",
        "node.status 2 running",
        "node.status 2 completed",
        "node.result.snapshot 2",
        END,
    ];
    assert_eq!(stories(&seen), expected);
    assert!(seen.iter().all(|event| event.envelope["scope"]["runId"] == run.as_str()));
    assert!(seen.iter().all(|event| event.envelope["scope"]["tenant"] == "default"));
    assert_eq!(seen[5].data()["content"], json!({"n": 1}));
    assert_eq!(seen[3].data()["workerName"], "w1");
    let times: Vec<_> = seen.iter().map(|event| event.envelope["occurredAt"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
    server.stop().await;
}

#[tokio::test]
async fn who_names_a_run_gets_it_as_a_whole_first() {
    let server = TestServer::dev().await;
    let run = server.start_run(&chain(2)).await;
    server.start_run(&chain(1)).await;
    server.complete_next(json!({"n": 1})).await;
    for name in [run.as_str(), "1"] {
        let mut watcher = Watcher::open(&server, &format!("?runId={name}")).await;
        let first = watcher.next().await.expect("a snapshot");
        assert_eq!(first.kind, "run.snapshot");
        assert!(first.last_id.is_some() && first.envelope.get("meta").is_none());
        let shown = server.run(&run).await;
        assert_eq!(first.data()["nodes"], shown["nodes"]);
        assert_eq!(first.data()["run"]["status"], "running");
        assert!(first.data()["run"].get("nodes").is_none());
    }
    let mut watcher = Watcher::open(&server, "?runId=1&types=run.status,node.error").await;
    server.complete_next(json!({})).await;
    server.complete_next(json!({})).await;
    let seen = watcher.until(END).await;
    assert_eq!(stories(&seen), [END], "no snapshot for who does not want one, no other run");
    server.stop().await;
}

#[tokio::test]
async fn who_comes_back_misses_nothing_and_gets_nothing_twice() {
    let server = TestServer::dev().await;
    let mut whole = Watcher::open(&server, "").await;
    server.start_run(&chain(3)).await;
    for n in 1..=3 {
        server.complete_next(json!({"n": n})).await;
    }
    let whole = whole.until(END).await;
    for cut in 0..whole.len() - 1 {
        let id = whole[cut].last_id;
        let mut back = Watcher::open_as(&server, "", id, None).await;
        let seen = back.until(END).await;
        assert_eq!(stories(&seen), stories(&whole[cut + 1..]));
        assert!(seen.iter().all(|event| event.envelope["replayed"] == true));
        let query = format!("?lastEventId={}", id.expect("an id"));
        let mut back = Watcher::open(&server, &query).await;
        assert_eq!(back.until(END).await.len(), seen.len(), "the query says the same");
    }
    server.stop().await;
}

#[tokio::test]
async fn ids_rise_across_restarts_and_what_is_gone_is_made_good() {
    let server = TestServer::dev().await;
    let mut watcher = Watcher::open(&server, "").await;
    let (live, over) = (server.start_run(&chain(2)).await, server.start_run(&chain(1)).await);
    server.complete_next(json!({})).await;
    let seen = watcher.until("node.status 1 completed").await;
    let before = seen.last().and_then(|event| event.last_id).expect("an id");
    // The other run ends while nobody watches.
    let (server, rest) = tokio::join!(server.restart(), watcher.rest());
    assert!(rest.len() < 4, "{rest:?}");
    assert_eq!(watcher.comments, [": the server stops"]);
    server.until_ready().await;
    for _ in 0..2 {
        server.complete_next(json!({})).await;
    }
    let is_over = |run: &serde_json::Value| run["status"] == "succeeded";
    server.until(&format!("/api/v1/runs/{over}"), is_over).await;
    let mut back = Watcher::open_as(&server, "", Some(before), None).await;
    let (first, second) = (back.next().await.expect("one"), back.next().await.expect("two"));
    let mut told = [&first, &second].map(|event| (event.story(), event.data().clone()));
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let statuses = [&first, &second].map(|event| event.envelope["meta"]["gap"].clone());
    assert_eq!(statuses, [json!(true), json!(true)]);
    assert!(first.last_id.is_none() && second.last_id > Some(before), "only the last has the id");
    let of = |run: &str| {
        let has = |event: &&crate::watching::Event| event.envelope["scope"]["runId"] == run;
        [&first, &second].into_iter().find(has).map(crate::watching::Event::story)
    };
    assert_eq!(of(&over).as_deref(), Some(END));
    let live_story = of(&live).expect("the other run");
    assert!(["run.snapshot", END].contains(&live_story.as_str()), "{live_story}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_cut_off_and_comes_back_for_a_snapshot() {
    /// More than the past of a tenant, what a reader has in hand, and what the sockets hold.
    const RESULTS: u32 = 720;
    let server = TestServer::dev().await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a small one");
    let mut stream = socket.connect(server.server().http_addr()).await.expect("a connection");
    stream
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .expect("sent");
    let mut text = vec![0; 4_096];
    let n_read = stream.read(&mut text).await.expect("an answer");
    text.truncate(n_read);
    let nodes: Vec<_> = (1..=RESULTS).map(|n| node(n, json!({}))).collect();
    let mut flow = workflow(&nodes, &[]);
    flow["outputs"] = json!({"done": true});
    let run = server.start_run(&flow).await;
    let mut n_left = RESULTS as usize;
    while n_left > 0 {
        n_left -= complete_many(&server, &json!({"x": "x".repeat(60_000)})).await;
    }
    let run = server.run(&format!("{run}?nodes=false")).await;
    assert_eq!(run["status"], "succeeded", "who does not read holds up nobody: {run}");
    let reading = stream.read_to_end(&mut text);
    // The answer ends, the connection need not.
    let _ = tokio::time::timeout(Duration::from_secs(5), reading).await;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("\n: too slow;"), "it ends with {}", &text[text.len() - 200..]);
    assert!(!text.contains(r#""status":"succeeded""#), "it has missed the end");
    let last = text.lines().rev().find_map(|line| line.strip_prefix("id: "));
    let last = last.expect("an id").parse().expect("a number");
    let mut back = Watcher::open_as(&server, "", Some(last), None).await;
    let first = back.next().await.expect("how things stand");
    assert_eq!((first.story().as_str(), &first.envelope["meta"]["gap"]), (END, &json!(true)));
    server.stop().await;
}

/// Completes as many tasks as one call may, all with this result.
async fn complete_many(server: &TestServer, result: &serde_json::Value) -> usize {
    let ask = json!({"worker_id": "w1", "max": 100, "wait_ms": 20_000});
    let leases = server.post("/api/v1/leases", &ask).await.expect(200)["leases"].clone();
    let leases = leases.as_array().expect("a list");
    let of = |lease: &serde_json::Value| {
        json!({"lease_id": lease["lease_id"], "worker_id": "w1", "outcome": "complete",
            "result": result})
    };
    let reports: Vec<_> = leases.iter().map(of).collect();
    server.post("/api/v1/reports", &json!({"reports": reports})).await.expect(200);
    leases.len()
}

#[tokio::test]
async fn a_failed_node_says_why_and_so_does_its_run() {
    let server = TestServer::dev().await;
    let mut watcher = Watcher::open(&server, "?types=node.error,run.status").await;
    server.start_run(&chain(2)).await;
    server.fail_next("the disk is full").await;
    let seen = watcher.until("run.status 1 failed").await;
    let error = seen.iter().find(|event| event.kind == "node.error").expect("an error");
    assert_eq!(error.data()["error"], json!({"code": "E.TEST", "message": "the disk is full"}));
    assert_eq!((&error.data()["willRetry"], &error.data()["attempt"]), (&json!(false), &json!(1)));
    let end = seen.last().expect("the end").data();
    assert_eq!((&end["nodeId"], &end["error"]["code"]), (&json!(id(1)), &json!("E.TEST")));
    server.stop().await;
}

#[tokio::test]
async fn runs_of_one_client_are_told_to_that_client_and_to_those_who_say_none() {
    let server = TestServer::dev().await;
    let mut mine = Watcher::open(&server, "?clientSessionId=me&types=run.status").await;
    let mut other = Watcher::open(&server, "?clientSessionId=other&types=run.status").await;
    let mut anyone = Watcher::open(&server, "?types=run.status").await;
    let body = json!({"clientId": "me", "workflow": chain(1)});
    server.post("/api/v1/runs", &body).await.expect(202);
    server.complete_next(json!({})).await;
    let unbound = server.start_run(&chain(1)).await;
    for watcher in [&mut mine, &mut anyone] {
        let seen = watcher.until(END).await;
        assert!(seen.iter().all(|event| event.envelope["scope"]["clientSessionId"] == "me"));
    }
    let first = other.next().await.expect("an event");
    assert_eq!(first.envelope["scope"]["runId"], unbound.as_str());
    server.stop().await;
}

#[tokio::test]
async fn workers_words_about_a_node_are_heard_at_once() {
    let server = TestServer::dev().await;
    server.start_run(&chain(1)).await;
    let lease = server.lease("w1").await;
    let mut watcher = Watcher::open(&server, "?types=node.state,node.result.*").await;
    let chunk = Chunk {
        channel: Channel::Stdout,
        index: None,
        mime_type: None,
        text: Some("half\n".to_owned()),
        data_base64: None,
        metadata: None,
    };
    let feedback = Feedback {
        run_id: "run".to_owned(),
        task_id: "task".to_owned(),
        stage: Some("train".to_owned()),
        progress: Some(0.5),
        message: None,
        chunks: Some(vec![chunk]),
        metrics: None,
        metadata: None,
    };
    let lease = lease["lease_id"].as_str().expect("an id").parse().expect("a lease");
    let app = server.server().app();
    let handle = app.directory.of(&"default".parse().expect("a name")).await.expect("a shard");
    app.feedback.take(lease, feedback, Some(&handle)).await.expect("taken");
    let seen = watcher.until("node.result.delta 1").await;
    assert_eq!(seen[0].data()["state"]["stage"], "train");
    assert_eq!(seen[1].data()["payload"]["text"], "half\n");
    server.stop().await;
}

#[tokio::test]
async fn what_became_of_a_command_is_told_to_those_who_watch() {
    let server = TestServer::dev().await;
    let offer = json!({"worker_id": "w1", "types": ["a"]});
    server.post("/api/workers/register", &offer).await.expect(200);
    let mut watcher = Watcher::open(&server, "?types=command.*").await;
    let drain = json!({"type": "drain"});
    let accepted = server.post("/api/v1/workers/w1/commands", &drain).await.expect(202);
    let told = watcher.next().await.expect("an event");
    assert_eq!(told.kind, "command.ack");
    assert_eq!(told.data()["commandId"], accepted["command_id"]);
    assert_eq!(
        (&told.data()["workerName"], &told.data()["command"]),
        (&json!("w1"), &json!("drain"))
    );
    assert!(told.data().get("error").is_none(), "{told:?}");
    let path = "/api/v1/workers/w1/commands";
    let endless = json!({"type": "drain", "reason": "x".repeat(100_000)});
    let refused = server.post(path, &endless).await;
    refused.refused(422, "E.REQUEST.INVALID");
    let told = watcher.next().await.expect("an event");
    assert_eq!((told.kind.as_str(), &told.data()["command"]), ("command.error", &json!("drain")));
    let error = json!({"code": "E.REQUEST.INVALID", "message": refused.message()});
    assert_eq!(told.data()["error"], error);
    server.post(path, &json!({"type": "undrain"})).await.expect(202);
    let told = watcher.next().await.expect("an event");
    assert_eq!((told.kind.as_str(), &told.data()["command"]), ("command.ack", &json!("undrain")));
    server.stop().await;
}

#[tokio::test]
async fn a_ticket_opens_the_stream_once() {
    let server = TestServer::locked().await;
    let token = server.token("default", Role::Viewer).await;
    let ask = || server.call_as(Some(&token), Method::POST, "/api/v1/events/tickets", None);
    let answer = ask().await.expect(201);
    assert_eq!(answer["expiresIn"], 60);
    let path = format!("?ticket={}", answer["ticket"].as_str().expect("a ticket"));
    let mut watcher = Watcher::open(&server, &path).await;
    server.start_run(&chain(1)).await;
    assert_eq!(
        watcher.next().await.map(|event| event.story()).as_deref(),
        Some("run.status queued")
    );
    let events = |query: &str| format!("/api/v1/events{query}");
    for query in [path.as_str(), "?ticket=00", "", "?ticket="] {
        let again = server.call_as(None, Method::GET, &events(query), None).await;
        again.refused(401, "E.AUTH.INVALID_TOKEN");
    }
    let worker = server.token("default", Role::Worker).await;
    let refused = server.call_as(Some(&worker), Method::POST, "/api/v1/events/tickets", None).await;
    refused.refused(403, "E.AUTH.FORBIDDEN");
    // A ticket of a token that has ended since opens nothing.
    let late = ask().await.expect(201);
    let token_id = token.split('_').nth(1).expect("an id");
    server.call(Method::DELETE, &format!("/api/v1/tokens/{token_id}"), None).await.expect(200);
    let path = events(&format!("?ticket={}", late["ticket"].as_str().expect("a ticket")));
    server.call_as(None, Method::GET, &path, None).await.refused(401, "E.AUTH.INVALID_TOKEN");
    server.stop().await;
}

#[tokio::test]
async fn tenants_hear_nothing_of_each_other() {
    let server = TestServer::locked().await;
    let stranger = server.token("other", Role::Admin).await;
    let own = server.token("default", Role::Viewer).await;
    let mut there = Watcher::open_as(&server, "?types=run.status", None, Some(&stranger)).await;
    let mut here = Watcher::open_as(&server, "?types=run.status", None, Some(&own)).await;
    let run = server.start_run(&chain(1)).await;
    server.complete_next(json!({})).await;
    let seen = here.until(END).await;
    let path = format!("/api/v1/events?runId={run}");
    let refused = server.call_as(Some(&stranger), Method::GET, &path, None).await;
    refused.refused(404, "E.RUN.NOT_FOUND");
    let id = seen[0].last_id;
    let mut back = Watcher::open_as(&server, "?types=run.status", id, Some(&stranger)).await;
    let body = json!({"workflow": chain(1)}).to_string();
    let started = server.call_as(Some(&stranger), Method::POST, "/api/v1/runs", Some(&body)).await;
    let theirs = started.expect(202)["runId"].clone();
    for watcher in [&mut there, &mut back] {
        let first = watcher.next().await.expect("an event");
        assert_eq!(first.envelope["scope"]["runId"], theirs);
        assert_eq!(first.envelope["scope"]["tenant"], "other");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let server = TestServer::dev().await;
    for (query, status, code) in [
        ("?types=run.stauts", 422, "E.REQUEST.INVALID"),
        ("?tpyes=run.status", 422, "E.REQUEST.INVALID"),
        ("?runId=77", 404, "E.RUN.NOT_FOUND"),
        ("?runId=x", 404, "E.RUN.NOT_FOUND"),
    ] {
        server.get(&format!("/api/v1/events{query}")).await.refused(status, code);
    }
    // An id that is none is older than everything; there is nothing to make good.
    let mut watcher = Watcher::open(&server, "?lastEventId=x").await;
    server.start_run(&chain(1)).await;
    assert_eq!(
        watcher.next().await.map(|event| event.story()).as_deref(),
        Some("run.status queued")
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_a_state_within_50_ms_of_its_commit() {
    const ROUNDS: u32 = 60;
    let server = TestServer::dev().await;
    let nodes: Vec<_> = (1..=ROUNDS).map(|n| node(n, json!({}))).collect();
    let edges: Vec<_> = (1..ROUNDS).map(|n| edge(n, n + 1)).collect();
    let mut watcher = Watcher::open(&server, "").await;
    server.start_run(&workflow(&nodes, &edges)).await;
    let mut waits = Vec::new();
    for n in 1..=ROUNDS {
        let lease = server.lease("w1").await;
        let path = crate::support::lease_path(&lease, "complete");
        let report = json!({"worker_id": "w1", "result": {}});
        // The answer leaves when the report is durable: what is told later than it is late.
        let asked = Instant::now();
        let answered = async {
            server.post(&path, &report).await.expect(200);
            Instant::now()
        };
        let story = format!("node.status {n} completed");
        let (answered, seen) = tokio::join!(answered, watcher.until(&story));
        let seen_at = seen.last().expect("it").at;
        assert!(seen_at > asked);
        waits.push(seen_at.saturating_duration_since(answered));
    }
    waits.sort();
    let (p50, p95) = (waits[waits.len() / 2], waits[waits.len() * 95 / 100]);
    let worst = waits[waits.len() - 1];
    println!("a state is seen after p50 {p50:?}, p95 {p95:?}, worst {worst:?}");
    assert!(p50 < Duration::from_millis(20), "p50 {p50:?}");
    // The worst may be the doing of other programs on the machine.
    assert!(p95 < Duration::from_millis(50), "p95 {p95:?}, worst {worst:?}");
    server.stop().await;
}
